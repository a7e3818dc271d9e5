//! The agent makes of the events of flows: records for the sinks, and for those that
//! end, or leave their path, a line of the log, and what they showed of the path.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use tokio::time::{Interval, MissedTickBehavior, interval};
use wad_common::event::{Event, Kind};
use wad_observing::{
    events::{self, Summaries},
    metrics::Ends,
    owners::Owners,
    sinks::Sinks,
};
use wad_tuning::bpf::{Events, Tuning};

use crate::{evidence::Experiments, sources::Shown, wall_clock};

/// How often the log says how many summaries it held back.
const HELD_BACK_INTERVAL: Duration = Duration::from_secs(10);

/// Events that are still taken when all ends: as many as the ring buffer holds.
const LAST_EVENTS: usize = 10_000;

/// Turns events into lines.
pub struct FlowLog {
    events: Events,
    held_back: Interval,
    lines: Lines,
}

/// Holds whoever is told of flows.
pub struct Hearers {
    pub sinks: Arc<Sinks>,
    pub ends: Ends,
    pub experiments: Experiments,
}

struct Lines {
    /// Names of the paths by their policies' indices.
    names: HashMap<u32, Arc<str>>,
    /// The names of the set before: flows that leave with their path are events after
    /// it.
    names_before: HashMap<u32, Arc<str>>,
    summaries: Summaries,
    hearers: Hearers,
    owners: Arc<Owners>,
    /// The values that ended flows showed of their paths, by the same indices.
    shown: HashMap<u32, Shown>,
}

impl FlowLog {
    /// Needs a tokio runtime.
    pub fn open(tuning: &Tuning, hearers: Hearers, owners: Arc<Owners>) -> Result<Self> {
        let mut held_back = interval(HELD_BACK_INTERVAL);
        held_back.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let lines = Lines {
            names: tuning.names(),
            names_before: HashMap::new(),
            summaries: Summaries::default(),
            hearers,
            owners,
            shown: HashMap::new(),
        };
        Ok(Self { events: tuning.events()?, held_back, lines })
    }

    /// Takes the names of the paths that are in force now.
    pub fn rename(&mut self, tuning: &Tuning) {
        let Lines { names, names_before, hearers, .. } = &mut self.lines;
        *names_before = std::mem::replace(names, tuning.names());
        let in_force: HashSet<&str> = names.values().map(AsRef::as_ref).collect();
        hearers.ends.keep(|path| in_force.contains(path));
    }

    /// The name of the path in force that has this index.
    pub fn name(&self, policy: u32) -> Option<&str> {
        self.lines.names.get(&policy).map(AsRef::as_ref)
    }

    /// Returns what the flows that have ended since the last call showed of their
    /// paths, by the indices of their policies.
    pub fn take_shown(&mut self) -> HashMap<u32, Shown> {
        std::mem::take(&mut self.lines.shown)
    }

    /// Goes on for ever, unless events cannot be read.
    pub async fn run(&mut self) -> Result<()> {
        let Self { events, held_back, lines } = self;
        loop {
            tokio::select! {
                _ = held_back.tick() => lines.summaries.report_held_back(),
                waited = events.wait(|event| lines.add(&event)) => {
                    waited.context("cannot read the events of flows")?;
                }
            }
        }
    }

    /// Takes what is there by now.
    pub fn take_waiting(&mut self) {
        self.events.drain(LAST_EVENTS, &mut |event| self.lines.add(&event));
    }

    /// Takes what is there still, once no more can come.
    pub fn finish(mut self) {
        self.take_waiting();
        self.lines.summaries.report_held_back();
    }
}

impl Lines {
    fn add(&mut self, event: &Event) {
        let policy = &event.flow.policy;
        let name = self.names.get(policy).or_else(|| self.names_before.get(policy));
        let path = name.map_or("(removed)", |name| name);
        let is_end = [Kind::Close as u32, Kind::Leave as u32].contains(&event.kind);
        let Hearers { sinks, ends, experiments } = &self.hearers;
        if sinks.is_empty() && !is_end {
            return;
        }
        let owner = self.owners.of(event.user, event.cgroup, &event.flow.process);
        if !sinks.is_empty() {
            events::records(event, &owner, path, time_of(event), |record| sinks.tell(&record));
        }
        if is_end {
            self.summaries.ended(event, &owner, path);
            if let Some(name) = self.names.get(policy) {
                ends.add(name, event);
                if event.kind == Kind::Close as u32 {
                    experiments.flow_ended(name, event);
                }
            }
            let shown = self.shown.entry(event.flow.policy).or_default();
            *shown = shown.and(Shown::at_end(event));
        }
    }
}

fn time_of(event: &Event) -> Timestamp {
    let since = wall_clock::at(event.time_ns);
    let time = since.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since));
    time.and_then(|time| time.try_into().ok()).unwrap_or_else(Timestamp::now)
}
