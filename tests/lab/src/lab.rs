//! This module has the laboratory, and what can go wrong in it.

use std::{io, path::PathBuf};

use wad_testbed::{
    both_ends::BothEndsError, cgroup::CgroupError, emulated::wan::WanError, netns::NetnsError,
    nginx::NginxError, process::ProcessError, settings::SettingsError, signal, sysctl::SysctlError,
    trace::TraceError, tracing::TracingError, wad::WadError,
};

use crate::{
    bpftune::BpftuneError,
    client::{Client, ClientError},
    measure::WatchError,
    memory::MemoryError,
    monitor::MonitorError,
    scenario::{Scenario, Variant},
};

/// Tells what made an experiment fail.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    #[error(transparent)]
    Wan(#[from] WanError),
    #[error(transparent)]
    Netns(#[from] NetnsError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    #[error(transparent)]
    Wad(#[from] WadError),
    #[error(transparent)]
    Monitor(#[from] MonitorError),
    #[error(transparent)]
    Bpftune(#[from] BpftuneError),
    #[error(transparent)]
    BothEnds(#[from] BothEndsError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Watch(#[from] WatchError),
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error(transparent)]
    Tracing(#[from] TracingError),
    #[error(transparent)]
    Interrupted(#[from] signal::Interrupted),
    #[error("cannot keep the {who}'s output")]
    Output { who: &'static str, source: io::Error },
    #[error("the {who} failed: {reason}")]
    Client { who: &'static str, reason: String },
    #[error("the sender sent {sent} bytes, the receiver took {received}")]
    Lost { sent: u64, received: u64 },
    #[error("cannot send the burst of datagrams")]
    Burst(#[source] io::Error),
    #[error("cannot read TCP's counters in /proc/net")]
    Counters(#[source] io::Error),
    #[error("cannot read the processors' time in /proc/stat")]
    Processors(#[source] io::Error),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error("someone else changed the host's settings during a run: try again")]
    Disturbed,
    #[error("ss saw no flow")]
    Unseen,
    #[error("{variant} runs without wad, which is what traces: name others with --variant")]
    Untraced { variant: String },
    #[error(transparent)]
    MovedBy(#[from] ClientError),
    #[error(transparent)]
    Nginx(#[from] NginxError),
    #[error("{variant} has flows of several kinds: only the lab's own client can run them")]
    OwnClientOnly { variant: String },
}

/// A laboratory.
pub struct Lab {
    /// The `wad-lab` binary, which is the bulk sender and receiver too.
    pub own: PathBuf,
    /// The `wad` binary.
    pub wad: PathBuf,
    pub client: Client,
    /// The folder for what `wad trace` sees of the senders, if it is to look: a file
    /// for each variant, the run before it being FILE.1.
    pub traces: Option<PathBuf>,
}

impl Lab {
    /// Returns who moves the data of a scenario.
    #[must_use]
    pub fn client_of(&self, scenario: &Scenario) -> Client {
        scenario.client.unwrap_or(self.client)
    }

    /// Returns who moves the data of one of its variants.
    #[must_use]
    pub fn client_for(&self, scenario: &Scenario, variant: &Variant) -> Client {
        variant.client.unwrap_or_else(|| self.client_of(scenario))
    }
}
