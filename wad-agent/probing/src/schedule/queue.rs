//! The runs that wait for their locks.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::{
    Cause, Lock, Moment, Planned,
    locks::{Held, Holder},
};
use crate::row::Hindrance;

/// The runs that wait, in the order in which they were due.
#[derive(Debug, Default)]
pub struct Queue(Vec<Waiting>);

/// A run that waits.
#[derive(Debug)]
pub struct Waiting {
    pub task: Arc<str>,
    pub cause: Cause,
    pub locks: Arc<[Lock]>,
    pub timeout: Duration,
    /// Later than this it cannot start.
    pub last_start: Moment,
    /// It kept the run from starting when last that was tried.
    behind: Option<Behind>,
}

/// Says of which of its locks a run waits for, and the task that has it or is to have it
/// before.
#[derive(Clone, Debug)]
struct Behind {
    lock: usize,
    task: Arc<str>,
}

/// The claims of runs that wait, taken together.
#[derive(Clone, Copy)]
struct Claim<'q> {
    /// The task of the first of them.
    task: &'q Arc<str>,
    /// Whoever gives the lock back by then is in nobody's way.
    until: Moment,
    /// All of them have given it back by then.
    over: Moment,
}

/// Holds the claims to one lock.
#[derive(Default)]
struct Kept<'q> {
    /// The claims of those that want it alone, which those that share it meet.
    alone: Option<Claim<'q>>,
    /// The claims of all, which those that want it alone meet.
    all: Option<Claim<'q>>,
}

impl Waiting {
    pub fn new(planned: &Planned, locks: &Arc<[Lock]>, cause: Cause, last_start: Moment) -> Self {
        let (task, timeout) = (Arc::clone(&planned.name), planned.timing.timeout);
        Self { task, cause, locks: Arc::clone(locks), timeout, last_start, behind: None }
    }

    /// Says why it did not start. Where no lock was in its way, nobody tried in time.
    pub fn hindrance(&self) -> Hindrance {
        self.behind.as_ref().map_or(Hindrance::NotRunning, |Behind { lock, task }| {
            Hindrance::Lock { lock: self.locks[*lock].name.clone(), holder: task.to_string() }
        })
    }
}

impl<'q> Kept<'q> {
    fn add(&mut self, claim: Claim<'q>, is_exclusive: bool) {
        let alone = is_exclusive.then_some(&mut self.alone);
        for claims in [Some(&mut self.all), alone].into_iter().flatten() {
            let Claim { task, until, over } = claims.unwrap_or(claim);
            *claims =
                Some(Claim { task, until: until.min(claim.until), over: over.max(claim.over) });
        }
    }

    const fn against(&self, lock: &Lock) -> Option<Claim<'q>> {
        if lock.is_exclusive { self.all } else { self.alone }
    }
}

impl Queue {
    pub fn add(&mut self, waiting: Waiting) {
        self.0.push(waiting);
    }

    /// Takes out the runs of a task.
    pub fn remove(&mut self, task: &str) -> Vec<Cause> {
        let of_task = self.0.extract_if(.., |waiting| &*waiting.task == task);
        of_task.map(|waiting| waiting.cause).collect()
    }

    /// Takes out the first run that can start.
    pub fn next(&mut self, now: Moment, held: &Held) -> Option<Waiting> {
        let (place, behind) = self.look(now, held);
        for (waiting, behind) in self.0.iter_mut().zip(behind) {
            waiting.behind = behind.or(waiting.behind.take());
        }
        place.map(|place| self.0.remove(place))
    }

    /// Returns the place of the first run that can start, and what those before it are behind.
    fn look(&self, now: Moment, held: &Held) -> (Option<usize>, Vec<Option<Behind>>) {
        let mut kept: HashMap<&str, Kept<'_>> = HashMap::new();
        let mut behind = Vec::new();
        for (place, waiting) in self.0.iter().enumerate() {
            if waiting.last_start < now {
                behind.push(None);
                continue;
            }
            let end = now.saturating_add(waiting.timeout);
            let mut first = None;
            // It can start then, whatever those take that are in its way.
            let mut clear = now;
            for (at, lock) in waiting.locks.iter().enumerate() {
                for Holder { run, .. } in held.others(lock) {
                    first.get_or_insert((at, &run.task));
                    clear = clear.max(run.until);
                }
                let claim = kept.get(&*lock.name).and_then(|kept| kept.against(lock));
                if let Some(claim) = claim.filter(|claim| claim.until < end) {
                    first.get_or_insert((at, claim.task));
                    clear = clear.max(claim.over);
                }
            }
            let Some((lock, task)) = first else { return (Some(place), behind) };
            behind.push(Some(Behind { lock, task: Arc::clone(task) }));
            let claim = Claim {
                task: &waiting.task,
                until: clear.min(waiting.last_start),
                over: clear.saturating_add(waiting.timeout),
            };
            for lock in &*waiting.locks {
                kept.entry(&lock.name).or_default().add(claim, lock.is_exclusive);
            }
        }
        (None, behind)
    }

    /// Takes out a run that cannot start any more, where none can start now.
    pub fn too_late(&mut self, now: Moment) -> Option<Waiting> {
        let place = self.0.iter().position(|waiting| waiting.last_start <= now)?;
        Some(self.0.remove(place))
    }

    pub fn last_starts(&self) -> impl Iterator<Item = Moment> {
        self.0.iter().map(|waiting| waiting.last_start)
    }
}
