//! The configuration: a TOML file, read strictly.
//!
//! A file is taken whole or not at all: unknown keys, values out of range and
//! rules that can never match are errors, and all errors of a file are shown in
//! one run. Units are in the names; a zero port is any port.

mod aimd;
mod buffers;
mod congestion;
mod consent;
mod control;
mod derived;
mod document;
mod dscp;
mod error;
mod fault;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod host;
mod host_changes;
mod line;
mod overlap;
mod pacing;
mod path;
mod prefix;
mod quantity;
mod report;
mod sections;
mod sink;
mod source;
mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod thresholds;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod properties;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use ipnet::IpNet;
use wad_common::control::Control;

pub use crate::pair::{decrease, increase_segments};
use crate::{derived::Derived, law::Law, shares::Shares, tuning_plan::Capacity};

pub use buffers::{AUTO_HEADROOM, MAX_BYTES as MAX_BUFFER_BYTES, auto_bytes as auto_buffer_bytes};
#[cfg(any(test, feature = "testing"))]
pub use derived::MAX_METRICS as MAX_DERIVED_METRICS;
pub use error::ConfigError;
pub use host::Host;
#[cfg(feature = "fuzz")]
pub use host::loadable;
pub use host_changes::{HostChanges, TransmitQueue};
pub use line::{bits_per_second, is_rate, is_rtt, rtt_seconds};
pub use pacing::MAX_BYTES_PER_SECOND as UNBOUNDED_PACING_BYTES_PER_SECOND;
pub use prefix::{Mapped, covers_ipv4};
pub use quantity::{bytes, duration};
pub use sink::{Collector, Kind as SinkKind, LogFile, Sink};
pub use source::{Kind as SourceKind, Metric, PerfSonar, Prometheus, Query, Service, Source};
pub use thresholds::Windows;

/// A configuration without errors.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub agent: Agent,
    pub metrics: Metrics,
    pub limits: Limits,
    pub log: Log,
    pub api: Api,
    pub host: HostChanges,
    /// Of what paths carry; the first that knows has the say.
    pub sources: Vec<Source>,
    /// Of events.
    pub sinks: Vec<Sink>,
    /// What is made of the instruments of flows.
    pub derived: Derived,
    /// In the order of the file.
    pub paths: Vec<PathPolicy>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    /// Where the journal of changes to the host is kept.
    pub state_dir: PathBuf,
    pub on_exit: OnExit,
}

impl Default for Agent {
    fn default() -> Self {
        Self { state_dir: PathBuf::from("/var/lib/wad"), on_exit: OnExit::Restore }
    }
}

/// What becomes of the tuning when the agent ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExit {
    /// It is taken out of the kernel, and the host is as it was.
    Restore,
    /// It stays, for the next agent to take over, with what it needs of the host.
    Keep,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Metrics {
    pub listen: SocketAddr,
    /// Paths with metrics of their own; those beyond are summed up as `other`.
    pub max_paths: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Memory that tuned flows may pin; None for a quarter of `tcp_mem[1]`.
    pub max_memory_bytes: Option<u64>,
    /// Largest buffer of any path, as the argument of SO_SNDBUF and SO_RCVBUF.
    pub max_buffer_bytes: Option<u32>,
    /// Least time between two changes of a measured path.
    pub change_interval: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    pub format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Api {
    /// On loopback, beside the Unix socket; None for that alone.
    pub listen: Option<SocketAddr>,
}

/// Which flows, and what they get. None leaves a setting to the kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathPolicy {
    /// 1 to 63 bytes, printable, unique.
    pub name: String,
    /// Networks, none twice, without IPv4-mapped ones.
    pub remote: Vec<IpNet>,
    /// As `remote`; empty for any.
    pub local: Vec<IpNet>,
    pub remote_port: u16,
    pub local_port: u16,
    /// What the path carries in a round trip time, where the file says so.
    pub bdp_bytes: Option<u64>,
    /// Argument of SO_SNDBUF, which the kernel doubles.
    pub sndbuf_bytes: Option<u32>,
    /// Argument of SO_RCVBUF, which the kernel doubles.
    pub rcvbuf_bytes: Option<u32>,
    /// Both are for all flows of the path together.
    pub divide: bool,
    /// The size, as an argument of SO_SNDBUF and SO_RCVBUF, that the kernel's
    /// autotuning is to have room for, where it sizes the buffers.
    pub autotune_bytes: Option<u32>,
    pub congestion: Option<Congestion>,
    /// In force where `congestion` is [`Congestion::Ours`].
    pub control: Control,
    pub initial_window_segments: Option<u32>,
    pub initial_receive_window_segments: Option<u32>,
    pub max_pacing_bytes_per_second: Option<u32>,
    /// Acknowledgements are delayed as little as the kernel allows.
    pub no_delayed_acks: bool,
    /// Packets that may arrive before one that was sent ahead of them, before that
    /// counts as lost.
    pub reorder_segments: Option<u32>,
    /// The application's own buffers and congestion control do not count.
    pub override_setsockopt: bool,
    /// 0 to 63.
    pub dscp: Option<u8>,
    pub max_flows: Option<u32>,
    pub allow_aggressive: bool,
    /// Nothing of the above is given to its flows: they are only counted.
    pub observe: bool,
    pub origin: Origin,
    /// None where the values are those of the file.
    pub measured: Option<MeasuredPath>,
}

impl PathPolicy {
    /// What its flows take beside standard ones. None under the kernel's algorithms, and
    /// where losses are no measure.
    pub fn shares(&self) -> Option<Shares> {
        match self.congestion {
            Some(Congestion::Ours(law)) => Shares::of(law, &self.control, self.bdp_bytes),
            _ => None,
        }
    }
}

/// Where a path's settings come from, and what of them the kernel side has no part
/// in.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Origin {
    pub capacity: Capacity,
    pub buffers: AutoBuffers,
    /// Standard flows as which one is to behave; 0 for one.
    pub streams: u32,
    /// [`PathPolicy::reorder_segments`]; 0 for the kernel's own.
    pub reorder_segments: u32,
}

/// What follows from the measurements of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredPath {
    /// What the file says that the path carries: in force until it is measured,
    /// and when that is too old.
    pub fallback: Capacity,
    pub buffers: AutoBuffers,
    pub windows: Windows,
    /// The pair of RFC 3649.
    pub aimd_is_auto: bool,
    /// Standard flows as which one is to behave; buffers are for all of them.
    pub streams: u32,
}

/// Which of the path's buffers follow from what it carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AutoBuffers {
    pub sndbuf: bool,
    pub rcvbuf: bool,
    /// Those that the kernel sizes.
    pub autotune: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Congestion {
    Ours(Law),
    /// One that the kernel has, by its name.
    Kernel(String),
}
