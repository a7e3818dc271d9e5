//! News of a trace are told while it is written, each once.

use std::{fmt, sync::Arc};

/// Tells news to whom they are for. The thread that writes tells some.
pub type Voice = Arc<dyn Fn(&News) + Send + Sync>;

/// A change for the worse or the better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// There are no readings, for this reason.
    Silent { why: String },
    /// There are readings again.
    Heard,
    /// Lines cannot be written, for this reason.
    Refused { why: String },
    /// Lines can be written again, after so many were lost.
    Taken { lost: u64 },
}

/// News are in the words of `wad trace`, which asks an agent.
impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent { why } => write!(f, "{why}; the trace goes on as soon as it answers"),
            Self::Heard => f.write_str("the agent answers again"),
            Self::Refused { why } => write!(
                f,
                "cannot write: {why}; reading goes on, and lines are lost until it is put right"
            ),
            Self::Taken { lost } => {
                write!(f, "lines are written again; {lost} were lost so far")
            }
        }
    }
}
