//! Decides when flows of paths that divide their buffers are brought along: after
//! others have come or gone.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

/// How often it is looked whether flows have come or gone: all have their parts
/// within a second.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Ticks when it is time to look.
pub fn looks() -> Interval {
    let mut looks = interval(LOOK_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}

/// The comings and goings that flows have been brought along for.
#[derive(Debug, Default)]
pub struct Divisions(u64);

impl Divisions {
    /// Returns at a look whether flows are to be visited now, with so many comings
    /// and goings counted.
    pub const fn are_due(&mut self, counted: u64) -> bool {
        let are_due = counted != self.0;
        self.0 = counted;
        are_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_visited_when_others_have_come_or_gone() {
        let mut divisions = Divisions::default();
        assert!(!divisions.are_due(0));
        assert!(divisions.are_due(3) && !divisions.are_due(3));
        assert!(divisions.are_due(4));
    }
}
