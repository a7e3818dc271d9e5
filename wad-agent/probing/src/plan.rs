//! A plan shows what tasks will do before anything runs: when, how often, for how many bytes,
//! and whether they are in each other's way.
//!
//! A day is gone through by the schedule itself, in no time, as if each run took all of its
//! time-out. Real runs are shorter, so this is the worst.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wad_policy::config::Probe;
use wad_toolbox::clock::{self, Moment};

use crate::{
    row::Hindrance,
    schedule::{Chance, Lock, Planned, Schedule, Step},
    task::Task,
    wall_clock,
};

const DAY: Duration = Duration::from_secs(86_400);
/// Runs that are gone through: with many tasks, less than a day.
const MAX_RUNS: usize = 100_000;

/// Says what the tasks of a configuration will do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    pub tasks: Vec<PlannedTask>,
    /// All tasks together send and receive no more.
    pub bytes_per_day: u64,
    /// The bound of the configuration; null for none.
    pub max_bytes_per_day: Option<u64>,
    /// The first runs, in their order.
    pub next: Vec<PlannedRun>,
    /// So much was gone through to find out what is missed.
    pub simulated_seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedTask {
    pub task: String,
    pub path: Option<String>,
    pub host: String,
    pub tool: String,
    pub every_seconds: f64,
    pub jitter_seconds: f64,
    pub slip_seconds: f64,
    pub timeout_seconds: f64,
    pub max_bytes: u64,
    pub bytes_per_day: u64,
    pub locks: Vec<PlannedLock>,
    /// The peer that keeps them free as well.
    pub peer: Option<String>,
    /// Periods that were gone through.
    pub periods: u64,
    /// Periods that have no run, if each run takes all of its time-out.
    pub missed: u64,
    /// The lock and the task that most of them were missed for.
    pub lock: Option<String>,
    pub holder: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedLock {
    pub lock: String,
    pub is_exclusive: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedRun {
    pub start: Timestamp,
    pub task: String,
}

/// Counts what came of a task's periods.
#[derive(Default)]
struct Counts {
    periods: u64,
    missed: u64,
    behind: BTreeMap<(String, String), u64>,
}

impl Plan {
    /// Makes the plan of a service that starts now, with the first so many runs.
    pub fn new(probe: &Probe, seed: Chance, runs: usize) -> Self {
        let now = clock::now();
        let since_1970 = Timestamp::now().as_duration().unsigned_abs();
        let tasks: Vec<_> = probe.tasks.iter().cloned().map(Task::new).collect();
        let mut schedule = Schedule::new(seed);
        for task in &tasks {
            // As if all peers agreed at once.
            schedule.add(Planned { there: None, ..task.planned(seed, now, since_1970) });
        }
        let mut simulation = Simulation { now, starts: Vec::new(), counts: HashMap::new() };
        simulation.pass_a_day(&mut schedule);
        let Simulation { now: end, starts, mut counts } = simulation;
        let begin = now;
        let next = starts.into_iter().take(runs).map(|(at, task)| {
            let start = wall_clock::shown(at, begin);
            PlannedRun { start: start.round(jiff::Unit::Second).unwrap_or(start), task }
        });
        Self {
            next: next.collect(),
            bytes_per_day: probe.bytes_per_day(),
            max_bytes_per_day: probe.max_bytes_per_day,
            simulated_seconds: (end - begin).as_secs_f64().round(),
            tasks: tasks
                .iter()
                .map(|task| planned(task, counts.remove(&task.config.name).unwrap_or_default()))
                .collect(),
        }
    }
}

struct Simulation {
    now: Moment,
    starts: Vec<(Moment, String)>,
    counts: HashMap<String, Counts>,
}

impl Simulation {
    fn pass_a_day(&mut self, schedule: &mut Schedule) {
        let end = self.now + DAY;
        while self.now < end && self.starts.len() < MAX_RUNS {
            match schedule.step(self.now, |_| None) {
                Step::Start(run) => {
                    self.counts.entry(run.task.to_string()).or_default().periods += 1;
                    self.starts.push((self.now, run.task.to_string()));
                }
                Step::TimeOut(_) | Step::Ask { .. } | Step::Refused { .. } => {}
                Step::Missed { task, hindrance, .. } => {
                    let counts = self.counts.entry(task.to_string()).or_default();
                    counts.periods += 1;
                    counts.missed += 1;
                    if let Hindrance::Lock { lock, holder } = hindrance {
                        *counts.behind.entry((lock, holder)).or_default() += 1;
                    }
                }
                Step::Wait(Some(until)) => self.now = until.min(end),
                Step::Wait(None) => self.now = end,
            }
        }
    }
}

fn planned(task: &Task, counts: Counts) -> PlannedTask {
    let Counts { periods, missed, behind } = counts;
    let behind = behind.into_iter().max_by_key(|(_, times)| *times).map(|(behind, _)| behind);
    let (lock, holder) = behind.unzip();
    let locks = task.locks().into_iter();
    let locks = locks.map(|Lock { name, is_exclusive }| PlannedLock { lock: name, is_exclusive });
    let config = &task.config;
    PlannedTask {
        task: config.name.clone(),
        path: config.path.clone(),
        host: config.host.clone(),
        tool: config.tool.word().to_owned(),
        every_seconds: config.every.as_secs_f64(),
        jitter_seconds: config.jitter.as_secs_f64(),
        slip_seconds: config.slip.as_secs_f64(),
        timeout_seconds: config.timeout.as_secs_f64(),
        max_bytes: config.max_bytes,
        bytes_per_day: config.bytes_per_day(),
        locks: locks.collect(),
        peer: config.peer.clone(),
        periods,
        missed,
        lock,
        holder,
    }
}

#[cfg(test)]
mod tests {
    use wad_policy::config::{Config, Host};

    use super::*;

    fn plan(tasks: &str) -> Plan {
        let config = Config::parse("wad.toml", tasks, &Host::default()).unwrap();
        Plan::new(&config.probe.unwrap(), Chance::new(1), 5)
    }

    #[test]
    fn a_day_of_one_task_is_its_periods() {
        let plan = plan(
            "[[probe.task]]\nname = 'a'\nhost = '192.0.2.1'\ntool = 'rtt'\nevery = '1h'\n\
             max_bytes = '100kB'",
        );
        let [task] = &plan.tasks[..] else { panic!("{plan:?}") };
        // Which of the first and last fall within the day hangs on the hour at which it begins.
        assert!((23..=25).contains(&task.periods), "{}", task.periods);
        assert_eq!((task.missed, task.bytes_per_day), (0, 2_400_000));
        assert_eq!((plan.bytes_per_day, plan.simulated_seconds), (2_400_000, 86_400.0));
        assert_eq!(plan.next.len(), 5);
        let apart = plan.next[1].start.duration_since(plan.next[0].start).as_secs();
        // Each is due within a tenth of its period.
        assert!((3_239..=3_961).contains(&apart), "{apart}");
    }

    #[test]
    fn tasks_that_do_not_fit_beside_each_other_are_told() {
        let task = |name: &str| {
            format!(
                "[[probe.task]]\nname = '{name}'\nhost = '192.0.2.1'\ntool = 'bandwidth'\n\
                 every = '1min'\ntimeout = '50s'\njitter = '0s'\nslip = '1s'\n"
            )
        };
        let plan = plan(&(task("a") + &task("b")));
        let missed: u64 = plan.tasks.iter().map(|task| task.missed).sum();
        assert!(missed >= 1_430, "{plan:?}");
        let loser = plan.tasks.iter().find(|task| task.missed > 0).unwrap();
        assert_eq!(loser.lock.as_deref(), Some("interface"));
    }
}
