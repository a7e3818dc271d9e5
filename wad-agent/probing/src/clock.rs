//! The clock of the schedule goes on while the host is suspended, and nobody sets it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use nix::time::{ClockId, clock_gettime};

use crate::schedule::Moment;

/// Returns the time since the host's boot.
pub fn now() -> Moment {
    // It is there since Linux 2.6.39.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default()
}

/// Returns the time of the wall clock that goes with a moment, as that clock is now.
pub fn shown(moment: Moment, now: Moment) -> Timestamp {
    let apart = |later: Moment, earlier: Moment| {
        SignedDuration::try_from(later.saturating_sub(earlier)).unwrap_or(SignedDuration::MAX)
    };
    let wall = Timestamp::now();
    let shown =
        wall.checked_sub(apart(now, moment)).and_then(|it| it.checked_add(apart(moment, now)));
    shown.unwrap_or(wall)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_shown_on_the_wall_clock() {
        let (begun, hour) = (now(), Duration::from_secs(3600));
        let apart = shown(begun + hour, begun).duration_since(shown(begun, begun));
        assert!((3599..=3601).contains(&apart.as_secs()), "{apart:?}");
        let apart = shown(begun, begun).duration_since(shown(begun, begun + hour));
        assert!((3599..=3601).contains(&apart.as_secs()), "{apart:?}");
        assert!(now() >= begun);
    }
}
