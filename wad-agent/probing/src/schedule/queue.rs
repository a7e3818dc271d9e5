//! The runs that wait for their locks.

use std::{collections::HashMap, sync::Arc, time::Duration};

use wad_toolbox::clock::Moment;

use super::{
    Cause, Lock, Planned, Step, There,
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
    /// The peer that has to agree.
    pub there: Option<There>,
    /// It is put off until then.
    again: Moment,
    /// How often the peer did not agree, and why not the last time.
    disagreed: (u32, Option<String>),
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
        let (locks, there) = (Arc::clone(locks), planned.there.clone());
        let (again, disagreed, behind) = (Moment::ZERO, (0, None), None);
        Self { task, cause, locks, timeout, last_start, there, again, disagreed, behind }
    }

    /// Makes that of a peer, which waits for nothing.
    pub fn of_peer(task: &Arc<str>, locks: &Arc<[Lock]>, timeout: Duration, now: Moment) -> Self {
        let (task, locks, cause) = (Arc::clone(task), Arc::clone(locks), Cause::Asked(now));
        let (there, again, disagreed, behind) = (None, Moment::ZERO, (0, None), None);
        Self { task, cause, locks, timeout, last_start: now, there, again, disagreed, behind }
    }

    /// Has it wait until then, as the peer did not agree.
    pub fn put_off(&mut self, again: Moment, why: String) {
        (self.again, self.behind) = (again, None);
        self.disagreed = (self.disagreed.0.saturating_add(1), Some(why));
    }

    /// Returns how often the peer did not agree.
    pub const fn disagreed_times(&self) -> u32 {
        self.disagreed.0
    }

    /// Says why it did not start. Where neither a lock nor a peer was in its way, nobody tried in
    /// time.
    pub fn missed(self) -> Step {
        let Self { task, cause, behind, disagreed: (_, disagreed), locks, .. } = self;
        let hindrance = match (behind, disagreed) {
            (Some(Behind { lock, task: holder }), _) => {
                Hindrance::Lock { lock: locks[lock].name.clone(), holder: holder.to_string() }
            }
            (None, Some(why)) => return Step::Refused { task, cause, why },
            (None, None) => Hindrance::NotRunning,
        };
        Step::Missed { task, cause, hindrance }
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

    /// Adds one that was here before, and was the first.
    pub fn put_back(&mut self, waiting: Waiting) {
        self.0.insert(0, waiting);
    }

    /// Returns which lock and which task keep one that waits behind all others from starting now;
    /// None where nothing does.
    pub fn in_the_way(
        &mut self,
        waiting: Waiting,
        now: Moment,
        held: &Held,
    ) -> Option<(usize, Arc<str>)> {
        let last = self.0.len();
        self.0.push(waiting);
        let (_, mut behind) = self.look(now, held, last);
        self.0.pop();
        // It is not among them where it can start.
        let behind = behind.get_mut(last)?.take();
        behind.map(|Behind { lock, task }| (lock, task))
    }

    /// Takes out the runs of a task.
    pub fn remove(&mut self, task: &str) -> Vec<Cause> {
        let of_task = self.0.extract_if(.., |waiting| &*waiting.task == task);
        of_task.map(|waiting| waiting.cause).collect()
    }

    /// Takes out the first run that can start.
    pub fn next(&mut self, now: Moment, held: &Held) -> Option<Waiting> {
        let (place, behind) = self.look(now, held, 0);
        for (waiting, behind) in self.0.iter_mut().zip(behind) {
            waiting.behind = behind.or(waiting.behind.take());
        }
        place.map(|place| self.0.remove(place))
    }

    /// Returns the place of the first run that can start, and what those before it are behind.
    /// Those before a place are taken to wait, even if they could start.
    fn look(&self, now: Moment, held: &Held, from: usize) -> (Option<usize>, Vec<Option<Behind>>) {
        let mut kept: HashMap<&str, Kept<'_>> = HashMap::new();
        let mut behind = Vec::new();
        for (place, waiting) in self.0.iter().enumerate() {
            if waiting.last_start < now || waiting.again > now {
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
            if first.is_none() && place >= from {
                return (Some(place), behind);
            }
            behind.push(first.map(|(lock, task)| Behind { lock, task: Arc::clone(task) }));
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

    /// Returns when they cannot start any more, or are to be tried again.
    pub fn times(&self, now: Moment) -> impl Iterator<Item = Moment> {
        let again = move |waiting: &Waiting| Some(waiting.again).filter(|again| *again > now);
        self.0.iter().flat_map(move |waiting| [Some(waiting.last_start), again(waiting)]).flatten()
    }
}
