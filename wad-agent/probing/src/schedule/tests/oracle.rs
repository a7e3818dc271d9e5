//! A naive judge of what has become of a world: it knows what has to hold, and nothing of how
//! the schedule goes about it.

use std::collections::BTreeMap;

use super::{
    world::{History, Lived, Ran, World},
    *,
};

pub fn judge(world: &World, history: &History) {
    no_locks_meet(history);
    each_period_has_one_row(history);
    runs_are_within_their_periods(world, history);
    misses_have_their_reason(world, history);
}

/// Takes each lock by itself, and all that have had it, in the order in which they began.
fn no_locks_meet(history: &History) {
    let mut takers: BTreeMap<&str, Vec<(&Ran, bool)>> = BTreeMap::new();
    for run in &history.runs {
        let task = &history.tasks[run.task].planned;
        for lock in &task.locks {
            takers.entry(&lock.name).or_default().push((run, lock.is_exclusive));
        }
        takers.entry(&task.name).or_default().push((run, true));
    }
    for (lock, mut takers) in takers {
        takers.sort_by_key(|(run, _)| (run.start, run.end));
        let mut holders: Vec<(&Ran, bool)> = Vec::new();
        for (run, is_exclusive) in takers {
            holders.retain(|(holder, _)| holder.end > run.start);
            for (holder, holds_alone) in &holders {
                assert!(!is_exclusive && !holds_alone, "{lock}: {holder:?} and {run:?}");
            }
            holders.push((run, is_exclusive));
        }
    }
}

/// Counts the periods that have begun while there was a task by going through them.
fn each_period_has_one_row(history: &History) {
    let mut rows: BTreeMap<(usize, bool, Moment), usize> = BTreeMap::new();
    for row in &history.rows {
        let (is_asked, at) = match row.cause {
            Cause::Period(began) => (false, began),
            Cause::Asked(at) => (true, at),
        };
        *rows.entry((row.task, is_asked, at)).or_default() += 1;
    }
    let mut periods = 0;
    for (task, Lived { planned, until }) in history.tasks.iter().enumerate() {
        let mut began = planned.first;
        while began <= *until {
            assert_eq!(rows.get(&(task, false, began)), Some(&1), "{planned:?} at {began:?}");
            began += planned.timing.every;
            periods += 1;
        }
    }
    let of_periods = rows.keys().filter(|(_, is_asked, _)| !is_asked).count();
    assert_eq!(of_periods, periods, "rows of no period");
}

fn runs_are_within_their_periods(world: &World, history: &History) {
    for run in &history.runs {
        let Timing { every, jitter, slip, timeout } = history.tasks[run.task].planned.timing;
        let was_suspended =
            world.suspended.iter().any(|(at, length)| *at <= run.end && run.start <= *at + *length);
        assert!(
            run.start <= run.end && (was_suspended || run.end - run.start <= timeout),
            "{run:?}"
        );
        let Cause::Period(began) = run.cause else { continue };
        assert!((began..=began + jitter + slip).contains(&run.start), "{run:?}");
        assert!(was_suspended || run.end <= began + every, "{run:?}");
    }
}

fn misses_have_their_reason(world: &World, history: &History) {
    for row in &history.rows {
        let Lived { planned, until } = &history.tasks[row.task];
        match &row.hindrance {
            None => {}
            Some(Hindrance::Lock { lock, holder }) => {
                let own = Lock::exclusive(format!("task:{}", planned.name));
                let mut locks = planned.locks.iter().chain([&own]);
                let wanted = locks.find(|it| it.name == *lock);
                let wanted = wanted.unwrap_or_else(|| panic!("{row:?} never wants it"));
                let meets = |other: &Planned| {
                    let mut locks = other.locks.iter();
                    *other.name == **holder
                        && (lock == &own.name
                            || locks.any(|it| {
                                it.name == *lock && (it.is_exclusive || wanted.is_exclusive)
                            }))
                };
                assert!(history.tasks.iter().any(|lived| meets(&lived.planned)), "{row:?}");
            }
            Some(Hindrance::NotRunning) => {
                let Cause::Period(began) = row.cause else { continue };
                let Timing { jitter, slip, .. } = planned.timing;
                let could_start = began..=began + jitter + slip;
                let was_suspended = world.suspended.iter().any(|(at, length)| {
                    *at <= *could_start.end() && *could_start.start() <= *at + *length
                });
                assert!(was_suspended || row.at == *until, "{row:?} of {planned:?}");
            }
            Some(Hindrance::KnownFromFlows) => {
                assert!(matches!(row.cause, Cause::Period(_)), "{row:?}");
            }
            Some(Hindrance::BackingOff | Hindrance::Stopped { .. }) => panic!("{row:?}"),
        }
    }
}
