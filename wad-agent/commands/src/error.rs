//! Errors that commands themselves find.

use std::path::PathBuf;

use wad_policy::config::{NotBegun, Unsettled};
use wad_tuning::journal::Damage;

#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("{name:?} is no instrument, nor a --field: see `wad flows --instruments`")]
    NoInstrument { name: String },
    #[error("a path of {segments:.0} segments can't be planned: check --rate and --rtt")]
    TooLarge { segments: f64 },
    #[error("{} takes all lines: --max-bytes and --keep are for files", .file.display())]
    BoundsOfStream { file: PathBuf },
    /// An experiment of the command line is none.
    #[error(transparent)]
    Unsettled(#[from] Unsettled),
    /// An experiment of the command line cannot begin.
    #[error(transparent)]
    NotBegun(#[from] NotBegun),
    /// The agent has changed nothing, or has put all back.
    #[error("{done}: {reason}")]
    Refused { done: &'static str, reason: String },
    #[error(
        "the agent of instance \"{instance}\" cannot be asked here: it lives where another /run/wad \
         is mounted ({holder}); ask it there, as by `kubectl exec` or `nsenter --mount`"
    )]
    Elsewhere { instance: String, holder: String },
    #[error("not ready: {reason}")]
    NotReady { reason: String },
    #[error("{reason}")]
    NotNoted { reason: String },
    #[error(
        "{lines} lines are lost{}",
        .last.as_ref().map_or_else(String::new, |last| format!(", the last ones for: {last}"))
    )]
    LinesLost { lines: u64, last: Option<String> },
    #[error("{lines} of its lines not carried over: comments of the TOML say which, and why")]
    LeftOut { lines: usize },
    #[error("{failed} of {all} runs measured nothing: RESULT says why")]
    Unmeasured { failed: usize, all: usize },
    #[error("{0}")]
    Journal(Damage),
}
