//! The configuration: a TOML file, read strictly.
//!
//! A file is taken whole or not at all: unknown keys, values out of range and
//! rules that can never match are errors, and all errors of a file are shown in
//! one run. Units are in the names.

mod access;
mod agent;
mod aimd;
mod allow;
mod api;
mod buffers;
mod by_peer;
mod cgroup;
mod congestion;
mod consent;
mod cut;
mod dedicated;
mod derived;
mod document;
mod dscp;
mod error;
mod experiment;
mod experiment_settings;
mod fault;
mod field;
pub mod fields;
pub mod files;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod guard;
mod host;
mod host_changes;
mod host_name;
mod inherit;
mod interface;
mod keys;
mod kubernetes;
mod learn;
mod limits;
mod line;
mod line_use;
mod listen;
mod log;
mod mark;
mod match_rules;
mod metrics;
mod otlp;
mod overlap;
mod pacing;
mod page;
mod path;
mod path_guards;
mod path_policy;
mod peers;
mod pods;
mod ports;
mod prefix;
mod probe;
mod quantity;
mod reference;
mod report;
mod resume;
mod resume_from;
pub mod route_rules;
mod sections;
mod set;
mod setting;
mod settings;
mod sink;
mod source;
mod subject;
mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod texts;
mod thresholds;
mod trace;
mod unread;
mod user;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod properties;

pub use agent::{Agent, OnExit};
pub use allow::Allow;
pub use api::Api;
pub use buffers::{
    AUTO_HEADROOM, MAX_BYTES as MAX_BUFFER_BYTES, auto_bytes as auto_buffer_bytes,
    most as most_of_file,
};
pub use by_peer::{Bound, ByPeer, Consented, Own};
pub use cgroup::{CgroupPattern, CgroupSelector};
pub use consent::{fair, is_bounded};
pub use cut::{Cut, CutBuffers, Limit, Most};
#[cfg(any(test, feature = "testing"))]
pub use derived::MAX_METRICS as MAX_DERIVED_METRICS;
pub use error::ConfigError;
pub use experiment::{AskedExperiment, MOST_EXPERIMENTS, Unsettled, refuse_neighbours};
pub use experiment_settings::{ExperimentSettings, NotBegun};
pub use field::{Checked, Field, Kind};
pub use fields::capacity::BAND as DEFAULT_BAND;
pub use files::MAX_BYTES as MAX_FILE_BYTES;
pub use guard::{Guard, User};
#[cfg(feature = "fuzz")]
pub use host::loadable;
pub use host::{Host, Loadable};
pub use host_changes::{HostChanges, TransmitQueue};
pub use interface::{InterfacePattern, is_name as is_interface_name};
pub use keys::LeftOut;
pub use kubernetes::KubernetesSettings;
pub use learn::Learn;
pub use limits::Limits;
pub use line::{MAX_BITS_PER_SECOND, bits_per_second, is_rate, is_rtt, rtt_seconds};
pub use log::{Log, LogFormat, LogLevel};
pub use mark::{Mark, number as mark_number};
pub use match_rules::{MatchRule, cgroup_selectors, interface_patterns, match_rules};
pub use metrics::Metrics;
pub use otlp::Otlp;
pub use overlap::{Unfit, fit, unreachable};
pub use pacing::{
    MAX_BYTES_PER_SECOND as MAX_PACING_BYTES_PER_SECOND, auto_bytes_per_second as auto_pacing,
};
pub use page::{Page, PageAddress};
pub use path_guards::{GuardedPaths, MOST_GUARDS, PathGuards};
pub use path_policy::{
    AutoBuffers, AutoTraits, Congestion, MeasuredPath, Origin, PassedOver, PathPolicy,
};
pub use peers::{KeyPin, KnownBy, Peer, PeerAddress, PeerConsent, Peers, is_node_name};
pub use pods::PodSelector;
pub use prefix::{Mapped, covers_ipv4};
pub use probe::{
    Answering, Echo, Echoes, Family, Hold, Iperf3Settings, LONGEST_RESERVED_RUN, PSchedulerTest,
    Probe, ProbeTask, ProbeTool, Resource, ResourceLocks,
};
pub use quantity::{bytes, duration};
pub use reference::{ReferenceTable, TABLES as REFERENCE_TABLES};
pub use report::{Mistake, line_of, line_of_named};
pub use resume_from::Resume;
#[cfg(feature = "fuzz")]
pub use set::fuzz as fuzz_set;
pub use set::{ListError, Prefixes, Set, SetPlace, SetUrl, fill, list_of_addresses, list_of_texts};
pub use setting::{InForce, Setting, Value, Window};
pub use settings::Settings;
pub use sink::{Collector, LogFile, Sink, SinkKind};
pub use source::{Metric, PerfSonar, Prometheus, Query, Service, Source, SourceKind};
pub use subject::subject;
pub use texts::Texts;
pub use thresholds::Windows;
pub use trace::{
    INTERVALS as TRACE_INTERVALS, INTERVALS_IN_WORDS as TRACE_INTERVALS_IN_WORDS,
    KEEP as TRACE_KEEP, MAX_FILE_BYTES as TRACE_MAX_BYTES, MIN_FILE_BYTES as TRACE_MIN_BYTES,
    Trace, TraceFormat,
};

use crate::derived::Derived;
pub use crate::pair::{decrease, increase_segments};

/// A configuration without errors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    pub agent: Agent,
    pub metrics: Metrics,
    pub limits: Limits,
    /// None where no paths are learned.
    pub learn: Option<Learn>,
    /// Which paths have a guard, and what guards do.
    pub guard: PathGuards,
    pub log: Log,
    pub api: Api,
    /// The page for browsers; None where there is none.
    pub page: Option<Page>,
    /// Where the pods of this node are learned from.
    pub kubernetes: KubernetesSettings,
    pub host: HostChanges,
    /// Sources of what paths carry; the first that knows has the say.
    pub sources: Vec<Source>,
    /// Lists of prefixes that paths are for.
    pub sets: Vec<Set>,
    /// Sinks of events.
    pub sinks: Vec<Sink>,
    /// Where metrics are sent; None where they are not.
    pub otlp: Option<Otlp>,
    /// Traces of flows.
    pub traces: Vec<Trace>,
    /// Numbers made of the instruments of flows.
    pub derived: Derived,
    /// The paths that this host measures itself; None where it measures nothing.
    pub probe: Option<Probe>,
    /// The agents at other ends that this one talks with; None where it talks with none.
    pub peers: Option<Peers>,
    /// The paths, in the order of the file.
    pub paths: Vec<PathPolicy>,
}
