//! Decides when flows of paths that divide their buffers are brought along: after
//! others have come or gone, and until receive buffers have given up what they hold.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

/// How often it is looked whether flows have come or gone: all have their parts
/// within a second, receive buffers in a few visits.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Visits to flows that wait, at every look for five seconds: what a lossy path was
/// offered takes that long to come. Then the pauses become longer, for what they wait
/// for is likely to be their applications.
const PROMPT_VISITS: u32 = 25;
const MAX_PAUSE_LOOKS: u32 = 25;

/// Ticks when it is time to look.
pub fn looks() -> Interval {
    let mut looks = interval(LOOK_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}

#[derive(Debug, Default)]
pub struct Divisions {
    /// Comings and goings that flows have been brought along for.
    seen: u64,
    /// Looks since the last visit.
    looks: u32,
    /// Visits since others came or went, for those that wait; 0 where none does.
    visits: u32,
}

impl Divisions {
    /// Returns at a look whether flows are to be visited now, with so many comings
    /// and goings counted.
    pub const fn are_due(&mut self, counted: u64) -> bool {
        self.looks += 1;
        if counted != self.seen {
            self.seen = counted;
            self.visits = 0;
            return true;
        }
        self.visits > 0 && self.looks >= self.pause_looks()
    }

    const fn pause_looks(&self) -> u32 {
        let longer = 1 + self.visits.saturating_sub(PROMPT_VISITS);
        if longer > MAX_PAUSE_LOOKS { MAX_PAUSE_LOOKS } else { longer }
    }

    /// Notes that the flows were visited, and whether some of them wait.
    pub const fn visited(&mut self, some_wait: bool) {
        self.looks = 0;
        self.visits = if some_wait { self.visits.saturating_add(1) } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_visited_when_others_have_come_or_gone() {
        let mut divisions = Divisions::default();
        assert!(!divisions.are_due(0));
        assert!(divisions.are_due(3));
        divisions.visited(false);
        assert!(!divisions.are_due(3) && divisions.are_due(4));
    }

    #[test]
    fn those_that_wait_are_visited_less_and_less_often() {
        let mut divisions = Divisions::default();
        let visits: Vec<u32> = (1..=600)
            .filter(|_| {
                let are_due = divisions.are_due(1);
                if are_due {
                    divisions.visited(true);
                }
                are_due
            })
            .collect();
        let prompt: Vec<u32> = (1..=PROMPT_VISITS + 1).collect();
        let (at_every_look, later) = visits.split_at(prompt.len());
        assert_eq!(at_every_look, prompt);
        assert_eq!(later[..3], [28, 31, 35]);
        let pauses: Vec<_> = visits.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(pauses.iter().max(), Some(&MAX_PAUSE_LOOKS));
        // Not so after the next change.
        assert!(divisions.are_due(2));
        divisions.visited(true);
        assert!(divisions.are_due(2));
    }
}
