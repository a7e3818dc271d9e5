//! A guard as the agent tells of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wad_evidence::guard::{Shown, State};

use super::{Kept, Trip};

/// All guards, in the order of their paths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GuardsTold {
    pub guards: Vec<GuardTold>,
}

/// Says what a guard does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GuardState {
    /// It gets to know how the path is.
    Watching,
    /// The policy is in force, and guarded.
    InForce,
    /// The policy hurts: connections that run go back to the defaults.
    Tripped,
    /// All connections are at the defaults, for some time.
    HoldOff,
    /// The policy is for a part of the new connections, to see whether it still hurts.
    Trial,
}

/// A guard, with all that is known of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GuardTold {
    pub path: String,
    pub state: GuardState,
    /// The policy is for this part of the path's new connections, as far as the guard has a say.
    pub share: f64,
    /// The hold-off lasts so long still; only in that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_seconds: Option<f64>,
    /// It only says what it would do.
    pub dry_run: bool,
    /// How often the path has tripped.
    pub trips: u64,
    /// The last of these times.
    pub tripped: Option<Trip>,
    /// The signals of which anything is known.
    pub signals: Vec<Shown>,
}

impl GuardState {
    /// Returns what it is called.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Watching => "watching",
            Self::InForce => "in force",
            Self::Tripped => "tripped",
            Self::HoldOff => "held back",
            Self::Trial => "on trial",
        }
    }
}

impl GuardTold {
    /// Tells of one.
    #[must_use]
    pub fn of(kept: &Kept) -> Self {
        let Kept { path, subject: _, guard, tripped } = kept;
        let (state, left) = match guard.state() {
            State::Watching { .. } => (GuardState::Watching, None),
            State::InForce { .. } => (GuardState::InForce, None),
            State::Tripped => (GuardState::Tripped, None),
            State::HoldOff { left } => (GuardState::HoldOff, Some(left)),
            State::Trial { .. } => (GuardState::Trial, None),
        };
        Self {
            path: path.clone(),
            state,
            share: guard.share(),
            left_seconds: left.map(|left| left.as_secs_f64()),
            dry_run: guard.settings().dry_run,
            trips: guard.trips(),
            tripped: *tripped,
            signals: guard.shown().collect(),
        }
    }

    /// Returns the signal that is nearest to its bound.
    #[must_use]
    pub fn worst(&self) -> Option<&Shown> {
        self.signals.iter().max_by(|a, b| a.part_of_bound.total_cmp(&b.part_of_bound))
    }

    /// Says whether the policy is held back, or tried, or would be.
    #[must_use]
    pub const fn is_away(&self) -> bool {
        let Self { state, share, .. } = self;
        *share == 0.0
            || matches!(state, GuardState::Tripped | GuardState::HoldOff | GuardState::Trial)
    }
}
