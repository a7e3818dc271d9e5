//! Two hosts whose schedules agree with each other, over a way that loses, delays and
//! disorders what they say; hosts that die and come back. Time passes at once.

use std::{cmp::Reverse, collections::BinaryHeap};

use proptest::prelude::*;
use wad_policy::{
    config::{Resource, ResourceLocks},
    reservation::{ANSWERS_WITHIN, Reply, Wish},
};

use super::*;

/// Nobody has a lock for longer than this after all runs are over: what a run may take, and
/// what is added to that.
const LONGEST: Duration = Duration::from_secs(120);
const SPAN: Duration = Duration::from_secs(900);
/// A host does what is to be done so much after it has heard something.
const SLOW: Duration = Duration::from_millis(1);

/// The two hosts, and the way between them.
#[derive(Clone, Debug)]
struct World {
    seed: u64,
    /// The tasks of each host.
    tasks: [Vec<Job>; 2],
    /// So many of a hundred messages are lost.
    lost_percent: u64,
    most_delay: Duration,
    /// When which host dies, and for how long it is away.
    deaths: Vec<(Moment, usize, Duration)>,
}

#[derive(Clone, Debug)]
struct Job {
    every_seconds: u64,
    slip_seconds: u64,
    timeout_seconds: u64,
    /// It is for the other host, and wants it alone; else it wants the interface.
    is_for_peer: bool,
}

#[derive(Debug)]
enum Event {
    /// A question comes, of the asker's life.
    Asked {
        to: usize,
        question: Question,
        run: RunId,
        life: u32,
    },
    Replied {
        to: usize,
        reply: Reply,
        run: RunId,
        life: u32,
    },
    RunEnds {
        host: usize,
        run: RunId,
        life: u32,
    },
    Dies {
        host: usize,
        back: Moment,
    },
    Lives {
        host: usize,
    },
}

/// A host while it lives.
struct Host {
    schedule: Schedule,
    life: u32,
    running: HashMap<RunId, Running>,
    /// Periods that have ended, of this life.
    rows: Vec<(Arc<str>, Moment)>,
    tasks: Vec<Planned>,
    since: Moment,
    wake: Moment,
}

#[derive(Clone, Debug)]
struct Running {
    started: Moment,
    is_for_peer: bool,
    cause: Cause,
    task: Arc<str>,
}

struct Simulation {
    world: World,
    now: Moment,
    hosts: [Option<Host>; 2],
    lives: u32,
    events: BinaryHeap<Reverse<(Moment, u64, usize)>>,
    happenings: Vec<Option<Event>>,
    chance: u64,
    runs_for_peer: usize,
}

/// The locks that a run of the other host takes, and a task for it.
fn locks() -> Vec<Lock> {
    vec![Lock::exclusive("peer:other"), Lock::exclusive("interface")]
}

fn there() -> There {
    There { peer: "other".into(), locks: ResourceLocks::FILLING }
}

/// Has a schedule answer a peer.
fn reply(schedule: &mut Schedule, question: Question, now: Moment) -> Reply {
    match schedule.asked("other", question, &locks(), now) {
        Ok(()) => Reply::Granted,
        Err(Unagreed::Unknown) => Reply::Unknown,
        Err(Unagreed::Held { task, .. }) => {
            Reply::Held { lock: Resource::Interface, holder: task.map(|task| task.to_string()) }
        }
    }
}

impl Job {
    fn planned(&self, number: usize, first: Moment) -> Planned {
        let seconds = Duration::from_secs;
        let (slip, timeout) = (seconds(self.slip_seconds), seconds(self.timeout_seconds));
        let every = seconds(self.every_seconds).max(slip + timeout);
        let timing = Timing { every, jitter: Duration::ZERO, slip, timeout };
        let locks = match self.is_for_peer {
            true => locks(),
            false => vec![Lock::exclusive("interface")],
        };
        let there = self.is_for_peer.then(there);
        Planned { name: format!("task-{number}").into(), timing, first, locks, there }
    }
}

impl Simulation {
    fn new(world: World) -> Self {
        let (hosts, lives, chance) = ([None, None], 0, world.seed);
        let (events, happenings) = (BinaryHeap::new(), Vec::new());
        let (now, runs_for_peer) = (Duration::ZERO, 0);
        let mut all = Self { world, now, hosts, lives, events, happenings, chance, runs_for_peer };
        (0..2).for_each(|host| all.live(host));
        for (at, host, away) in all.world.deaths.clone() {
            all.at(at, Event::Dies { host, back: at + away });
        }
        all
    }

    fn live(&mut self, host: usize) {
        self.lives += 1;
        let seed = Chance::new(self.world.seed).of(self.lives.into());
        let mut schedule = Schedule::new(seed);
        let first = |name: &str| self.now + seed.of_text(name).part_of(Duration::from_secs(60));
        let jobs = self.world.tasks[host].iter().enumerate();
        let tasks: Vec<_> =
            jobs.map(|(number, job)| job.planned(number, first(&format!("{number}")))).collect();
        tasks.iter().cloned().for_each(|task| schedule.add(task));
        let (life, since, wake) = (self.lives, self.now, self.now);
        let (running, rows) = (HashMap::new(), Vec::new());
        self.hosts[host] = Some(Host { schedule, life, running, rows, tasks, since, wake });
    }

    fn random(&mut self, below: u64) -> u64 {
        self.chance = Chance::new(self.chance).number();
        self.chance % below.max(1)
    }

    fn at(&mut self, at: Moment, event: Event) {
        let place = self.happenings.len();
        self.happenings.push(Some(event));
        self.events.push(Reverse((at, place as u64, place)));
    }

    /// Sends it, if the way does not lose it.
    fn send(&mut self, event: Event) {
        if self.random(100) >= self.world.lost_percent {
            let most = self.world.most_delay.as_millis() as u64;
            let delay = Duration::from_millis(self.random(most + 1));
            self.at(self.now + delay, event);
        }
    }

    fn run(&mut self, until: Moment) {
        loop {
            let wakes = self.hosts.iter().flatten().map(|host| host.wake).min();
            let next = self.events.peek().map(|Reverse((at, ..))| *at);
            let next = wakes.into_iter().chain(next).min();
            let Some(next) = next.filter(|next| *next <= until) else { break };
            self.now = self.now.max(next);
            while let Some(Reverse((at, _, place))) = self.events.peek().copied()
                && at <= self.now
            {
                self.events.pop();
                let event = self.happenings[place].take().expect("it happens once");
                self.happen(event);
            }
            for host in 0..2 {
                if self.hosts[host].as_ref().is_some_and(|it| it.wake <= self.now) {
                    self.step(host);
                }
            }
            self.judge();
        }
        self.now = until;
    }

    fn happen(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Asked { to, question, run, life } => {
                let Some(host) = &mut self.hosts[to] else { return };
                let reply = reply(&mut host.schedule, question, now);
                host.hears(now);
                self.send(Event::Replied { to: 1 - to, reply, run, life });
            }
            Event::Replied { to, reply, run, life } => {
                let Some(host) = self.hosts[to].as_mut().filter(|it| it.life == life) else {
                    return;
                };
                host.schedule.answered(run, Ok(reply), now);
                host.hears(now);
            }
            Event::RunEnds { host, run, life } => {
                let Some(host) = self.hosts[host].as_mut().filter(|it| it.life == life) else {
                    return;
                };
                if let Some(ended) = host.running.remove(&run) {
                    host.schedule.ended(run);
                    host.end(&ended.task, ended.cause);
                    host.hears(now);
                }
            }
            Event::Dies { host, back } => {
                // What ran there is over, and what it had said of itself stays said.
                self.hosts[host] = None;
                self.at(back, Event::Lives { host });
            }
            Event::Lives { host } => {
                if self.hosts[host].is_none() {
                    self.live(host);
                }
            }
        }
    }

    fn step(&mut self, number: usize) {
        loop {
            let (now, Some(host)) = (self.now, &mut self.hosts[number]) else { return };
            let life = host.life;
            match host.schedule.step(now, |_| None) {
                Step::Start(run) => {
                    let planned = host.tasks.iter().find(|task| task.name == run.task);
                    let is_for_peer = planned.is_some_and(|task| task.there.is_some());
                    let (cause, task) = (run.cause, Arc::clone(&run.task));
                    let started = Running { started: now, is_for_peer, cause, task };
                    host.running.insert(run.id, started);
                    self.runs_for_peer += usize::from(is_for_peer);
                    // Some hang.
                    let most = (run.until - now).as_millis() as u64;
                    let length = Duration::from_millis(self.random(most * 5 / 4 + 1));
                    let ends = Event::RunEnds { host: number, run: run.id, life };
                    self.at(now + length, ends);
                }
                Step::TimeOut(run) => {
                    let ended = host.running.remove(&run.id).expect("it runs");
                    host.end(&ended.task, ended.cause);
                }
                Step::Missed { task, cause, .. } | Step::Refused { task, cause, .. } => {
                    host.end(&task, cause);
                }
                Step::Ask { run, question, .. } => {
                    self.send(Event::Asked { to: 1 - number, question, run, life });
                }
                Step::Wait(until) => {
                    assert!(until.is_none_or(|until| until > now), "it waits for the past");
                    host.wake = until.unwrap_or(Duration::MAX);
                    return;
                }
            }
        }
    }

    /// No two runs are where one wants to be alone.
    fn judge(&self) {
        let runs = |host: &Option<Host>, is_for_peer: bool| {
            let host = host.iter().flat_map(|host| host.running.values());
            host.filter(|run| run.is_for_peer == is_for_peer).count()
        };
        let [one, other] = &self.hosts;
        let for_peer = runs(one, true) + runs(other, true);
        assert!(for_peer <= 1, "at {:?}: both ends have a run for the other", self.now);
        for (asker, asked) in [(one, other), (other, one)] {
            let Some((asker, asked)) = asker.as_ref().zip(asked.as_ref()) else { continue };
            // One that has come back since knows of nothing.
            let was_there = asked.since + 2 * ANSWERS_WITHIN;
            let is_known =
                asker.running.values().any(|run| run.is_for_peer && was_there <= run.started);
            let is_alone = asked.running.values().all(|run| run.is_for_peer);
            assert!(!is_known || is_alone, "at {:?}: {:?}", self.now, asked.running);
        }
        for host in self.hosts.iter().flatten() {
            for reserved in &host.schedule.reserved {
                let until = reserved.until();
                assert!(until > self.now && until <= self.now + LONGEST, "{reserved:?}");
            }
        }
    }
}

impl Host {
    fn hears(&mut self, now: Moment) {
        self.wake = self.wake.min(now + SLOW);
    }

    fn end(&mut self, task: &Arc<str>, cause: Cause) {
        if let Cause::Period(began) = cause {
            let row = (Arc::clone(task), began);
            assert!(!self.rows.contains(&row), "{row:?} has two rows");
            self.rows.push(row);
        }
    }

    /// Takes all tasks out: each period that has begun has a row now.
    fn finish(&mut self, now: Moment) {
        for planned in std::mem::take(&mut self.tasks) {
            let Removed { running, waiting } = self.schedule.remove(&planned.name, now);
            if let Some(run) = running {
                self.running.remove(&run.id);
                self.end(&run.task, run.cause);
            }
            waiting.iter().for_each(|cause| self.end(&planned.name, *cause));
            let mut began = planned.first;
            while began <= now {
                let row = (Arc::clone(&planned.name), began);
                assert!(self.rows.contains(&row), "{row:?} has no row");
                began += planned.timing.every;
            }
        }
        assert!(self.running.is_empty());
    }
}

/// Lives a world to its end, and returns how many runs were agreed upon.
fn live(world: World) -> usize {
    let mut simulation = Simulation::new(world);
    simulation.run(SPAN);
    let now = simulation.now;
    simulation.hosts.iter_mut().flatten().for_each(|host| host.finish(now));
    // Nothing more is begun, and what is still on its way arrives.
    simulation.run(now + 2 * LONGEST);
    for host in simulation.hosts.iter_mut().flatten() {
        // A host that came back meanwhile has tasks.
        host.finish(now + 2 * LONGEST);
        host.schedule.expire(Duration::MAX);
        assert!(host.schedule.held.is_empty(), "{:?}", host.schedule.held);
    }
    simulation.runs_for_peer
}

fn job() -> impl Strategy<Value = Job> {
    (30..120_u64, 1..40_u64, 1..30_u64, any::<bool>()).prop_map(
        |(every_seconds, slip_seconds, timeout_seconds, is_for_peer)| Job {
            every_seconds,
            slip_seconds,
            timeout_seconds,
            is_for_peer,
        },
    )
}

fn world() -> impl Strategy<Value = World> {
    let tasks = || proptest::collection::vec(job(), 1..6);
    let death = (0..900_u64, 0..2_usize, 1..120_u64)
        .prop_map(|(at, host, away)| (Duration::from_secs(at), host, Duration::from_secs(away)));
    let deaths = proptest::collection::vec(death, 0..3);
    (any::<u64>(), [tasks(), tasks()], 0..60_u64, 0..12_000_u64, deaths).prop_map(
        |(seed, tasks, lost_percent, most_delay_ms, deaths)| World {
            seed,
            tasks,
            lost_percent,
            most_delay: Duration::from_millis(most_delay_ms),
            deaths,
        },
    )
}

proptest! {
    #![proptest_config(property::cases())]

    #[test]
    fn both_ends_never_run_at_once_and_nobody_holds_a_lock_for_ever(world in world()) {
        live(world);
    }
}

/// Both want each other for a third of the time, over a way of 50 ms.
#[test]
fn both_ends_come_to_their_runs() {
    let job = Job { every_seconds: 60, slip_seconds: 30, timeout_seconds: 20, is_for_peer: true };
    let world = World {
        seed: 7,
        tasks: [vec![job.clone()], vec![job]],
        lost_percent: 0,
        most_delay: Duration::from_millis(50),
        deaths: Vec::new(),
    };
    let runs = live(world);
    assert!((24..=32).contains(&runs), "{runs} of 30");
}

/// A run of the schedule's own that waits is not passed over by those of a peer.
#[test]
fn a_peer_is_refused_where_something_is_in_its_way() {
    let alone = [Lock::exclusive("interface")];
    let mut schedule = schedule([task("own", [30, 20], &alone)]);
    let locks = ResourceLocks::FILLING;
    let offer = |run| Question { run, wish: Wish::Offer { lasts: seconds(60), locks } };
    let held = |task: Option<&str>| Err(Unagreed::Held { lock: 0, task: task.map(Arc::from) });
    let own = started(&mut schedule, 0, "own");
    assert_eq!(schedule.asked("other", offer(1), &alone, seconds(1)), held(Some("own")));
    schedule.ended(own.id);
    assert_eq!(schedule.asked("other", offer(2), &alone, seconds(3)), Ok(()));
    // The answer was lost, and it is asked again; another one is another.
    assert_eq!(schedule.asked("other", offer(2), &alone, seconds(4)), Ok(()));
    assert_eq!(schedule.asked("third", offer(2), &alone, seconds(4)), held(None));
    let commit = Question { run: 2, wish: Wish::Commit };
    assert_eq!(schedule.asked("other", commit, &alone, seconds(7)), Ok(()));
    // A second word does not make it longer.
    assert_eq!(schedule.asked("other", commit, &alone, seconds(30)), Ok(()));
    assert_eq!(step(&mut schedule, 60), Step::Wait(Some(seconds(68))));
    // It never says that it is over.
    started(&mut schedule, 68, "own");
    assert_eq!(schedule.asked("other", commit, &alone, seconds(69)), Err(Unagreed::Unknown));
    let counts = schedule.reservations();
    assert_eq!((counts.given, counts.declined, counts.expired, counts.held), (1, 2, 1, 0));
}

/// An own run that could start, and has not yet, goes before one of a peer.
#[test]
fn a_peer_waits_behind_a_run_that_has_just_come_due() {
    let alone = [Lock::exclusive("interface")];
    let mut schedule = schedule([task("own", [30, 20], &alone)]);
    assert!(schedule.ask("own", seconds(0), seconds(30)));
    let wish = Wish::Offer { lasts: seconds(10), locks: ResourceLocks::FILLING };
    let offer = Question { run: 1, wish };
    let held = Err(Unagreed::Held { lock: 0, task: Some("own".into()) });
    assert_eq!(schedule.asked("other", offer, &alone, seconds(0)), held);
    // What does not meet it does.
    let apart = [Lock::exclusive("path:other")];
    assert_eq!(schedule.asked("other", offer, &apart, seconds(0)), Ok(()));
}

#[test]
fn a_peer_has_a_bounded_number_of_runs_here() {
    let mut schedule = schedule([]);
    let wish = Wish::Offer { lasts: seconds(10), locks: ResourceLocks::LIGHT };
    let shared = [Lock::shared("interface")];
    let mut ask = |peer, run| schedule.asked(peer, Question { run, wish }, &shared, seconds(0));
    assert!((0..16).all(|run| ask("other", run).is_ok()));
    assert_eq!(ask("other", 16), Err(Unagreed::Held { lock: 0, task: None }));
    assert_eq!(ask("third", 16), Ok(()));
}

#[test]
fn a_period_without_agreement_says_who_did_not_agree() {
    let wants = || schedule([Planned { there: Some(there()), ..task("a", [20, 10], &locks()) }]);
    // Answers each question in the same way, and returns what came of the period.
    let end = |answer: &dyn Fn() -> Option<Result<Reply, String>>| {
        let (mut schedule, mut offers) = (wants(), 0);
        for now in 0..=60 {
            loop {
                match step(&mut schedule, now) {
                    Step::Ask { run, question: Question { wish, .. }, .. } => {
                        if let Wish::Offer { lasts, .. } = wish {
                            assert_eq!(lasts, seconds(15));
                            offers += 1;
                        }
                        if let Some(reply) = answer() {
                            schedule.answered(run, reply, seconds(now));
                        }
                    }
                    Step::Refused { why, .. } => return (why, offers),
                    Step::Wait(_) => break,
                    other => panic!("{other:?}"),
                }
            }
        }
        panic!("the period has no end")
    };
    let holder = Some("nightly".to_owned());
    let held = move || Some(Ok(Reply::Held { lock: Resource::HostCpu, holder: holder.clone() }));
    let (why, offers) = end(&held);
    assert_eq!(why, "refused by other: its host-cpu is held by or kept for nightly");
    // At once, and then less and less often.
    assert!((3..=5).contains(&offers), "{offers}");
    for (reply, says) in [
        (Ok(Reply::NoService), "refused by other: it has no [probe], which keeps locks"),
        (Err("its wad is older".to_owned()), "other did not answer: its wad is older"),
    ] {
        assert_eq!(end(&|| Some(reply.clone())).0, says);
    }
    assert_eq!(end(&|| None), ("other did not answer in time".to_owned(), 3));
}
