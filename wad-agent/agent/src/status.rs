//! A status is what the agent says of itself, as JSON between it and `wad status`.

use std::{
    path::PathBuf,
    process,
    time::{Duration, Instant, SystemTime},
};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wad_common::counter::Counter;
use wad_evidence::{plan::Arm, verdict::Verdict};
use wad_linux::privileges::Privileges;
use wad_observing::metrics::{
    ExperimentReading, OtlpReading, PageReading, PeerReading, PeersReading, PodsReading, Readings,
    Reloads, SetReading, SinkReading, TraceReading,
};
use wad_probing::{schedule::Reservations, service::Outlook};
use wad_toolbox::refusals::RefusedFlows;
use wad_tuning::{
    journal::Change,
    readings::{PathReading, PathState},
};

use crate::{
    guards::GuardTold,
    heard::{ByPeerInfo, Ends},
};

/// Holds what stays the same for as long as the agent runs.
#[derive(Clone, Debug)]
pub struct About {
    pub instance: String,
    pub config: PathBuf,
    pub cgroup: PathBuf,
    pub started: Instant,
    pub started_at: SystemTime,
    pub privileges: Privileges,
}

#[cfg(any(test, feature = "testing"))]
impl About {
    /// Returns that of an agent that starts now.
    #[must_use]
    pub fn example(privileges: Privileges) -> Self {
        Self {
            instance: "default".to_owned(),
            config: "/etc/wad/wad.toml".into(),
            cgroup: "/sys/fs/cgroup".into(),
            started: Instant::now(),
            started_at: SystemTime::now(),
            privileges,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    pub version: String,
    pub instance: String,
    pub pid: u32,
    pub uptime_seconds: u64,
    pub config: PathBuf,
    pub cgroup: PathBuf,
    pub generation: u64,
    /// Reloads of the configuration, since the start.
    pub reloads: ReloadStatus,
    /// Capabilities that the agent does without, each with what goes without it; and ceilings of
    /// the host that it could not raise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacking: Vec<String>,
    /// BPF programs that the kernel refuses, each with what goes without it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs_refused: Vec<String>,
    /// Parts that are not in the kernel any more where they belong, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub detached: Vec<String>,
    pub memory_held_bytes: u64,
    pub memory_limit_bytes: u64,
    pub events_lost: u64,
    pub mptcp_subflows: u64,
    pub flows_without_storage: u64,
    /// The lists of prefixes, in the order of the configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<SetStatus>,
    /// The pods of this node, where they are followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodsStatus>,
    /// The service of probes, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<ProbesStatus>,
    /// The experiments, in the order in which they were begun; `wad report` says more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub experiments: Vec<ExperimentStatus>,
    /// The guards, in the order of their paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guards: Vec<GuardTold>,
    /// The sinks, in the order of the configuration.
    pub sinks: Vec<SinkStatus>,
    /// The traces, in the order of the configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<TraceStatus>,
    /// The export of the metrics by OTLP, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otlp: Option<OtlpStatus>,
    /// The agents at other ends of paths, if the configuration has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peers: Option<PeersStatus>,
    /// The page for browsers, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<PageStatus>,
    /// Everything is disabled, by `wad disable` without a path.
    pub all_disabled: bool,
    /// The paths, in the order of the configuration.
    pub paths: Vec<PathStatus>,
    /// The changes that wad made on the host and will undo.
    pub changes: Vec<Change>,
}

/// Says how a list of prefixes is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetStatus {
    pub name: String,
    pub prefixes: u64,
    /// Seconds since the list that it holds was read.
    pub age_seconds: Option<u64>,
    /// The reason why its list does not count now, if it does not: the last good one holds.
    pub failing: Option<String>,
}

impl From<SetReading> for SetStatus {
    fn from(set: SetReading) -> Self {
        let SetReading { name, prefixes, read_at, failing } = set;
        // A clock that was set back makes it no older than now.
        let age = read_at.map(|at| at.elapsed().unwrap_or_default());
        Self { name, prefixes, age_seconds: age.map(|age| age.as_secs()), failing }
    }
}

/// Says what is known of the pods of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PodsStatus {
    /// The pods that are known.
    pub known: u64,
    /// Who says which there are, `kubelet` or `api_server`; none where nobody does, and what was
    /// known last holds.
    pub origin: Option<String>,
    /// Says what goes without as nobody does, and why that is so.
    pub lacking: Option<String>,
    /// Connections that came under their path while they ran, as their pod or its labels were
    /// not known before.
    pub flows_adopted: u64,
}

impl From<PodsReading> for PodsStatus {
    fn from(pods: PodsReading) -> Self {
        let PodsReading { known, origin, lacking, adopted, is_failing: _, flows: _ } = pods;
        Self { known, origin: origin.map(str::to_owned), lacking, flows_adopted: adopted }
    }
}

/// Says what is measured by probes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbesStatus {
    pub tasks: usize,
    /// The most that all tasks together send and receive in a day.
    pub max_bytes_per_day: u64,
    /// Runs that go on.
    pub running: usize,
    /// The task whose period has the next run.
    pub next_task: Option<String>,
    /// Seconds until that is due.
    pub next_in_seconds: Option<f64>,
    /// The counts of runs that both ends agree to.
    #[serde(default)]
    pub reservations: Reservations,
}

impl From<Outlook> for ProbesStatus {
    fn from(outlook: Outlook) -> Self {
        let next = outlook.next_in();
        Self {
            tasks: outlook.tasks,
            max_bytes_per_day: outlook.bytes_per_day,
            running: outlook.running,
            next_task: next.map(|(task, _)| task.to_owned()),
            next_in_seconds: next.map(|(_, time)| time.as_secs_f64()),
            reservations: outlook.reservations,
        }
    }
}

/// Says how an experiment on a path gets on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExperimentStatus {
    pub path: String,
    pub is_over: bool,
    /// It ends then at the latest.
    pub ends: Timestamp,
    /// New connections get this in the block that it is in; null where there is none.
    pub arm: Option<Arm>,
    /// Pairs of blocks that count, of those that are planned.
    pub pairs: u64,
    pub planned_pairs: u64,
    /// Blocks that do not count.
    pub blocks_thrown: u64,
    /// The verdict on goodput, once it stands.
    pub verdict: Option<Verdict>,
}

impl From<ExperimentReading> for ExperimentStatus {
    fn from(experiment: ExperimentReading) -> Self {
        let ExperimentReading { path, is_over, ends, arm, pairs, blocks, thrown, verdict } =
            experiment;
        Self {
            path,
            is_over,
            ends,
            arm,
            pairs,
            planned_pairs: blocks / 2,
            blocks_thrown: thrown,
            verdict,
        }
    }
}

/// Experiments and guards, in short.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The experiments, in the order in which they were begun.
    pub experiments: Vec<ExperimentStatus>,
    /// The guards, in the order of their paths.
    pub guards: Vec<GuardTold>,
}

/// Says how a sink of events gets on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SinkStatus {
    pub name: String,
    pub kind: String,
    pub sent: u64,
    /// Events that it refuses for good, and that are set aside.
    #[serde(default)]
    pub refused: u64,
    pub lost: u64,
    /// Bytes that it has still to take.
    pub spooled_bytes: u64,
    /// Why it took nothing when it was last tried.
    pub failing: Option<String>,
}

impl From<SinkReading> for SinkStatus {
    fn from(sink: SinkReading) -> Self {
        let SinkReading { name, kind, sent, refused, lost, spooled_bytes, failing } = sink;
        let lost = lost.iter().map(|(_, count)| count).sum();
        Self { name, kind: kind.to_owned(), sent, refused, lost, spooled_bytes, failing }
    }
}

/// Says how a trace of the configuration gets on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceStatus {
    pub name: String,
    pub file: PathBuf,
    pub lines: u64,
    pub bytes: u64,
    pub lost_lines: u64,
    /// Readings that should have been.
    pub missed_readings: u64,
    /// Why it cannot be written or its flows cannot be read now; it is tried again.
    pub failing: Option<String>,
}

impl From<TraceReading> for TraceStatus {
    fn from(trace: TraceReading) -> Self {
        let TraceReading { name, file, lines, bytes, lost_lines, missed_readings, failing } = trace;
        Self { name, file, lines, bytes, lost_lines, missed_readings, failing }
    }
}

/// Says how the export of the metrics by OTLP gets on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OtlpStatus {
    /// Where the metrics are sent.
    pub url: String,
    /// Exports that the service has taken.
    pub sent: u64,
    /// Exports that were given up.
    pub failed: u64,
    /// Data points that it left out of those that it took.
    pub rejected_points: u64,
    /// Seconds since it last took an export.
    pub age_seconds: Option<u64>,
    /// Why it did not take the last one that it was tried with; it is tried again.
    pub failing: Option<String>,
}

impl From<OtlpReading> for OtlpStatus {
    fn from(otlp: OtlpReading) -> Self {
        let OtlpReading { url, sent, failed, rejected_points, last_success, failing } = otlp;
        let age = last_success.map(|at| at.elapsed().unwrap_or_default());
        let age_seconds = age.map(|age| age.as_secs());
        Self { url, sent, failed, rejected_points, age_seconds, failing }
    }
}

/// Says where the page for browsers is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageStatus {
    /// Its URL, or the file of its socket.
    pub address: String,
    /// Requests that were not answered, and clients that were cut off as they were too slow.
    pub refused: u64,
}

impl From<PageReading> for PageStatus {
    fn from(page: PageReading) -> Self {
        let PageReading { address, refused } = page;
        Self { address, refused: refused.iter().map(|(_, count)| count).sum() }
    }
}

/// Says how it is with agents at other ends of paths; `wad peer status` says more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PeersStatus {
    /// Days until this end's certificate ends, negative where it has.
    pub certificate_ends_in_days: Option<i64>,
    /// Why its files cannot be used, if they cannot.
    pub failing: Option<String>,
    /// Connections of those that are no peer.
    pub strangers_refused: u64,
    /// The peers, in the order of the configuration.
    pub peers: Vec<PeerStatus>,
}

/// Says how it is with a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PeerStatus {
    pub name: String,
    /// Seconds since it said something that counts still.
    pub age_seconds: Option<u64>,
    /// Seconds for which that counts, if nothing else is said.
    pub ends_in_seconds: Option<u64>,
    /// Seconds for which its consent to more than a fair share holds, if it gives one.
    pub consent_ends_in_seconds: Option<u64>,
    /// The paths that have something by its word.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Seconds in which it has said nothing that counts.
    pub silent_seconds: Option<u64>,
    /// Times that it was not heard.
    pub refused: u64,
    /// Why it was not heard when it was last tried.
    pub failing: Option<String>,
    /// Days until the certificate ends that it showed last.
    pub certificate_ends_in_days: Option<i64>,
}

/// Returns the whole days until then, negative where it is over.
fn days_to(at: SystemTime) -> i64 {
    let days = |time: Duration| (time.as_secs() / 86_400) as i64;
    match at.duration_since(SystemTime::now()) {
        Ok(left) => days(left),
        Err(over) => -1 - days(over.duration()),
    }
}

impl From<PeersReading> for PeersStatus {
    fn from(reading: PeersReading) -> Self {
        let PeersReading { certificate_ends, files_failing, strangers, peers, .. } = reading;
        Self {
            certificate_ends_in_days: certificate_ends.map(days_to),
            failing: files_failing,
            strangers_refused: strangers.iter().map(|(_, count)| count).sum(),
            peers: peers.into_iter().map(PeerStatus::from).collect(),
        }
    }
}

impl From<PeerReading> for PeerStatus {
    fn from(peer: PeerReading) -> Self {
        let whole = |seconds: Option<f64>| seconds.map(|seconds| seconds as u64);
        Self {
            age_seconds: whole(peer.age_seconds),
            ends_in_seconds: None,
            consent_ends_in_seconds: None,
            paths: Vec::new(),
            silent_seconds: whole(peer.silent_seconds),
            refused: peer.refused.iter().map(|(_, count)| count).sum(),
            failing: peer.failing,
            certificate_ends_in_days: peer.certificate_ends.map(days_to),
            name: peer.name,
        }
    }
}

/// Reloads by what came of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReloadStatus {
    pub applied: u64,
    pub refused: u64,
    pub failed: u64,
    /// The last one was not applied: what runs is not what the file says.
    pub behind: bool,
}

impl From<Reloads> for ReloadStatus {
    fn from(reloads: Reloads) -> Self {
        let Reloads { applied, refused, failed, is_behind, loaded: _ } = reloads;
        Self { applied, refused, failed, behind: is_behind }
    }
}

/// A path and its counts, which are those of the metrics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PathStatus {
    pub name: String,
    pub state: PathState,
    pub max_flows: u32,
    pub connections_matched: u64,
    pub flows_opened: u64,
    pub flows_closed: u64,
    pub flows_tuned: u64,
    pub flows_untuned: Untuned,
    /// The settings that the kernel refused, by setting and errno.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedFlows>,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub segments_sent: u64,
    pub segments_retransmitted: u64,
    /// Round trip time of the flow that closed last.
    pub rtt_us: Option<u64>,
}

/// Matched flows that are not as their policy says, by why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Untuned {
    pub max_flows: u64,
    pub refused: u64,
}

impl Status {
    #[must_use]
    pub fn new(about: &About, readings: Readings) -> Self {
        let privileges = about.privileges.lacking().map(ToString::to_string);
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instance: about.instance.clone(),
            pid: process::id(),
            uptime_seconds: about.started.elapsed().as_secs(),
            config: about.config.clone(),
            cgroup: about.cgroup.clone(),
            generation: readings.generation,
            reloads: readings.reloads.into(),
            lacking: Vec::from_iter(
                privileges.chain(readings.too_low.iter().map(ToString::to_string)),
            ),
            programs_refused: readings.refusals.iter().map(ToString::to_string).collect(),
            detached: readings.attachment.faults().map(str::to_owned).collect(),
            memory_held_bytes: readings.memory.held_bytes,
            memory_limit_bytes: readings.memory.limit_bytes,
            events_lost: readings.counter(Counter::EventsLost),
            mptcp_subflows: readings.counter(Counter::MptcpSubflows),
            flows_without_storage: readings.counter(Counter::NoStorage),
            sets: readings.sets.into_iter().map(SetStatus::from).collect(),
            pods: readings.pods.map(PodsStatus::from),
            probes: None,
            experiments: readings.experiments.into_iter().map(ExperimentStatus::from).collect(),
            guards: Vec::new(),
            sinks: readings.sinks.into_iter().map(SinkStatus::from).collect(),
            traces: readings.traces.into_iter().map(TraceStatus::from).collect(),
            otlp: readings.otlp.map(OtlpStatus::from),
            peers: readings.peers.map(PeersStatus::from),
            page: readings.page.map(PageStatus::from),
            all_disabled: readings.all_disabled,
            paths: readings.paths.iter().map(PathStatus::from).collect(),
            changes: readings.changes,
        }
    }

    /// Adds what guards do.
    #[must_use]
    pub fn with_guards(self, guards: Vec<GuardTold>) -> Self {
        Self { guards, ..self }
    }

    /// Adds what the service of probes does, if there is one.
    #[must_use]
    pub fn with_probes(self, probes: Option<Outlook>) -> Self {
        Self { probes: probes.map(ProbesStatus::from), ..self }
    }
}

impl Status {
    /// Adds until when the words of peers count, and which paths follow them.
    #[must_use]
    pub fn with_peers(mut self, ends: &Ends) -> Self {
        let Some(peers) = &mut self.peers else { return self };
        let (told, by_peer) = (ends.peers(), ends.by_peer());
        for peer in &mut peers.peers {
            let told = told.iter().find(|told| told.name == peer.name);
            let heard = told.and_then(|told| told.heard.as_ref());
            peer.ends_in_seconds = heard.map(|heard| heard.ends_in_seconds as u64);
            let consent = heard.and_then(|heard| heard.consent.as_ref());
            peer.consent_ends_in_seconds = consent.map(|consent| consent.ends_in_seconds as u64);
            let is_its = |(_, it): &&(String, ByPeerInfo)| it.is_by(&peer.name);
            peer.paths = by_peer.iter().filter(is_its).map(|(path, _)| path.clone()).collect();
        }
        self
    }
}

impl From<&PathReading> for PathStatus {
    fn from(path: &PathReading) -> Self {
        let stats = &path.stats;
        Self {
            name: path.name.as_ref().to_owned(),
            state: path.state,
            max_flows: path.max_flows,
            connections_matched: stats.matched,
            flows_opened: stats.opened,
            flows_closed: stats.closed,
            flows_tuned: stats.tuned_now(),
            flows_untuned: Untuned { max_flows: stats.too_many, refused: stats.refused },
            refused: path.refused.clone(),
            sent_bytes: stats.bytes_acked,
            received_bytes: stats.bytes_received,
            segments_sent: stats.data_segs_out,
            segments_retransmitted: stats.segs_retrans,
            rtt_us: (stats.srtt_us > 0).then_some(stats.srtt_us),
        }
    }
}
