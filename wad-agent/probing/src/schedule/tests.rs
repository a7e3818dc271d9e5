mod oracle;
mod peers;
mod property;
mod world;

use super::*;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A task that is due at the begin of each minute.
fn task(name: &str, [slip, timeout]: [u64; 2], locks: &[Lock]) -> Planned {
    let (every, jitter) = (seconds(60), Duration::ZERO);
    let timing = Timing { every, jitter, slip: seconds(slip), timeout: seconds(timeout) };
    let (first, locks, there) = (Duration::ZERO, locks.to_vec(), None);
    Planned { name: name.into(), timing, first, locks, there }
}

fn schedule(tasks: impl IntoIterator<Item = Planned>) -> Schedule {
    let mut schedule = Schedule::new(Chance::new(1));
    tasks.into_iter().for_each(|task| schedule.add(task));
    schedule
}

fn step(schedule: &mut Schedule, now: u64) -> Step {
    schedule.step(seconds(now), |_| None)
}

/// The run that starts then.
fn started(schedule: &mut Schedule, now: u64, name: &str) -> Run {
    match step(schedule, now) {
        Step::Start(run) if &*run.task == name => run,
        other => panic!("{name} does not start at {now} s: {other:?}"),
    }
}

fn missed(name: &str, began: u64, hindrance: Hindrance) -> Step {
    Step::Missed { task: name.into(), cause: Cause::Period(seconds(began)), hindrance }
}

fn held(lock: &str, holder: &str) -> Hindrance {
    Hindrance::Lock { lock: lock.to_owned(), holder: holder.to_owned() }
}

#[test]
fn runs_share_a_lock_and_one_that_wants_it_alone_waits() {
    let path = || [Lock::shared("path:p")];
    let alone = [Lock::exclusive("path:p")];
    let all =
        [task("a", [0, 10], &path()), task("b", [0, 10], &path()), task("c", [20, 10], &alone)];
    let mut schedule = schedule(all);
    let a = started(&mut schedule, 0, "a");
    let b = started(&mut schedule, 0, "b");
    assert_eq!(a.until, seconds(10));
    assert_eq!(step(&mut schedule, 0), Step::Wait(Some(seconds(10))));
    schedule.ended(a.id);
    assert_eq!(step(&mut schedule, 4), Step::Wait(Some(seconds(10))));
    schedule.ended(b.id);
    started(&mut schedule, 5, "c");
}

#[test]
fn a_miss_says_who_held_the_lock() {
    let locks = [Lock::exclusive("interface:eth0")];
    let mut schedule = schedule([task("a", [0, 50], &locks), task("b", [5, 5], &locks)]);
    let a = started(&mut schedule, 0, "a");
    assert_eq!(step(&mut schedule, 0), Step::Wait(Some(seconds(5))));
    assert_eq!(step(&mut schedule, 5), missed("b", 0, held("interface:eth0", "a")));
    assert_eq!(step(&mut schedule, 5), Step::Wait(Some(seconds(50))));
    schedule.ended(a.id);
    assert_eq!(step(&mut schedule, 6), Step::Wait(Some(seconds(60))));
}

#[test]
fn different_paths_are_not_in_each_others_way() {
    let on = |path: &str| [Lock::exclusive(format!("path:{path}")), Lock::shared("host-cpu")];
    let mut schedule = schedule([task("a", [0, 9], &on("p")), task("b", [0, 9], &on("q"))]);
    started(&mut schedule, 0, "a");
    started(&mut schedule, 0, "b");
}

/// Many that share a lock follow one another without end.
#[test]
fn one_that_wants_a_lock_alone_is_not_starved() {
    let shared = |name: &str, first| {
        let first = seconds(first);
        Planned { first, ..task(name, [20, 10], &[Lock::shared("x")]) }
    };
    let alone = Planned { first: seconds(1), ..task("alone", [40, 10], &[Lock::exclusive("x")]) };
    let mut schedule = schedule([shared("a", 0), alone, shared("b", 2), shared("c", 4)]);
    let a = started(&mut schedule, 0, "a");
    assert_eq!(step(&mut schedule, 1), Step::Wait(Some(seconds(2))));
    assert_eq!(step(&mut schedule, 2), Step::Wait(Some(seconds(4))));
    assert_eq!(step(&mut schedule, 4), Step::Wait(Some(seconds(10))));
    schedule.ended(a.id);
    let alone = started(&mut schedule, 9, "alone");
    assert_eq!(step(&mut schedule, 9), Step::Wait(Some(seconds(19))));
    schedule.ended(alone.id);
    started(&mut schedule, 12, "b");
    started(&mut schedule, 12, "c");
}

/// It is over before those that wait could start.
#[test]
fn a_short_run_goes_ahead_of_one_that_waits() {
    let at = |first, task| Planned { first: seconds(first), ..task };
    let shared = [Lock::shared("x")];
    let mut schedule = schedule([
        task("long", [0, 30], &shared),
        at(1, task("alone", [40, 10], &[Lock::exclusive("x")])),
        at(2, task("short", [20, 5], &shared)),
        at(2, task("longer", [20, 35], &shared)),
    ]);
    started(&mut schedule, 0, "long");
    assert_eq!(step(&mut schedule, 1), Step::Wait(Some(seconds(2))));
    started(&mut schedule, 2, "short");
    assert!(matches!(step(&mut schedule, 2), Step::Wait(_)));
    let late = schedule.step(seconds(22), |_| None);
    assert!(matches!(late, Step::TimeOut(run) if &*run.task == "short"));
    assert_eq!(step(&mut schedule, 22), missed("longer", 2, held("x", "alone")));
}

/// A peer that is dead: the run does not end by itself.
#[test]
fn a_run_that_does_not_end_is_ended_and_its_locks_are_free() {
    let locks = [Lock::exclusive("peer:b")];
    let mut schedule = schedule([task("a", [0, 10], &locks), task("b", [30, 10], &locks)]);
    let a = started(&mut schedule, 0, "a");
    assert_eq!(step(&mut schedule, 10), Step::TimeOut(a.clone()));
    started(&mut schedule, 10, "b");
    // Whoever ended it may say so afterwards.
    schedule.ended(a.id);
    assert!(matches!(step(&mut schedule, 11), Step::Wait(_)));
}

#[test]
fn periods_of_a_suspended_host_are_missed_each_and_the_next_runs() {
    let mut schedule = schedule([task("a", [5, 10], &[])]);
    let a = started(&mut schedule, 0, "a");
    schedule.ended(a.id);
    assert_eq!(step(&mut schedule, 1), Step::Wait(Some(seconds(60))));
    for began in [60, 120] {
        assert_eq!(step(&mut schedule, 182), missed("a", began, Hindrance::NotRunning));
    }
    started(&mut schedule, 182, "a");
}

/// It was suspended in the midst of a run.
#[test]
fn a_task_never_runs_twice_at_a_time() {
    let mut schedule = schedule([task("a", [5, 10], &[])]);
    let a = started(&mut schedule, 0, "a");
    assert!(schedule.ask("a", seconds(1), seconds(3)));
    assert_eq!(step(&mut schedule, 1), Step::Wait(Some(seconds(4))));
    let asked = Cause::Asked(seconds(1));
    let hindrance = held("task:a", "a");
    let expected = Step::Missed { task: "a".into(), cause: asked, hindrance };
    assert_eq!(step(&mut schedule, 4), expected);
    assert_eq!(step(&mut schedule, 61), Step::TimeOut(a));
    started(&mut schedule, 61, "a");
}

#[test]
fn what_hinders_a_task_is_asked_when_its_run_is_due() {
    let mut schedule = schedule([task("a", [5, 10], &[])]);
    let known = schedule.step(Duration::ZERO, |task| {
        assert_eq!(task, "a");
        Some(Hindrance::KnownFromFlows)
    });
    assert_eq!(known, missed("a", 0, Hindrance::KnownFromFlows));
    // Who asks for a run gets it.
    assert!(schedule.ask("a", seconds(1), seconds(3)));
    assert!(!schedule.ask("b", seconds(1), seconds(3)));
    assert_eq!(started(&mut schedule, 1, "a").cause, Cause::Asked(seconds(1)));
}

#[test]
fn a_task_that_is_taken_out_leaves_what_has_begun() {
    let locks = [Lock::exclusive("x")];
    let mut schedule = schedule([task("a", [0, 10], &locks), task("b", [30, 10], &locks)]);
    let a = started(&mut schedule, 0, "a");
    assert!(matches!(step(&mut schedule, 0), Step::Wait(_)));
    let removed = schedule.remove("a", seconds(1));
    assert_eq!(removed, Removed { running: Some(a), waiting: Vec::new() });
    let removed = schedule.remove("b", seconds(1));
    let waiting = vec![Cause::Period(Duration::ZERO)];
    assert_eq!(removed, Removed { running: None, waiting });
    assert_eq!(schedule.remove("b", seconds(1)), Removed::default());
    assert_eq!(step(&mut schedule, 61), Step::Wait(None));
}
