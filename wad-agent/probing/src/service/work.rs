//! The service's thread takes the steps of the schedule, and does what follows from them.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use jiff::{Timestamp, Unit};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};
use tracing::{debug, info, warn};
use wad_policy::{
    config::{Probe, ProbeTask, Resource},
    reservation::{Question, Reply, Wish},
};
use wad_toolbox::clock::{self, Moment};

use super::{
    Asked, GRACE, Order, Others, Passive,
    keeper::Keeper,
    outlook::Told,
    reserved,
    run::{self, Outcome},
    stopped::Before,
};
use crate::{
    row::{Ending, Hindrance, Row},
    schedule::{Cause, Chance, Removed, Run, RunId, Schedule, Step, Unagreed},
    task::Task,
    wall_clock,
};

/// The runtime's clock stands while the host is suspended: so often it is looked at ours.
const LOOK: Duration = Duration::from_secs(1);
/// After failures, a helper is left alone no longer than this.
const MAX_BACK_OFF: Duration = Duration::from_secs(3600);
/// A run that somebody asks for may wait so long for its locks.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Work {
    seed: Chance,
    others: Others,
    keeper: Keeper,
    schedule: Schedule,
    tasks: HashMap<String, Known>,
    runs: JoinSet<(RunId, Outcome)>,
    /// Questions to peers.
    questions: JoinSet<(RunId, Result<Reply, String>)>,
    running: HashMap<RunId, Begun>,
    /// When runs were asked for, on the wall clock as it was then.
    asked: HashMap<Moment, Timestamp>,
    /// Rows that are to be kept.
    rows: Vec<Row>,
    /// The legacy of services before this one, until there are tasks.
    before: Before,
    outlook: Told,
}

/// A task, and how it goes.
struct Known {
    task: Arc<Task>,
    /// The last run measured nothing.
    is_failing: bool,
    /// Its helper has failed so often in a row, and this many periods go by before the next.
    failures: u32,
    left_out: u32,
}

/// A run that goes on.
struct Begun {
    run: Run,
    task: Arc<Task>,
    start: Moment,
    abort: AbortHandle,
}

impl Work {
    pub fn new(
        seed: Chance,
        (others, keeper): (Others, Keeper),
        before: Before,
        outlook: Told,
    ) -> Self {
        Self {
            seed,
            others,
            keeper,
            schedule: Schedule::new(seed),
            tasks: HashMap::new(),
            runs: JoinSet::new(),
            questions: JoinSet::new(),
            running: HashMap::new(),
            asked: HashMap::new(),
            rows: Vec::new(),
            before,
            outlook,
        }
    }

    /// Works until it is told to end.
    pub async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        loop {
            let wait = self.do_all();
            let (running, next) = (self.running.len(), self.schedule.next_run());
            let reservations = self.schedule.reservations();
            self.outlook.change(|it| {
                (it.running, it.next, it.reservations) = (running, next, reservations);
            });
            for row in std::mem::take(&mut self.rows) {
                self.keeper.keep(row).await;
            }
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::Tasks(probe)) => self.follow(probe),
                    Some(Order::Ask(names, answer)) => {
                        // Whoever asked may have gone.
                        let _ = answer.send(self.ask(&names));
                    }
                    Some(Order::Agree(peer, question, answer)) => {
                        let _ = answer.send(self.agree(&peer, question));
                    }
                    Some(Order::End) | None => break,
                },
                Some(ended) = self.runs.join_next() => {
                    // Those that were ended have their row.
                    if let Ok((run, outcome)) = ended {
                        self.ended(run, outcome);
                    }
                }
                Some(replied) = self.questions.join_next() => {
                    // One that takes too long is given up by the schedule.
                    if let Ok((run, reply)) = replied {
                        self.schedule.answered(run, reply, clock::now());
                    }
                }
                () = sleep(wait) => {}
            }
        }
        let names: Vec<_> = self.tasks.keys().cloned().collect();
        names.iter().for_each(|name| self.remove(name, "the service stops"));
        self.runs.shutdown().await;
        self.release().await;
        for row in std::mem::take(&mut self.rows) {
            self.keeper.keep(row).await;
        }
        self.keeper.finish(GRACE).await;
    }

    /// Does what is to be done now, and returns for how long there is nothing more.
    fn do_all(&mut self) -> Duration {
        loop {
            let now = clock::now();
            let Self { schedule, tasks, others, .. } = self;
            let step = schedule.step(now, |name| hindrance(tasks.get_mut(name)?, &others.passive));
            match step {
                Step::Start(run) => self.start(run, now),
                Step::Ask { run, peer, question } => self.ask_peer(run, peer, question),
                Step::TimeOut(run) => self.end(&run, Ending::TimedOut, now),
                Step::Missed { task, cause, hindrance } => {
                    self.write(&task, cause, Ending::Missed(hindrance), now);
                }
                Step::Refused { task, cause, why } => {
                    self.write(&task, cause, Ending::Refused(why), now);
                }
                Step::Wait(None) => return LOOK,
                Step::Wait(Some(until)) => return LOOK.min(until.saturating_sub(now)),
            }
        }
    }

    fn ask_peer(&mut self, run: RunId, peer: Arc<str>, question: Question) {
        let reply = (self.others.peers)(peer, question);
        self.questions.spawn(async move { (run, reply.await) });
    }

    /// Answers a peer that asks about a run of its own.
    fn agree(&mut self, peer: &str, question: Question) -> Reply {
        let locks = match question.wish {
            Wish::Offer { locks, .. } => {
                reserved::locks(peer, locks, self.tasks.values().map(|known| &*known.task))
            }
            Wish::Commit | Wish::Release => Vec::new(),
        };
        let (resources, locks): (Vec<_>, Vec<_>) = locks.into_iter().unzip();
        match self.schedule.asked(peer, question, &locks, clock::now()) {
            Ok(()) => Reply::Granted,
            Err(Unagreed::Unknown) => Reply::Unknown,
            Err(Unagreed::Held { lock, task }) => {
                let lock = resources.get(lock).copied().unwrap_or(Resource::Peer);
                Reply::Held { lock, holder: task.map(|task| task.to_string()) }
            }
        }
    }

    /// Tells peers that their locks are not needed any more.
    async fn release(&mut self) {
        while let Step::Ask { peer, question, run } = self.schedule.step(clock::now(), |_| None) {
            self.ask_peer(run, peer, question);
        }
        let all = async { while self.questions.join_next().await.is_some() {} };
        // Those that do not hear it wait until it expires.
        let _ = timeout(GRACE, all).await;
    }

    fn start(&mut self, run: Run, now: Moment) {
        let Some(Known { task, .. }) = self.tasks.get(&*run.task) else { return };
        let (id, task) = (run.id, Arc::clone(task));
        let work = run::run(Arc::clone(&task));
        let abort = self.runs.spawn(async move { (id, work.await) });
        self.running.insert(id, Begun { run, task, start: now, abort });
    }

    fn ended(&mut self, id: RunId, Outcome { address, ending }: Outcome) {
        // Else its time was over just before.
        let Some(begun) = self.running.remove(&id) else { return };
        self.schedule.ended(id);
        self.write_run(&begun, clock::now(), |row| Row { address, ending, ..row });
    }

    /// Ends a run that the schedule has no more of.
    fn end(&mut self, run: &Run, ending: Ending, now: Moment) {
        let Some(begun) = self.running.remove(&run.id) else { return };
        begun.abort.abort();
        self.write_run(&begun, now, |row| Row { ending, ..row });
    }

    fn write_run(&mut self, begun: &Begun, now: Moment, complete: impl FnOnce(Row) -> Row) {
        let Begun { run, task, start, .. } = begun;
        let row = task.row(self.period(run.cause, now), Ending::TimedOut);
        let started = Some(wall_clock::shown(*start, now));
        let row = complete(Row { started, took: now.saturating_sub(*start), ..row });
        self.tell(&row);
        self.rows.push(row);
    }

    /// Writes of a run that did not start.
    fn write(&mut self, name: &str, cause: Cause, ending: Ending, now: Moment) {
        let period = self.period(cause, now);
        if let Some(Known { task, .. }) = self.tasks.get(name) {
            let row = task.row(period, ending);
            debug!(task = name, "a period ends without a run: {:?}", row.ending);
            self.rows.push(row);
        }
    }

    /// Says when a task begins to fail, and when it works again.
    fn tell(&mut self, row: &Row) {
        let Some(known) = self.tasks.get_mut(&row.task) else { return };
        let (task, host) = (&*row.task, &*row.host);
        let why = match &row.ending {
            Ending::Measured(_) => None,
            Ending::TimedOut => Some("it took longer than its timeout"),
            Ending::Refused(why) | Ending::Failed(why) => Some(&**why),
            Ending::Killed(_) | Ending::Missed(_) => return,
        };
        match why {
            Some(why) if !known.is_failing => warn!(task, host, "a probe measures nothing: {why}"),
            None if known.is_failing => info!(task, host, "the probe measures again"),
            _ => {}
        }
        known.is_failing = why.is_some();
        known.back_off(&row.ending);
    }

    /// Returns which period a row is of, on the wall clock.
    fn period(&self, cause: Cause, now: Moment) -> Timestamp {
        match cause {
            Cause::Period(began) => wall_clock::shown(began, now),
            Cause::Asked(at) => {
                self.asked.get(&at).copied().unwrap_or_else(|| wall_clock::shown(at, now))
            }
        }
    }

    /// Runs these tasks, and no others. Those that are as they were go on.
    fn follow(&mut self, probe: Probe) {
        let (tasks, bytes_per_day) = (probe.tasks.len(), probe.bytes_per_day());
        self.outlook.change(|it| (it.tasks, it.bytes_per_day) = (tasks, bytes_per_day));
        let before = std::mem::take(&mut self.before);
        let wanted: HashMap<_, _> =
            probe.tasks.into_iter().map(|task| (task.name.clone(), Task::new(task))).collect();
        let is_other = |(name, known): &(&String, &Known)| wanted.get(*name) != Some(&*known.task);
        let others = self.tasks.iter().filter(is_other);
        let others: Vec<_> = others.map(|(name, _)| name.clone()).collect();
        others.iter().for_each(|name| self.remove(name, "its task was changed"));
        let now = clock::now();
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for (name, task) in wanted {
            if !self.tasks.contains_key(&name) {
                let planned = task.planned(self.seed, now, since_1970);
                self.rows.extend(before.row(&task, wall_clock::shown(planned.first, now)));
                self.schedule.add(planned);
                self.tasks.insert(name, Known::new(task));
            }
        }
    }

    fn remove(&mut self, name: &str, why: &str) {
        let now = clock::now();
        let Removed { running, waiting } = self.schedule.remove(name, now);
        if let Some(run) = running {
            self.end(&run, Ending::Killed(why.to_owned()), now);
        }
        for cause in waiting {
            self.write(name, cause, Ending::Missed(Hindrance::NotRunning), now);
        }
        self.tasks.remove(name);
    }

    /// Wants runs of the tasks of these names.
    fn ask(&mut self, names: &[String]) -> Vec<Asked> {
        let now = clock::now();
        // As precise as the archive keeps it.
        let period = wall_clock::shown(now, now).round(Unit::Microsecond).unwrap_or_default();
        let is_meant = |task: &Task| {
            let ProbeTask { name, path, host, .. } = &task.config;
            names.iter().any(|it| it == name || Some(it) == path.as_ref() || it == host)
        };
        let mut asked = Vec::new();
        for Known { task, .. } in self.tasks.values().filter(|known| is_meant(&known.task)) {
            if self.schedule.ask(&task.config.name, now, PATIENCE) {
                let within = PATIENCE + task.config.timeout + GRACE;
                let (task, within_seconds) = (task.config.name.clone(), within.as_secs_f64());
                asked.push(Asked { task, period, within_seconds });
            }
        }
        asked.sort_by(|one, other| one.task.cmp(&other.task));
        if !asked.is_empty() {
            self.asked.insert(now, period);
            let longest = Duration::from_secs(2 * 86_400);
            self.asked.retain(|at, _| now.saturating_sub(*at) < longest);
        }
        asked
    }
}

impl Known {
    fn new(task: Task) -> Self {
        Self { task: Arc::new(task), is_failing: false, failures: 0, left_out: 0 }
    }

    /// Leaves periods out after a helper that failed, twice as many with each in a row.
    fn back_off(&mut self, ending: &Ending) {
        let ProbeTask { tool, every, .. } = &self.task.config;
        let has_failed = matches!(ending, Ending::Failed(_) | Ending::TimedOut);
        self.failures = if tool.is_helper() && has_failed { self.failures + 1 } else { 0 };
        let doubled = 1_u32.checked_shl(self.failures.saturating_sub(1)).unwrap_or(u32::MAX);
        let most = MAX_BACK_OFF.as_secs() / every.as_secs().max(1);
        self.left_out = (doubled - 1).min(u32::try_from(most).unwrap_or(u32::MAX));
    }
}

/// Says why a run that is due is not wanted, if it is not.
fn hindrance(known: &mut Known, passive: &Passive) -> Option<Hindrance> {
    if known.left_out > 0 {
        known.left_out -= 1;
        return Some(Hindrance::BackingOff);
    }
    let config = &known.task.config;
    let (path, metric) = (config.path.as_ref()?, known.task.passive_metric()?);
    let is_known = config.passive_first && passive(path, metric, config.every);
    is_known.then_some(Hindrance::KnownFromFlows)
}

#[cfg(test)]
mod tests {
    use wad_policy::config::{Config, Host};

    use super::*;
    use crate::measurement::Measurement;

    fn known(tool: &str) -> Known {
        let text = format!(
            "[[probe.task]]\nname = 'a'\nhost = '192.0.2.1'\nevery = '10min'\n\
             timeout = '1min'\ntool = {tool}\n"
        );
        let config = Config::parse("wad.toml", &text, &Host::default()).unwrap();
        Known::new(Task::new(config.probe.unwrap().tasks.remove(0)))
    }

    #[test]
    fn helpers_are_left_alone_for_longer_with_each_failure() {
        let mut helper = known("'command'\ncommand = ['/x', 'y']");
        let failed = Ending::Failed(String::new());
        let left_out = |known: &mut Known| {
            known.back_off(&failed);
            let passive: Passive = Arc::new(|_, _, _| false);
            let hindrances = std::iter::from_fn(|| hindrance(known, &passive));
            hindrances.inspect(|it| assert_eq!(*it, Hindrance::BackingOff)).count()
        };
        let counts: Vec<_> = (0..5).map(|_| left_out(&mut helper)).collect();
        assert_eq!(counts, [0, 1, 3, 6, 6]);
        helper.back_off(&Ending::Measured(Measurement::default()));
        assert_eq!(left_out(&mut helper), 0);
        // What sends a few packets itself goes on.
        let mut own = known("'rtt'");
        assert_eq!((0..5).map(|_| left_out(&mut own)).sum::<usize>(), 0);
    }
}
