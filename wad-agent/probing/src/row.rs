//! A row is kept of each period of a task.

use std::{net::IpAddr, time::Duration};

use jiff::Timestamp;

use crate::measurement::Measurement;

/// A row says how one period of one task ended. Each period has one, and none has two; those
/// that pass while there is no service share one.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub task: String,
    /// The path of the configuration that it measures, if it is one's.
    pub path: Option<String>,
    /// The other end as the task names it: a host name or an address.
    pub host: String,
    /// The address that the name had for this run; None where it came to none.
    pub address: Option<IpAddr>,
    /// A word of the configuration, such as `rtt`.
    pub tool: String,
    /// When the period began, or the first of several.
    pub period: Timestamp,
    /// When the run started; None where it did not.
    pub started: Option<Timestamp>,
    /// From its start to its end.
    pub took: Duration,
    pub ending: Ending,
}

/// How a period ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// The tool measured.
    Measured(Measurement),
    /// The run did not start within its period.
    Missed(Hindrance),
    /// The other end, or the task's budget, would not have it: why.
    Refused(String),
    /// The tool failed: why.
    Failed(String),
    /// It took longer than its task allows.
    TimedOut,
    /// It was ended: why. Its helper broke a bound, or the service stopped.
    Killed(String),
}

/// This kept a run from starting within its period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hindrance {
    /// Another task held a lock, or waited longer for it.
    Lock { lock: String, holder: String },
    /// Values of the path's own flows were as good and cost nothing.
    KnownFromFlows,
    /// The host was suspended, or the service was about to end.
    NotRunning,
    /// The helper is waited for after failures.
    BackingOff,
    /// There was no service: so many periods in a row have passed.
    Stopped { periods: u64 },
}

impl Row {
    /// Returns the number of periods that it is of.
    #[must_use]
    pub const fn periods(&self) -> u64 {
        match self.ending {
            Ending::Missed(Hindrance::Stopped { periods }) => periods,
            _ => 1,
        }
    }
}

impl Ending {
    /// All words for endings.
    pub const WORDS: [&'static str; 6] =
        ["measured", "missed", "refused", "failed", "timed-out", "killed"];

    /// The word for it in the archive, in answers and in metrics.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        Self::WORDS[self.place()]
    }

    /// The place of its word.
    #[must_use]
    pub const fn place(&self) -> usize {
        match self {
            Self::Measured(_) => 0,
            Self::Missed(_) => 1,
            Self::Refused(_) => 2,
            Self::Failed(_) => 3,
            Self::TimedOut => 4,
            Self::Killed(_) => 5,
        }
    }
}

impl Hindrance {
    /// All words for what keeps a run from starting.
    pub const WORDS: [&'static str; 5] =
        ["lock", "known-from-flows", "not-running", "backing-off", "stopped"];

    /// The word for it in the archive, in answers and in metrics.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        Self::WORDS[self.place()]
    }

    /// The place of its word.
    #[must_use]
    pub const fn place(&self) -> usize {
        match self {
            Self::Lock { .. } => 0,
            Self::KnownFromFlows => 1,
            Self::NotRunning => 2,
            Self::BackingOff => 3,
            Self::Stopped { .. } => 4,
        }
    }
}
