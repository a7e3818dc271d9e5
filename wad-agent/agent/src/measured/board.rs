//! The board shows what is known and in force, for those who ask and those who
//! answer.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, SystemTime},
};

use wad_observing::metrics::{PathsMeasured, Readings, SourceReading};
use wad_policy::{
    capacity::Capacity,
    config::{AutoTraits, Metric, Source},
    tuning_plan::{Behaviour, Damper, Refusal, Traits},
};
use wad_toolbox::{clock::Moment, mutex::locked};

use super::Shared;
use crate::sources::{Doubts, ErrorKind, Health, Sample, Store, Targets, seconds_since_1970};

/// Holds the state of one measured path.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredState {
    /// The capacity that the file gives.
    pub fallback: Capacity,
    /// These settings follow from what the path does to packets, and this is known of that.
    pub auto: AutoTraits,
    pub behaviour: Behaviour,
    /// The damper knows what the policy in force is made of.
    pub damper: Damper,
    /// Whether bandwidth and RTT are measured, and not long ago.
    pub is_fresh: [bool; 2],
}

impl MeasuredState {
    /// Returns what the policy is to be made of, of what the path does to packets.
    pub fn traits(&self, now: Moment) -> Traits {
        let Traits { reorder_segments, is_leaky } = self.behaviour.traits(now);
        Traits {
            reorder_segments: reorder_segments.filter(|_| self.auto.reorder),
            is_leaky: is_leaky && self.auto.loss,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Board {
    /// Kind and URL of each source, in the order of the file.
    pub sources: Arc<[(&'static str, Option<String>)]>,
    pub targets: Arc<Targets>,
    pub store: Shared<Store>,
    states: Shared<Vec<MeasuredState>>,
}

impl Board {
    pub fn new(
        sources: &[Source],
        targets: Targets,
        store: Store,
        states: Vec<MeasuredState>,
    ) -> Self {
        Self {
            sources: sources
                .iter()
                .map(|source| (source.kind.name(), source.url.as_ref().map(ToString::to_string)))
                .collect(),
            targets: Arc::new(targets),
            store: Arc::new(Mutex::new(store)),
            states: Arc::new(Mutex::new(states)),
        }
    }

    /// The sources' values and health, and what is in force on a path.
    pub fn take_over(&self, before: &Self) {
        self.store().take_over(&self.targets, &before.store(), &before.targets);
        let (mut states, states_before) = (self.states(), before.states());
        for (state, name) in states.iter_mut().zip(self.targets.names()) {
            if let Some(at) = before.targets.named(name) {
                let old = states_before[at];
                // Unless the file says something else of it now.
                if old.fallback == state.fallback {
                    let behaviour = old.behaviour.kept_for(&state.behaviour);
                    *state = MeasuredState { auto: state.auto, behaviour, ..old };
                }
            }
        }
    }

    /// Says whether the path's own flows have shown this within so long.
    pub fn is_shown(&self, path: &str, metric: Metric, within: Duration, now: SystemTime) -> bool {
        let Some(target) = self.targets.named(path) else { return false };
        let Some(source) = self.sources.iter().position(|(kind, _)| *kind == "passive") else {
            return false;
        };
        let sample = self.store().sample(source, target, metric);
        let age = |sample: Sample| seconds_since_1970(now) - sample.measured_at_seconds;
        // One from the future is one that the clock was set back from.
        sample.is_some_and(|sample| (0.0..=within.as_secs_f64()).contains(&age(sample)))
    }

    /// Adds to the readings what the metrics tell of it.
    pub fn read(&self, readings: &mut Readings) {
        let store = self.store();
        let source = |((name, health), doubts): ((&str, &Health), &Doubts)| SourceReading {
            name: name.to_owned(),
            refused: Refusal::ALL.map(|refusal| (refusal.label(), doubts.count(refusal))).to_vec(),
            polls: health.polls,
            errors: ErrorKind::ALL.map(|kind| (kind.label(), health.errors(kind))).to_vec(),
            last_success: health.last_success,
        };
        readings.sources = store.health().zip(store.doubts()).map(source).collect();
        let now = SystemTime::now();
        for (target, name) in self.targets.names().iter().enumerate() {
            // Of others there are no series.
            let Some(path) = readings.now.get_mut(name) else { continue };
            let findings = store.findings(target, now);
            let found = [Metric::Bandwidth, Metric::Rtt].map(|metric| findings.get(metric));
            let [bandwidth, rtt] = found.map(|found| found.map(|found| found.value));
            path.measured_bytes_per_second = bandwidth.map(|bits_per_second| bits_per_second / 8.0);
            path.measured_rtt_seconds = rtt;
            let ages = found.into_iter().flatten().map(|found| found.age_seconds);
            path.measured_age_seconds = ages.reduce(f64::max);
        }
        drop(store);
        let states = self.states();
        let fresh = states.iter().filter(|state| state.is_fresh.contains(&true)).count();
        readings.paths_measured =
            PathsMeasured { fresh: fresh as u64, stale: (states.len() - fresh) as u64 };
    }

    pub fn store(&self) -> MutexGuard<'_, Store> {
        locked(&self.store)
    }

    pub fn states(&self) -> MutexGuard<'_, Vec<MeasuredState>> {
        locked(&self.states)
    }
}
