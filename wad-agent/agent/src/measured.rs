//! Measured paths: what the sources say of each, the capacity that its policy is
//! made of, and when that changes.

mod board;
mod flows;
mod looks;
mod news;
mod packets;
#[cfg(test)]
mod tests;
mod untrusted;

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

pub use board::{Board, MeasuredState};
use flows::Flows;
pub use news::Change;
use news::Changes;
use packets::Packets;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tracing::warn;
pub use untrusted::Untrusted;
use wad_policy::{
    capacity::Capacity,
    config::{Config, MeasuredPath, Metric, PathPolicy, Source},
    tuning_plan::{self, Behaviour, Bounds, Conditions, Damper, KernelBuffers},
};
use wad_probing::answers::OwnProbes;
use wad_toolbox::{
    causes::told,
    clock::{self, Moment},
};
use wad_tuning::bpf::Tuning;

use crate::{
    flow_log::FlowLog,
    sources::{Cache, Findings, Polling, Store, Targets},
};

/// How often it is looked whether a path's policy is to change.
const REVIEW_INTERVAL: Duration = Duration::from_secs(1);
/// How often what is known is written to the disk.
const SAVE_INTERVAL: Duration = Duration::from_secs(30);

/// The metrics that a policy follows from.
const CAPACITY: [Metric; 2] = [Metric::Bandwidth, Metric::Rtt];

/// The present time, by the clocks that this goes by.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Stands still while the host is suspended, as flows do: for rates.
    pub awake: Instant,
    /// Goes on meanwhile, as the world does: for what holds for a time.
    pub since_boot: Moment,
    /// May be set. What is kept and what others say has it.
    pub time: SystemTime,
}

impl Now {
    pub fn read() -> Self {
        Self { awake: Instant::now(), since_boot: clock::now(), time: SystemTime::now() }
    }
}

/// All measured paths of a configuration.
pub struct Measured {
    /// The paths as the file has them, the others too: what is put in force is whole.
    /// Empty where none is measured.
    paths: Vec<PathPolicy>,
    sources: Vec<Source>,
    board: Board,
    bounds: Bounds,
    change_interval: Duration,
    cache: Cache,
    saved_at: Instant,
    polling: Polling,
    /// The paths that the latest review has changed were under these, by target.
    before: Vec<(usize, Conditions)>,
    /// The flows as a source; None where no source is passive.
    flows: Option<Flows>,
    /// The flows show this of packets; None where nothing follows from it.
    packets: Option<Packets>,
}

impl Measured {
    /// Knows what is on the disk, and asks nobody yet.
    pub fn new(
        config: &Config,
        max_memory_bytes: u64,
        kernel: KernelBuffers,
        cache: Cache,
    ) -> Self {
        let is_measured = config.paths.iter().any(|path| path.measured.is_some());
        let paths = if is_measured { config.paths.clone() } else { Vec::new() };
        let targets = Targets::new(&paths);
        let mut store = Store::new(&config.sources, &targets);
        if is_measured && let Err(error) = cache.read(&mut store, &targets) {
            warn!("{}; what was known is asked for again", told(&error));
        }
        let bounds = Bounds::new(config.limits.max_buffer_bytes, max_memory_bytes, kernel);
        let stale_after = packets::stale_after(&config.sources);
        let known = (&store, SystemTime::now());
        let states = states(&paths, known, (bounds, stale_after));
        Self {
            board: Board::new(&config.sources, targets, store, states),
            paths,
            sources: config.sources.clone(),
            bounds,
            change_interval: config.limits.change_interval,
            cache,
            saved_at: Instant::now(),
            polling: Polling::default(),
            before: Vec::new(),
            flows: None,
            packets: None,
        }
    }

    /// Takes over what is known from before a change of the configuration: it holds
    /// on.
    pub fn take_over(&mut self, before: &Self) {
        self.board.take_over(&before.board);
    }

    /// Asks the sources, and looks at the flows, from now on. Needs a tokio runtime.
    pub fn start(&mut self, tuning: &Arc<Tuning>, probes: &OwnProbes) {
        if !self.paths.is_empty() {
            let Board { targets, store, .. } = &self.board;
            self.polling = Polling::start(&self.sources, targets, store, probes);
            self.flows = Flows::of(&self.sources, tuning);
            self.packets = Packets::of(&self.sources, &self.paths, tuning);
        }
    }

    /// Takes in what the flows show of their paths: those that have ended, and those
    /// that run, if it is time.
    pub fn see_flows(&mut self, log: &mut FlowLog, now: Now) {
        let ended = log.take_shown();
        if let Some(flows) = &mut self.flows {
            flows.see(&self.board, ended, |policy| log.name(policy), now);
        }
        if let Some(packets) = &mut self.packets {
            packets.see(&self.board, now);
        }
    }

    /// Returns the board, for those who answer questions.
    pub fn board(&self) -> Board {
        self.board.clone()
    }

    /// Every path of the configuration, the measured ones as they are in force;
    /// None where no path is measured.
    pub fn policies(&self) -> Option<Vec<PathPolicy>> {
        if self.paths.is_empty() {
            return None;
        }
        let states = self.board.states();
        let mut states = states.iter();
        let policy = |path: &PathPolicy| match path.measured {
            None => path.clone(),
            Some(_) => {
                let state = states.next().expect("each measured path has a state");
                tuning_plan::policy(path, state.damper.conditions(), self.bounds)
            }
        };
        Some(self.paths.iter().map(policy).collect())
    }

    /// Decides what changes now, and says so in the log. If anything does,
    /// [`Measured::policies`] are to be put in force.
    pub fn review(&mut self, now: Now) -> Change {
        let changes = self.decide(now);
        changes.log();
        changes.kind()
    }

    /// Puts back what the latest review has changed, as it could not be put in force: it is
    /// tried again when it is time.
    pub fn stays_as_it_was(&mut self) {
        let mut states = self.board.states();
        for (target, conditions) in self.before.drain(..) {
            states[target].damper.put_back(conditions);
        }
    }

    fn decide(&mut self, now: Now) -> Changes {
        let mut changes = Changes::default();
        self.before.clear();
        let (mut store, mut states) = (self.board.store(), self.board.states());
        for refused in store.take_news() {
            let path = &self.board.targets.names()[refused.target];
            changes.refused(path, Untrusted::new(&refused, &store));
        }
        for (target, state) in states.iter_mut().enumerate() {
            let findings = store.findings(target, now.time);
            let name = &self.board.targets.names()[target];
            for (metric, was_fresh) in CAPACITY.into_iter().zip(&mut state.is_fresh) {
                let is_fresh = findings.fresh(metric).is_some();
                match (*was_fresh, is_fresh) {
                    (true, false) => changes.lost(metric, name),
                    (false, true) => changes.found(metric, name),
                    _ => {}
                }
                *was_fresh = is_fresh;
            }
            let capacity = wanted(&findings, state.fallback, self.bounds);
            let wanted = Conditions { capacity, traits: state.traits(now.since_boot) };
            let before = state.damper.conditions();
            if state.damper.offer(wanted, now.since_boot, self.change_interval) {
                self.before.push((target, before));
                changes.conditions(name, before, wanted);
            }
        }
        changes
    }

    /// Writes down what is known, if it is time; beside the tasks that must not
    /// wait for it.
    pub fn save_now_and_then(&mut self, now: Instant) {
        if self.paths.is_empty() || now.duration_since(self.saved_at) < SAVE_INTERVAL {
            return;
        }
        self.saved_at = now;
        self.cache.keep(&self.board.store(), &self.board.targets);
    }

    /// Writes it down at last.
    pub fn save(&self) {
        if !self.paths.is_empty() {
            self.cache.keep_now(&self.board.store(), &self.board.targets);
        }
    }
}

/// Returns where the cache of an instance is.
pub fn cache(state_dir: &Path, instance: &str) -> Cache {
    Cache::new(state_dir, instance)
}

/// Ticks when it is time to review.
pub fn reviews() -> Interval {
    let mut reviews = interval(REVIEW_INTERVAL);
    reviews.set_missed_tick_behavior(MissedTickBehavior::Delay);
    reviews
}

/// Returns what a policy is to be made of.
fn wanted(findings: &Findings, fallback: Capacity, bounds: Bounds) -> Capacity {
    let measured = Capacity {
        bits_per_second: findings.fresh(Metric::Bandwidth),
        rtt_seconds: findings.fresh(Metric::Rtt),
        is_least: findings.is_least(),
    };
    if measured.is_least {
        tuning_plan::with_room(measured, fallback, bounds)
    } else {
        measured.or(fallback)
    }
}

/// Returns the state of each measured path, in the order of the file.
fn states(
    paths: &[PathPolicy],
    (store, time): (&Store, SystemTime),
    (bounds, stale_after): (Bounds, Duration),
) -> Vec<MeasuredState> {
    let measured = paths.iter().filter_map(|path| path.measured);
    let state = |(target, measured): (usize, MeasuredPath)| {
        let findings = store.findings(target, time);
        MeasuredState {
            fallback: measured.fallback,
            auto: measured.traits,
            damper: Damper::new(wanted(&findings, measured.fallback, bounds)),
            behaviour: Behaviour::unknown(stale_after),
            is_fresh: CAPACITY.map(|metric| findings.fresh(metric).is_some()),
        }
    };
    measured.enumerate().map(state).collect()
}

/// Shared by the tasks that ask and those who answer.
type Shared<T> = Arc<Mutex<T>>;
