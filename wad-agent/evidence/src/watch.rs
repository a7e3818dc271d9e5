//! The watch over an experiment: whether somebody has looked at it all the time, and the clock
//! went as clocks go.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Looks are no further apart than this, or what happened in between was not watched.
pub const LONGEST_GAP: Duration = Duration::from_secs(30);

/// The wall clock may be this far, from one look to the next, from where it should be. Who has
/// it slewed moves it by a thousandth at most.
pub const LONGEST_STEP: Duration = Duration::from_secs(1);

/// The host's clocks at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// CLOCK_REALTIME: since 1970.
    pub wall: Duration,
    /// CLOCK_BOOTTIME: since the boot, suspension included.
    pub since_boot: Duration,
    /// CLOCK_MONOTONIC: since the boot, without suspension.
    pub awake: Duration,
}

/// Says why it is not known what happened.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    thiserror::Error,
)]
#[serde(rename_all = "snake_case")]
pub enum Interruption {
    #[error("the agent or the host was restarted")]
    Restarted,
    #[error("the host was suspended")]
    Suspended,
    #[error("nobody looked for too long")]
    Unwatched,
    #[error("the wall clock was set")]
    ClockSet,
    #[error("the path's guard held its policy back")]
    HeldBack,
}

/// A watch has the clocks as they were at the last look; None before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    before: Option<Clocks>,
}

impl Watch {
    /// Takes the next look. Says what has happened since the one before that should not.
    pub fn look(&mut self, now: Clocks) -> Option<Interruption> {
        let before = self.before.replace(now)?;
        let passed = |clock: fn(&Clocks) -> Duration| clock(&now).checked_sub(clock(&before));
        // Clocks of the boot do not go back within it.
        let (Some(since_boot), Some(awake)) = (passed(|it| it.since_boot), passed(|it| it.awake))
        else {
            return Some(Interruption::Restarted);
        };
        let should_be = before.wall.saturating_add(since_boot);
        if since_boot.saturating_sub(awake) > LONGEST_STEP {
            Some(Interruption::Suspended)
        } else if since_boot > LONGEST_GAP {
            Some(Interruption::Unwatched)
        } else if now.wall.abs_diff(should_be) > LONGEST_STEP {
            Some(Interruption::ClockSet)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn after(wall: u32, since_boot: u32, awake: u32) -> Option<Interruption> {
        let clocks = |wall, since_boot, awake| Clocks {
            wall: SECOND * (1_000_000 + wall),
            since_boot: SECOND * since_boot,
            awake: SECOND * awake,
        };
        let mut watch = Watch::default();
        assert_eq!(watch.look(clocks(1_000, 500, 400)), None);
        watch.look(clocks(wall, since_boot, awake))
    }

    #[test]
    fn time_that_goes_on_is_nothing() {
        assert_eq!(after(1_010, 510, 410), None);
        assert_eq!(after(1_011, 510, 410), None, "slewed");
        assert_eq!(after(1_030, 530, 430), None);
    }

    #[test]
    fn what_interrupts_is_told_apart() {
        assert_eq!(after(1_031, 531, 431), Some(Interruption::Unwatched));
        assert_eq!(after(1_010, 510, 402), Some(Interruption::Suspended));
        assert_eq!(after(1_012, 510, 410), Some(Interruption::ClockSet));
        assert_eq!(after(900, 510, 410), Some(Interruption::ClockSet));
        assert_eq!(after(1_010, 10, 10), Some(Interruption::Restarted));
    }
}
