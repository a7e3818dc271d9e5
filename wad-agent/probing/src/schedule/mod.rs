//! The schedule: which run starts when, and what becomes of each period of each task.
//!
//! It is a function of what it is told, the time among it: it waits for nobody, and has no
//! clock. Whoever keeps it asks for one step after the other until that is to wait, and asks
//! again then, or when a run has ended.
//!
//! No host-wide class orders runs: each names the locks that it takes, and those whose locks
//! do not meet run side by side. Runs that wait get their locks in the order in which they were
//! due, so that many that share a lock starve none that wants it alone. A later one goes ahead
//! only if it is over, even by its time-out, before the one that waits could start (EASY
//! backfilling: Lifka, The ANL/IBM SP Scheduling System, 1995).

mod agreement;
mod chance;
mod locks;
mod queue;
#[cfg(test)]
mod tests;
mod timing;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use wad_policy::{config::ResourceLocks, reservation::Question};
use wad_toolbox::clock::Moment;

use self::{
    agreement::{Agreed, Agreeing, Reserved},
    locks::Held,
    queue::{Queue, Waiting},
};
pub use self::{
    agreement::{Reservations, Unagreed},
    chance::Chance,
    locks::Lock,
    timing::Timing,
};
use crate::row::Hindrance;

/// Holds what the schedule has to know of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The name, which no other task has.
    pub name: Arc<str>,
    pub timing: Timing,
    /// The begin of its first period.
    pub first: Moment,
    /// The locks that each run takes, beside one of its task: no task runs twice at a time.
    pub locks: Vec<Lock>,
    /// The peer that has to agree to each run.
    pub there: Option<There>,
}

/// A peer that has to agree to each run of a task, and what the runs take there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct There {
    pub peer: Arc<str>,
    pub locks: ResourceLocks,
}

/// The number of a run, which no other has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(u64);

/// Says why a run is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It is the run of the period that began then.
    Period(Moment),
    /// Somebody asked for it then: it is beside the periods.
    Asked(Moment),
}

/// A run that is to start, or does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub id: RunId,
    pub task: Arc<str>,
    pub cause: Cause,
    /// Its time-out.
    pub until: Moment,
}

/// A step is what whoever keeps the schedule has to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A run begins. It has its locks until it is said to have ended.
    Start(Run),
    /// A peer is to be asked about a run, and its reply is to be told, if it is no release.
    Ask { run: RunId, peer: Arc<str>, question: Question },
    /// A run has taken too long, and is to be ended. Its locks are given back already.
    TimeOut(Run),
    /// A run could not start in time.
    Missed { task: Arc<str>, cause: Cause, hindrance: Hindrance },
    /// A run could not start in time, as the peer did not agree to it: why.
    Refused { task: Arc<str>, cause: Cause, why: String },
    /// There is nothing to do until then, or until something is said; None for ever.
    Wait(Option<Moment>),
}

/// Holds what a task leaves that is taken out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// The run that is to be ended.
    pub running: Option<Run>,
    /// These wanted a run, and get none any more.
    pub waiting: Vec<Cause>,
}

/// A schedule of tasks.
#[derive(Debug)]
pub struct Schedule {
    seed: Chance,
    tasks: HashMap<Arc<str>, Task>,
    /// The tasks whose next run is to come, in the order in which it comes due.
    coming: BinaryHeap<Reverse<(Moment, u64, Arc<str>)>>,
    queue: Queue,
    /// Runs that their peers are asked about.
    agreeing: BTreeMap<RunId, Agreeing>,
    to_ask: VecDeque<Step>,
    running: BTreeMap<RunId, Running>,
    /// Runs of peers that have locks here.
    reserved: Vec<Reserved>,
    reservations: Reservations,
    held: Held,
    /// Counts runs, and tasks that were added.
    count: u64,
}

#[derive(Debug)]
struct Task {
    planned: Planned,
    locks: Arc<[Lock]>,
    /// The first period that has not ended in anything: it is to come, waits, or runs.
    period: u64,
    /// Tells it from a task of the same name before it.
    edition: u64,
}

#[derive(Debug)]
struct Running {
    run: Run,
    locks: Arc<[Lock]>,
    agreed: Option<Agreed>,
}

impl Task {
    /// Returns the begin of the period that has not ended.
    fn began(&self) -> Moment {
        let passed = self.planned.timing.every.as_nanos().saturating_mul(self.period.into());
        let passed = Duration::from_nanos(u64::try_from(passed).unwrap_or(u64::MAX));
        self.planned.first.saturating_add(passed)
    }

    /// Returns when its run is due.
    fn due(&self, seed: Chance) -> Moment {
        let Planned { name, timing, .. } = &self.planned;
        self.began().saturating_add(timing.delay(seed.of_text(name), self.period))
    }
}

impl Schedule {
    /// Makes a schedule without tasks.
    pub fn new(seed: Chance) -> Self {
        Self {
            seed,
            tasks: HashMap::new(),
            coming: BinaryHeap::new(),
            queue: Queue::default(),
            agreeing: BTreeMap::new(),
            to_ask: VecDeque::new(),
            running: BTreeMap::new(),
            reserved: Vec::new(),
            reservations: Reservations::default(),
            held: Held::default(),
            count: 0,
        }
    }

    /// Adds a task, of whose name there is none.
    pub fn add(&mut self, planned: Planned) {
        debug_assert!(planned.timing.fits(), "{planned:?}");
        let name = Arc::clone(&planned.name);
        let own = Lock::exclusive(format!("task:{name}"));
        let locks = planned.locks.iter().cloned().chain([own]).collect();
        let task = Task { planned, locks, period: 0, edition: self.next_number() };
        self.tasks.insert(Arc::clone(&name), task);
        self.expect_next(&name);
    }

    /// Takes a task out.
    pub fn remove(&mut self, name: &str, now: Moment) -> Removed {
        let Some(mut task) = self.tasks.remove(name) else { return Removed::default() };
        let mut waiting = self.queue.remove(name);
        waiting.extend(self.leave_agreeing(name));
        waiting.retain(|cause| matches!(cause, Cause::Asked(_)));
        let running = self.running.values().find(|running| &*running.run.task == name);
        let running = running.map(|running| running.run.clone());
        if let Some(run) = &running {
            self.ended(run.id);
            task.period += u64::from(matches!(run.cause, Cause::Period(_)));
        }
        while task.began() <= now {
            waiting.push(Cause::Period(task.began()));
            task.period += 1;
        }
        Removed { running, waiting }
    }

    /// Wants a run beside those of the periods, which starts within this time. Says whether
    /// there is such a task.
    pub fn ask(&mut self, name: &str, now: Moment, patience: Duration) -> bool {
        let Some(task) = self.tasks.get(name) else { return false };
        let last_start = now.saturating_add(patience);
        self.queue.add(Waiting::new(&task.planned, &task.locks, Cause::Asked(now), last_start));
        true
    }

    /// Notes that a run has ended: others may have its locks.
    pub fn ended(&mut self, run: RunId) {
        if let Some(Running { run, locks, agreed }) = self.running.remove(&run) {
            self.held.give_back(run.id, &locks);
            self.to_ask.extend(agreed.map(|agreed| agreed.release(&run)));
            self.is_over(&run.task, run.cause);
        }
    }

    /// Returns when the next run of a period comes due, and of which task.
    pub fn next_run(&mut self) -> Option<(Moment, Arc<str>)> {
        while let Some(Reverse((due, edition, name))) = self.coming.peek() {
            if self.tasks.get(name).is_some_and(|task| task.edition == *edition) {
                return Some((*due, Arc::clone(name)));
            }
            self.coming.pop();
        }
        None
    }

    /// Returns the next step. `hindered` says of a task whose run is due what keeps it from
    /// being wanted at all.
    pub fn step(
        &mut self,
        now: Moment,
        mut hindered: impl FnMut(&str) -> Option<Hindrance>,
    ) -> Step {
        let late = self.running.values().find(|running| running.run.until <= now);
        if let Some(run) = late.map(|late| late.run.clone()) {
            self.ended(run.id);
            return Step::TimeOut(run);
        }
        self.expire(now);
        self.give_up_late(now);
        if let Some(id) = self.agreeing.values().find(|it| it.is_agreed()).map(|it| it.run.id)
            && let Some(agreed) = self.agreeing.remove(&id)
        {
            return self.start_agreed(agreed, now);
        }
        if let Some(ask) = self.to_ask.pop_front() {
            return ask;
        }
        while let Some(name) = self.next_due(now) {
            let Some(task) = self.tasks.get(&name) else { continue };
            let cause = Cause::Period(task.began());
            let last_start = task.due(self.seed).saturating_add(task.planned.timing.slip);
            // Nobody asked while it could have started.
            let unseen = (last_start < now).then_some(Hindrance::NotRunning);
            if let Some(hindrance) = unseen.or_else(|| hindered(&name)) {
                self.is_over(&name, cause);
                return Step::Missed { task: name, cause, hindrance };
            }
            self.queue.add(Waiting::new(&task.planned, &task.locks, cause, last_start));
        }
        if let Some(next) = self.queue.next(now, &self.held) {
            return self.start(next, now);
        }
        if let Some(late) = self.queue.too_late(now) {
            self.is_over(&late.task, late.cause);
            return late.missed();
        }
        let due = self.next_run().map(|(due, _)| due);
        let ends = self.running.values().map(|running| running.run.until);
        let answers = self.agreeing.values().map(Agreeing::until);
        let reserved = self.reserved.iter().map(Reserved::until);
        let times = due.into_iter().chain(ends).chain(answers).chain(reserved);
        Step::Wait(times.chain(self.queue.times(now)).min())
    }

    fn start(&mut self, waiting: Waiting, now: Moment) -> Step {
        let id = RunId(self.next_number());
        let (task, cause) = (Arc::clone(&waiting.task), waiting.cause);
        if let Some(there) = waiting.there.clone() {
            let run = Run { id, task, cause, until: Agreeing::latest_end(&waiting, now) };
            self.held.take(&run, &waiting.locks);
            let chance = self.seed.of(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
            let agreeing = Agreeing::new(waiting, run, (there, chance), now);
            let offer = agreeing.offer();
            self.agreeing.insert(id, agreeing);
            return offer;
        }
        let Waiting { locks, timeout, .. } = waiting;
        let run = Run { id, task, cause, until: now.saturating_add(timeout) };
        self.held.take(&run, &locks);
        self.running.insert(id, Running { run: run.clone(), locks, agreed: None });
        Step::Start(run)
    }

    /// Starts a run that the peer has agreed to.
    fn start_agreed(&mut self, agreeing: Agreeing, now: Moment) -> Step {
        let (Waiting { locks, timeout, .. }, run, agreed) = agreeing.agreed();
        self.held.give_back(run.id, &locks);
        let run = Run { until: now.saturating_add(timeout), ..run };
        self.held.take(&run, &locks);
        let running = Running { run: run.clone(), locks, agreed: Some(agreed) };
        self.running.insert(run.id, running);
        Step::Start(run)
    }

    /// Takes the next task whose run has come due.
    fn next_due(&mut self, now: Moment) -> Option<Arc<str>> {
        self.next_run().filter(|(due, _)| *due <= now)?;
        self.coming.pop().map(|Reverse((.., name))| name)
    }

    /// A period has ended in something: the next one is to come.
    fn is_over(&mut self, name: &str, cause: Cause) {
        if let Some(task) = self.tasks.get_mut(name)
            && matches!(cause, Cause::Period(_))
        {
            task.period += 1;
            self.expect_next(name);
        }
    }

    fn expect_next(&mut self, name: &str) {
        if let Some((name, task)) = self.tasks.get_key_value(name) {
            self.coming.push(Reverse((task.due(self.seed), task.edition, Arc::clone(name))));
        }
    }

    const fn next_number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }
}
