//! The wall clock, which may be set, is for people alone: moments are shown on it.

use jiff::{SignedDuration, Timestamp};
use wad_toolbox::clock::Moment;

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
    use std::time::Duration;

    use wad_toolbox::clock::now;

    use super::*;

    #[test]
    fn moments_are_shown_on_the_wall_clock() {
        let (begun, hour) = (now(), Duration::from_secs(3600));
        let apart = shown(begun + hour, begun).duration_since(shown(begun, begun));
        assert!((3599..=3601).contains(&apart.as_secs()), "{apart:?}");
        let apart = shown(begun, begun).duration_since(shown(begun, begun + hour));
        assert!((3599..=3601).contains(&apart.as_secs()), "{apart:?}");
    }
}
