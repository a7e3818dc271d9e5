//! Readings are what the kernel side has counted, by path and in all.

use std::{
    fmt::{self, Display},
    sync::Arc,
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wad_common::{counter::Counter, stats::PathStats};
use wad_toolbox::refusals::RefusedFlows;

/// The counts of one moment.
#[derive(Clone, Debug)]
pub struct KernelReadings {
    /// The paths, in the order of the configuration.
    pub paths: Vec<PathReading>,
    pub counters: [u64; Counter::COUNT as usize],
    pub generation: u64,
    /// Everything is disabled, by `wad disable` without a path.
    pub all_disabled: bool,
    /// The programs that may be looked at.
    pub programs: Vec<ProgramRuns>,
    /// The programs that the kernel has refused.
    pub refusals: Vec<Refusal>,
}

/// A BPF program that the kernel has refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub program: &'static str,
    /// Its kind, as `iter/tcp`.
    pub kind: String,
    /// It says what goes without the program.
    pub without: &'static str,
    /// The kernel's error and the verifier's last words.
    pub reason: String,
}

impl Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, kind, without, .. } = self;
        write!(f, "BPF program {program} ({kind}): {without}")
    }
}

/// The runs of a program of ours, or of all that a law consists of, as far as the kernel has
/// counted them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramRuns {
    pub name: String,
    pub time: Duration,
    pub count: u64,
}

impl ProgramRuns {
    #[must_use]
    pub fn none(name: &str) -> Self {
        Self { name: name.to_owned(), time: Duration::ZERO, count: 0 }
    }
}

/// Says what becomes of a path's flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PathState {
    #[default]
    Tuned,
    /// Counted only: `mode = "observe"`.
    Observed,
    /// Counted only: `wad disable`.
    Disabled,
    /// Counted only: its guard holds the policy back.
    HeldBack,
}

impl PathState {
    /// Returns the name as JSON and metrics have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tuned => "tuned",
            Self::Observed => "observed",
            Self::Disabled => "disabled",
            Self::HeldBack => "held_back",
        }
    }
}

#[derive(Clone, Debug)]
pub struct PathReading {
    pub name: Arc<str>,
    pub state: PathState,
    pub max_flows: u32,
    pub stats: PathStats,
    /// Counts of its flows that were refused a setting, by setting and reason.
    pub refused: Vec<RefusedFlows>,
}
