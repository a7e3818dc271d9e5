//! The store keeps what all sources have said, the last good value of each, and how
//! they are.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use wad_policy::{
    config::{Metric, Source, SourceKind},
    tuning_plan::Expected,
};

use super::{
    Answer, Reading, Sample, Targets,
    doubts::{Doubt, Doubts, Evidence, is_from_future},
    error::{ErrorKind, SourceError, is_possible},
};

const METRICS: usize = Metric::ALL.len();

/// Says how polling a source goes.
#[derive(Clone, Debug, Default)]
pub struct Health {
    pub polls: u64,
    errors: BTreeMap<ErrorKind, u64>,
    /// When it last gave a value.
    pub last_success: Option<SystemTime>,
    /// The failure at the last poll.
    pub failing: Option<Failing>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    pub kind: ErrorKind,
    pub text: String,
}

impl Health {
    pub fn errors(&self, kind: ErrorKind) -> u64 {
        self.errors.get(&kind).copied().unwrap_or(0)
    }
}

/// Holds what is known of one source.
#[derive(Debug)]
struct Known {
    name: String,
    stale_after: Duration,
    is_passive: bool,
    health: Health,
    /// The samples that counted last, by target.
    samples: Vec<[Option<Sample>; METRICS]>,
    /// The values that do not count.
    doubts: Doubts,
}

/// Findings are what is known of a path at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Findings([Option<Found>; METRICS]);

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// The source's place in the order of the file.
    pub source: usize,
    pub value: f64,
    pub age_seconds: f64,
    /// Too old to count.
    pub is_stale: bool,
    /// The value is what flows or probes have got: the path may carry more.
    pub is_least: bool,
}

impl Findings {
    /// The value that counts, or the last one, if that is too old.
    pub const fn get(&self, metric: Metric) -> Option<Found> {
        self.0[metric as usize]
    }

    /// Whether the bandwidth that counts is the least that there is.
    pub fn is_least(&self) -> bool {
        self.get(Metric::Bandwidth).is_some_and(|found| found.is_least && !found.is_stale)
    }

    /// The value that counts.
    pub fn fresh(&self, metric: Metric) -> Option<f64> {
        self.get(metric).filter(|found| !found.is_stale).map(|found| found.value)
    }
}

/// The sources in the order of the file.
#[derive(Debug, Default)]
pub struct Store {
    sources: Vec<Known>,
    /// The file says this of each target, by metric.
    expected: Vec<[Expected; METRICS]>,
}

impl Store {
    pub fn new(sources: &[Source], targets: &Targets) -> Self {
        let known = |source: &Source| Known {
            name: source.name.clone(),
            stale_after: source.stale_after,
            is_passive: source.kind == SourceKind::Passive,
            health: Health::default(),
            samples: vec![[None; METRICS]; targets.names().len()],
            doubts: Doubts::default(),
        };
        let expected = |target| Metric::ALL.map(|metric| targets.expected(target, metric));
        Self {
            sources: sources.iter().map(known).collect(),
            expected: (0..targets.names().len()).map(expected).collect(),
        }
    }

    /// Keeps what is known from before a change of the configuration.
    pub fn take_over(&mut self, targets: &Targets, before: &Self, targets_before: &Targets) {
        let Self { sources, expected } = self;
        for known in sources {
            let same = |old: &&Known| old.name == known.name;
            let Some(old) = before.sources.iter().find(same) else { continue };
            known.health = old.health.clone();
            known.doubts.take_over(&old.doubts);
            for (target, name) in targets.names().iter().enumerate() {
                if let Some(at) = targets_before.named(name) {
                    let allowed = |metric: Metric| {
                        let expected = expected[target][metric as usize];
                        old.samples[at][metric as usize]
                            .filter(|sample| expected.allows(sample.value))
                    };
                    known.samples[target] = Metric::ALL.map(allowed);
                }
            }
        }
    }

    /// A value from the disk.
    pub fn restore(&mut self, source: &str, reading: Reading) {
        let known = self.sources.iter_mut().find(|known| known.name == source);
        let Reading { target, metric, sample } = reading;
        let is_allowed = is_possible(metric, sample.value)
            && self.expected[target][metric as usize].allows(sample.value);
        if let Some(known) = known.filter(|_| is_allowed) {
            known.samples[target][metric as usize] = Some(sample);
        }
    }

    /// All values, by the names of their sources.
    pub fn samples(&self) -> impl Iterator<Item = (&str, Reading)> {
        self.sources.iter().flat_map(|known| {
            let of_target = move |(target, samples): (usize, &[Option<Sample>; METRICS])| {
                let samples = *samples;
                Metric::ALL.into_iter().filter_map(move |metric| {
                    let sample = samples[metric as usize]?;
                    Some((known.name.as_str(), Reading { target, metric, sample }))
                })
            };
            known.samples.iter().enumerate().flat_map(of_target)
        })
    }

    /// Takes in what a poll gave. Returns what the log should say about it.
    pub fn record(
        &mut self,
        source: usize,
        result: Result<Answer, SourceError>,
        now: SystemTime,
    ) -> Option<News> {
        let Known { health, samples, doubts, is_passive, .. } = &mut self.sources[source];
        let (readings, errors) = match result {
            Ok(Answer { readings, errors }) => (readings, errors),
            Err(error) => (Vec::new(), vec![error]),
        };
        health.polls = health.polls.saturating_add(1);
        for error in &errors {
            let count = health.errors.entry(error.kind()).or_default();
            *count = count.saturating_add(1);
        }
        if !readings.is_empty() {
            health.last_success = Some(now);
        }
        let now_seconds = seconds_since_1970(now);
        for reading in readings {
            let Reading { target, metric, sample } = reading;
            let held = &mut samples[target][metric as usize];
            let expected = self.expected[target][metric as usize];
            let evidence = Evidence { expected, held: *held, is_passive: *is_passive, now_seconds };
            if doubts.takes(reading, evidence) {
                *held = Some(sample);
            }
        }
        let failing =
            errors.first().map(|error| Failing { kind: error.kind(), text: error.told() });
        let before = std::mem::replace(&mut health.failing, failing.clone());
        match (before, failing) {
            // The same again, which was said.
            (Some(before), Some(now)) if before.kind == now.kind => None,
            (_, Some(now)) => Some(News::Failing(now.text)),
            (Some(_), None) => Some(News::Well),
            (None, None) => None,
        }
    }

    /// Returns what counts for a path: for each metric the first source that has a
    /// value that is not too old; where none has, the latest that there was.
    pub fn findings(&self, target: usize, now: SystemTime) -> Findings {
        let now_seconds = seconds_since_1970(now);
        let found = |metric: Metric| {
            let mut stale: Option<Found> = None;
            for (source, known) in self.sources.iter().enumerate() {
                let Some(sample) = known.samples[target][metric as usize] else { continue };
                let age_seconds = (now_seconds - sample.measured_at_seconds).max(0.0);
                // Nobody knows how old that is which a clock ahead of ours dated.
                let is_stale = age_seconds > known.stale_after.as_secs_f64()
                    || is_from_future(sample, now_seconds);
                // What flows have got is always that.
                let is_of_flows = known.is_passive && metric == Metric::Bandwidth;
                let is_least = sample.is_least || is_of_flows;
                let found = Found { source, value: sample.value, age_seconds, is_stale, is_least };
                if !is_stale {
                    return Some(found);
                }
                if stale.is_none_or(|stale| age_seconds < stale.age_seconds) {
                    stale = Some(found);
                }
            }
            stale
        };
        Findings(Metric::ALL.map(found))
    }

    /// The last value that a source gave.
    pub fn sample(&self, source: usize, target: usize, metric: Metric) -> Option<Sample> {
        self.sources[source].samples[target][metric as usize]
    }

    /// The last value that a source gave, if that does not count.
    pub fn doubt(&self, source: usize, target: usize, metric: Metric) -> Option<Doubt> {
        self.sources[source].doubts.get(target, metric)
    }

    /// The values of each source that do not count, in the order of the file.
    pub fn doubts(&self) -> impl Iterator<Item = &Doubts> {
        self.sources.iter().map(|known| &known.doubts)
    }

    /// Returns what the log has to say of values that do not count, and takes it for
    /// said.
    pub fn take_news(&mut self) -> Vec<Refused> {
        let mut news = Vec::new();
        for (source, known) in self.sources.iter_mut().enumerate() {
            let refused = |(target, metric, doubt)| Refused { source, target, metric, doubt };
            news.extend(known.doubts.take_news().into_iter().map(refused));
        }
        news
    }

    /// Names and health, in the order of the file.
    pub fn health(&self) -> impl Iterator<Item = (&str, &Health)> {
        self.sources.iter().map(|known| (known.name.as_str(), &known.health))
    }

    pub fn name(&self, source: usize) -> &str {
        &self.sources[source].name
    }
}

/// A value that does not count, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Refused {
    /// The source's place in the order of the file.
    pub source: usize,
    pub target: usize,
    pub metric: Metric,
    pub doubt: Doubt,
}

/// News say what has changed about a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    Failing(String),
    Well,
}

/// A clock before 1970 makes all old.
pub fn seconds_since_1970(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
