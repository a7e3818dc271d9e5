//! The report on paths says what is known of each path, from where, how old it is,
//! and the policy that came of it, as the kernel has it: the answer to `wad paths`.

#[cfg(any(test, feature = "testing"))]
pub mod testing;

use std::{
    collections::{BTreeMap, HashMap},
    fmt::{self, Debug},
    sync::Arc,
    time::SystemTime,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wad_common::policy::Policy;
use wad_observing::{learn, metrics::SourceError};
use wad_peers::told;
use wad_policy::{
    config::{InForce, Metric, Origin, Settings, Value},
    tuning_plan::Conditions,
};

use crate::{
    heard::{ByPeerInfo, Ends},
    measured::{Board, MeasuredState, Untrusted},
    sources::{ErrorKind, Findings, Found, Health, Refused, Store, seconds_since_1970},
};

/// All that is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Paths {
    /// The sources, in the order of the configuration, as are the paths.
    pub sources: Vec<SourceInfo>,
    pub paths: Vec<PathInfo>,
    /// The peers, with what they say that counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<told::Peer>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SourceInfo {
    pub name: String,
    pub kind: String,
    /// The source's URL; None where there is nobody to ask.
    pub url: Option<String>,
    pub polls: u64,
    /// The errors that there were, by kind.
    pub errors: BTreeMap<String, u64>,
    /// Time since it last gave a value.
    pub age_seconds: Option<f64>,
    /// The error at the last poll.
    pub error: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathInfo {
    pub name: String,
    /// The measurements; None for a path of mode "static".
    pub measured: Option<MeasuredInfo>,
    /// The reason why it is in force; None for a path of the file.
    #[serde(default)]
    pub learned: Option<LearnedInfo>,
    /// The part of it that it has by the word of peers, where that is anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_peer: Option<ByPeerInfo>,
    /// The policy's settings; where one has no value, it is left to the kernel.
    #[schemars(with = "BTreeMap<String, Option<Value>>")]
    pub policy: Settings,
}

/// Connections showed this of a path that was learned from them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LearnedInfo {
    /// The policy in force is for this: what the fastest connection got, and room above that.
    pub bits_per_second: f64,
    pub rtt_seconds: f64,
    /// A sentence that says what held connections back.
    pub evidence: String,
    /// Time since it had a connection.
    pub unused_seconds: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredInfo {
    pub bandwidth_bits_per_second: Option<Known>,
    pub rtt_seconds: Option<Known>,
    /// Fractions of packets.
    pub loss: Option<Known>,
    pub reordering: Option<Known>,
    /// The policy in force is made of this.
    pub policy_is_for: ConditionsInfo,
    /// The last values of sources that do not count.
    pub refused: Vec<RefusedInfo>,
}

/// A value that does not count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedInfo {
    /// As the key of the source's query.
    pub metric: String,
    pub value: f64,
    pub source: String,
    /// Negative where it is dated ahead of this host's clock.
    pub age_seconds: f64,
    /// As the metric `wad_source_refused_values` has it.
    pub reason: String,
    /// The same in words.
    pub text: String,
}

/// A value, and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Known {
    pub value: f64,
    pub source: String,
    pub age_seconds: f64,
    /// Too old to count.
    pub is_stale: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConditionsInfo {
    pub bits_per_second: Option<f64>,
    pub rtt_seconds: Option<f64>,
    /// How far packets are out of order, where a policy follows from it.
    pub reorder_segments: Option<u32>,
    /// Packets are lost without a queue, and the policy follows from it.
    pub is_leaky: bool,
}

impl Paths {
    pub fn new(
        policies: &[(Arc<str>, Policy)],
        (board, learned): (&Board, &[learn::Known]),
        now: SystemTime,
    ) -> Self {
        let (store, states) = (board.store(), board.states());
        let sources = store.health().zip(board.sources.iter());
        let learned: HashMap<_, _> = learned.iter().map(|it| (it.path.name(), it)).collect();
        let origin = Origin::default();
        let path = |(name, policy): &(Arc<str>, Policy)| {
            let target = board.targets.named(name);
            let measured = target.and_then(|target| {
                let known = |found: Option<Found>| {
                    let Found { source, value, age_seconds, is_stale, .. } = found?;
                    let source = store.name(source).to_owned();
                    Some(Known { value, source, age_seconds, is_stale })
                };
                let findings = store.findings(target, now);
                let refused = refused(&store, target, now);
                Some(MeasuredInfo { refused, ..measured(states.get(target)?, &findings, known) })
            });
            PathInfo {
                name: name.to_string(),
                measured,
                learned: learned.get(name.as_ref()).map(|known| learned_info(known, now)),
                by_peer: None,
                policy: Settings::of_path(InForce { policy, origin: &origin }),
            }
        };
        Self {
            sources: sources.map(|(of, about)| source(of, about, now)).collect(),
            paths: policies.iter().map(path).collect(),
            peers: Vec::new(),
        }
    }

    /// Adds what peers say, and what follows from that.
    #[must_use]
    pub fn with_peers(mut self, ends: &Ends) -> Self {
        let mut by_peer: HashMap<_, _> = ends.by_peer().into_iter().collect();
        for path in &mut self.paths {
            path.by_peer = by_peer.remove(&path.name);
        }
        self.peers = ends.peers();
        self
    }
}

fn source(
    (name, health): (&str, &Health),
    (kind, url): &(&'static str, Option<String>),
    now: SystemTime,
) -> SourceInfo {
    let count = |kind: ErrorKind| (kind.label().to_owned(), health.errors(kind));
    let age = |at| now.duration_since(at).unwrap_or_default().as_secs_f64();
    SourceInfo {
        name: name.to_owned(),
        kind: (*kind).to_owned(),
        url: url.clone(),
        polls: health.polls,
        errors: ErrorKind::ALL.map(count).into_iter().filter(|(_, count)| *count > 0).collect(),
        age_seconds: health.last_success.map(age),
        error: health.failing.as_ref().map(|failing| failing.text.clone()),
    }
}

fn learned_info(known: &learn::Known, now: SystemTime) -> LearnedInfo {
    let used_at = SystemTime::from(known.used_at);
    LearnedInfo {
        bits_per_second: known.path.bits_per_second,
        rtt_seconds: known.path.rtt_seconds,
        evidence: format!("connections were {}", known.evidence),
        unused_seconds: now.duration_since(used_at).unwrap_or_default().as_secs_f64(),
    }
}

fn measured(
    state: &MeasuredState,
    findings: &Findings,
    known: impl Fn(Option<Found>) -> Option<Known>,
) -> MeasuredInfo {
    let get = |metric| known(findings.get(metric));
    let Conditions { capacity, traits } = state.damper.conditions();
    MeasuredInfo {
        bandwidth_bits_per_second: get(Metric::Bandwidth),
        rtt_seconds: get(Metric::Rtt),
        loss: get(Metric::Loss),
        reordering: get(Metric::Reordering),
        policy_is_for: ConditionsInfo {
            bits_per_second: capacity.bits_per_second,
            rtt_seconds: capacity.rtt_seconds,
            reorder_segments: traits.reorder_segments,
            is_leaky: traits.is_leaky,
        },
        refused: Vec::new(),
    }
}

/// Returns what sources said of a path last, where it does not count.
fn refused(store: &Store, target: usize, now: SystemTime) -> Vec<RefusedInfo> {
    let now_seconds = seconds_since_1970(now);
    let sources = 0..store.health().count();
    let each = sources.flat_map(|source| Metric::ALL.map(|metric| (source, metric)));
    let info = |(source, metric)| {
        let doubt = store.doubt(source, target, metric)?;
        let value = Untrusted::new(&Refused { source, target, metric, doubt }, store);
        Some(RefusedInfo {
            metric: metric.key().to_owned(),
            value: value.value,
            age_seconds: now_seconds - value.measured_at_seconds,
            reason: value.refusal.label().to_owned(),
            text: value.to_string(),
            source: value.source,
        })
    };
    each.filter_map(info).collect()
}

/// Takes the answer. It may block for as long as reading the maps takes.
#[derive(Clone)]
pub struct Source(Arc<dyn Fn() -> Result<Paths, SourceError> + Send + Sync>);

impl Source {
    pub fn new(read: impl Fn() -> Result<Paths, SourceError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    pub fn read(&self) -> Result<Paths, SourceError> {
        self.0()
    }
}

impl Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}
