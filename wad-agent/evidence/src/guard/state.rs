//! States of a guard.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A state of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// It gets to know how the path is.
    Watching { lasted: Duration, known_ticks: u32 },
    /// The policy is in force, for so long by now.
    InForce { calm: Duration },
    /// It hurts: all flows are to go back to the defaults.
    Tripped,
    /// All flows are at the defaults, for so long yet.
    HoldOff { left: Duration },
    /// The policy is for a part of the flows, for so long by now.
    Trial { lasted: Duration },
}

impl State {
    pub const WATCHING: Self = Self::Watching { lasted: Duration::ZERO, known_ticks: 0 };
    pub const IN_FORCE: Self = Self::InForce { calm: Duration::ZERO };
    pub const TRIAL: Self = Self::Trial { lasted: Duration::ZERO };

    /// Lets time pass in it.
    pub(super) const fn pass(&mut self, time: Duration) {
        match self {
            Self::Watching { lasted, .. } | Self::Trial { lasted } => {
                *lasted = lasted.saturating_add(time);
            }
            Self::InForce { calm } => *calm = calm.saturating_add(time),
            Self::HoldOff { left } => *left = left.saturating_sub(time),
            Self::Tripped => {}
        }
    }

    /// Says whether the other one may follow.
    pub(super) const fn may_become(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::Watching { .. } | Self::Trial { .. }, Self::InForce { .. })
                | (Self::InForce { .. } | Self::Trial { .. }, Self::Tripped)
                | (Self::Tripped, Self::HoldOff { .. })
                // The second is of a dry run, or by hand; so are those of one that has tripped.
                | (Self::HoldOff { .. } | Self::Tripped, Self::Trial { .. } | Self::InForce { .. })
        )
    }
}
