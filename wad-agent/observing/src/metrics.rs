//! `/metrics`: what the kernel's maps hold at the moment of a scrape, in the
//! formats that Prometheus reads. The counts go on where a dead agent left them; only
//! histograms, and what running flows have added, are the agent's own.
//!
//! Series are bounded: one set for each of the first `max_paths` paths in the
//! order of the configuration, the others summed up under `path="other"`. A path
//! that is itself named `other` is always part of that sum. So it is with namespaces of
//! Kubernetes, of which a node has no more than pods.

mod collector;
mod definitions;
mod ends;
mod live;
pub mod otlp;
mod reloads;
mod text;

use std::{
    collections::{BTreeMap, HashMap},
    error,
    fmt::{self, Debug},
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use prometheus_client::{collector::Collector, registry::Registry};
use wad_common::counter::Counter;
use wad_evidence::{plan::Arm, verdict::Verdict};
use wad_linux::{netns::Skipped, own_process::Usage};
use wad_toolbox::shortage;
use wad_tuning::{
    attachment::Attachment,
    ceilings::TooLow,
    journal::Change,
    readings::{KernelReadings, PathReading, PathState, ProgramRuns, Refusal},
    routes,
};

pub use self::{
    collector::{descriptor, family, single},
    definitions::Definition,
    ends::{Delays, Ended, Ends},
    live::{Live, Seconds},
    reloads::Reloads,
};

/// Holds what the agent knows at one moment.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    /// The paths, in the order of the configuration.
    pub paths: Vec<PathReading>,
    pub counters: [u64; Counter::COUNT as usize],
    pub generation: u64,
    pub memory: Memory,
    /// Network namespaces that passes over flows have left out.
    pub skipped: Skipped,
    /// The changes that the journal would undo.
    pub changes: Vec<Change>,
    /// The BPF programs that the kernel has refused.
    pub refusals: Vec<Refusal>,
    /// The ceilings that are lower than paths need and stay so, each with the reason.
    pub too_low: Vec<TooLow>,
    pub reloads: Reloads,
    pub routes: routes::Counts,
    /// The times that something failed, by what there was too little of.
    pub shortages: shortage::Counts,
    /// Whether what is in the kernel is where it belongs.
    pub attachment: Attachment,
    /// Everything is disabled, by `wad disable` without a path.
    pub all_disabled: bool,
    /// The sources, in the order of the configuration.
    pub sources: Vec<SourceReading>,
    /// The sets, in the order of the configuration.
    pub sets: Vec<SetReading>,
    /// The pods of this node, where they are followed.
    pub pods: Option<PodsReading>,
    /// Told so far, by name.
    pub events: Vec<(&'static str, u64)>,
    /// The sinks, in the order of the configuration.
    pub sinks: Vec<SinkReading>,
    /// The traces, in the order of the configuration.
    pub traces: Vec<TraceReading>,
    /// The export by OTLP, if there is one.
    pub otlp: Option<OtlpReading>,
    /// The peers, where the configuration has any.
    pub peers: Option<PeersReading>,
    /// The page, if there is one.
    pub page: Option<PageReading>,
    /// The experiments, in the order in which they were begun.
    pub experiments: Vec<ExperimentReading>,
    /// The guards, in the order of their paths.
    pub guards: Vec<GuardReading>,
    /// Since when the kernel counts, for one agent after the other; None for the start of
    /// this one.
    pub counting_since: Option<SystemTime>,
    /// Measured paths.
    pub paths_measured: PathsMeasured,
    /// The state of paths, of those that get series of their own.
    pub now: HashMap<Arc<str>, PathNow>,
    /// How flows ended, by path, of those that have seen a flow end.
    pub ended: HashMap<Arc<str>, Ended>,
    /// The times flows were limited, by path, of those that have had a flow that was
    /// seen running.
    pub limited: HashMap<String, Seconds>,
    pub derived: DerivedMeans,
    /// The agent's own use of the host.
    pub process: Usage,
    /// How late its event loop is.
    pub delays: Delays,
    /// The runs of programs in the kernel, as far as it counts them.
    pub programs: Vec<ProgramRuns>,
}

/// TCP holds so much of the host's memory, and meets its bound so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub held_bytes: u64,
    pub limit_bytes: u64,
    /// The time in which buffers did not grow, the next one included.
    pub near_limit: Duration,
    /// The time in which the largest shrank.
    pub over_limit: Duration,
}

/// The state of a path beside its counts: what is measured of it, and what its policy gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathNow {
    pub measured_bytes_per_second: Option<f64>,
    pub measured_rtt_seconds: Option<f64>,
    /// The age of the older of the two.
    pub measured_age_seconds: Option<f64>,
    /// SO_SNDBUF that its flows get, or get at most; None where that is the kernel's.
    pub sndbuf_bytes: Option<f64>,
    /// SO_RCVBUF, in the same way.
    pub rcvbuf_bytes: Option<f64>,
    /// The congestion control that its flows get; empty where that is the kernel's.
    pub congestion: String,
}

/// Derived events that have a metric, as they are now.
#[derive(Clone, Debug, Default)]
pub struct DerivedMeans {
    pub names: Vec<String>,
    /// The means, by path, in the order of the names.
    pub means: HashMap<String, Vec<Option<f64>>>,
}

/// Says where the page is, and what of its clients was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageReading {
    pub address: String,
    /// Requests that were not answered, and clients that were cut off, by why.
    pub refused: Vec<(&'static str, u64)>,
}

/// Says how polling a source goes.
#[derive(Clone, Debug)]
pub struct SourceReading {
    pub name: String,
    pub polls: u64,
    /// The errors, by kind.
    pub errors: Vec<(&'static str, u64)>,
    /// The values that do not count, by reason.
    pub refused: Vec<(&'static str, u64)>,
    /// When it last gave a value.
    pub last_success: Option<SystemTime>,
}

/// Says how a list of prefixes is.
#[derive(Clone, Debug)]
pub struct SetReading {
    pub name: String,
    /// The prefixes that it holds.
    pub prefixes: u64,
    /// When that list was read; None where none has ever been.
    pub read_at: Option<SystemTime>,
    /// Why its list does not count now, if it does not.
    pub failing: Option<String>,
}

/// Says how an experiment on a path gets on.
#[derive(Clone, Debug)]
pub struct ExperimentReading {
    pub path: String,
    pub is_over: bool,
    /// It ends then at the latest.
    pub ends: Timestamp,
    /// New connections get this in the block that it is in; None before the first.
    pub arm: Option<Arm>,
    /// Pairs of blocks that count.
    pub pairs: u64,
    /// The blocks of its plan.
    pub blocks: u64,
    /// Blocks that do not count.
    pub thrown: u64,
    /// The verdict on goodput, once it stands.
    pub verdict: Option<Verdict>,
}

/// Says what the guard of a path does.
#[derive(Clone, Debug)]
pub struct GuardReading {
    pub path: String,
    /// The policy is for this part of the path's new connections.
    pub share: f64,
    /// How often the path has tripped.
    pub trips: u64,
    /// How far its worst signal is towards the bound at which it trips, which is 1.
    pub suspicion: f64,
}

/// Says what is known of the pods of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodsReading {
    /// The pods that are known.
    pub known: u64,
    /// Who says which there are; None where nobody does, and what was known last holds.
    pub origin: Option<&'static str>,
    /// Says what goes without as nobody does, and why that is so.
    pub lacking: Option<String>,
    /// Paths do, which depend on them.
    pub is_failing: bool,
    /// Connections that came under another path, or under one at all, while they ran.
    pub adopted: u64,
    /// The connections on paths, by the namespace of their pod.
    pub flows: BTreeMap<Arc<str>, u64>,
}

/// Says how a sink gets on.
#[derive(Clone, Debug)]
pub struct SinkReading {
    pub name: String,
    pub kind: &'static str,
    pub sent: u64,
    /// Events that it refuses for good, and that are set aside.
    pub refused: u64,
    /// The lost events, by reason.
    pub lost: Vec<(&'static str, u64)>,
    pub spooled_bytes: u64,
    pub failing: Option<String>,
}

/// Says how a trace gets on.
#[derive(Clone, Debug)]
pub struct TraceReading {
    pub name: String,
    pub file: PathBuf,
    pub lines: u64,
    pub bytes: u64,
    pub lost_lines: u64,
    pub missed_readings: u64,
    pub failing: Option<String>,
}

/// Says how the export of the metrics by OTLP gets on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtlpReading {
    /// Where the metrics are sent.
    pub url: String,
    /// Exports that the service has taken.
    pub sent: u64,
    /// Exports that were given up.
    pub failed: u64,
    /// Points that it left out of those that it took.
    pub rejected_points: u64,
    /// When it last took an export.
    pub last_success: Option<SystemTime>,
    /// Why it did not take the last one that it was tried with.
    pub failing: Option<String>,
}

/// Says how it is with agents at other ends of paths.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeersReading {
    /// When this end's certificate ends; None where its files could never be used.
    pub certificate_ends: Option<SystemTime>,
    /// Why the files cannot be used, if they cannot.
    pub files_failing: Option<String>,
    pub file_errors: u64,
    /// Connections of those that are no peer, by the reason why they were not heard.
    pub strangers: Vec<(&'static str, u64)>,
    /// The peers, in the order of the configuration.
    pub peers: Vec<PeerReading>,
}

/// Says how it is with a peer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeerReading {
    pub name: String,
    /// Age of what it said last, as long as that counts.
    pub age_seconds: Option<f64>,
    /// How long it has said nothing that counts, if it has not.
    pub silent_seconds: Option<f64>,
    pub heard: u64,
    /// Times that it could not be asked.
    pub failed: u64,
    /// Times that it was not heard, by reason.
    pub refused: Vec<(&'static str, u64)>,
    pub failing: Option<String>,
    /// When the certificate ends that it showed last.
    pub certificate_ends: Option<SystemTime>,
}

/// Measured paths, by what is known of their bandwidth and RTT.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathsMeasured {
    pub fresh: u64,
    pub stale: u64,
}

impl From<KernelReadings> for Readings {
    fn from(kernel: KernelReadings) -> Self {
        let KernelReadings { paths, counters, generation, all_disabled, programs, refusals } =
            kernel;
        Self { paths, counters, generation, all_disabled, programs, refusals, ..Self::default() }
    }
}

impl Readings {
    /// Paths whose flows are left alone by `wad disable`.
    #[must_use]
    pub fn paths_disabled(&self) -> u64 {
        self.paths.iter().filter(|path| path.state == PathState::Disabled).count() as u64
    }

    #[must_use]
    pub fn counter(&self, counter: Counter) -> u64 {
        self.counters[counter as usize]
    }
}

pub type SourceError = Box<dyn error::Error + Send + Sync>;

/// Takes the readings. It may block for as long as reading the maps takes.
#[derive(Clone)]
pub struct Source(Arc<dyn Fn() -> Result<Readings, SourceError> + Send + Sync>);

impl Source {
    pub fn new(read: impl Fn() -> Result<Readings, SourceError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    pub fn read(&self) -> Result<Readings, SourceError> {
        self.0()
    }
}

impl Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}

/// The two text formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// Prometheus text format 0.0.4, which every scraper and `promtool` read.
    Text,
}

impl Format {
    /// Returns the format that the scraper asks for; the plain text format in doubt.
    #[must_use]
    pub fn accepted(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Text }
    }

    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Writes one scrape.
pub fn encode(
    readings: Readings,
    max_paths: usize,
    started: SystemTime,
    format: Format,
) -> Result<String, fmt::Error> {
    encode_collector(Box::new(collector::Scrape { readings, max_paths, started }), format)
}

/// Writes one scrape of what a collector has.
pub fn encode_collector(
    collector: Box<dyn Collector>,
    format: Format,
) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(collector);
    let mut openmetrics = String::new();
    prometheus_client::encoding::text::encode(&mut openmetrics, &registry)?;
    Ok(match format {
        Format::OpenMetrics => openmetrics,
        Format::Text => text::from_openmetrics(&openmetrics),
    })
}

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
