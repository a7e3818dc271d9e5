//! Decides how soon buffers are looked at again: often while any may grow, but at a small
//! part of a processor's time, and seldom otherwise.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Buffers that may grow, or are to shrink, are looked at so often: what a path lacks
/// meanwhile is about a round trip of a long one.
pub const LIVELY: Duration = Duration::from_millis(100);
/// The memory of flows is looked at so often in any case.
const CALM: Duration = Duration::from_secs(1);
/// Looks take up this part of the time at most.
const PART: u32 = 25;
/// After so many looks at which no flow wanted anything, flows that may grow are likely
/// to be idle.
const PROMPT_LOOKS: u32 = 100;

/// Says what was seen at a look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Buffers may grow still, or are to shrink, or memory is short.
    pub is_lively: bool,
    /// Flows wanted other buffers, and were visited.
    pub had_visits: bool,
}

#[derive(Debug, Default)]
pub struct Pace {
    /// Looks since any flow wanted anything.
    quiet_looks: u32,
}

impl Pace {
    /// Returns how long to wait after a look that took so much of a processor's time.
    pub fn pause(&mut self, seen: Seen, took: Duration) -> Duration {
        self.quiet_looks = if seen.had_visits { 0 } else { self.quiet_looks.saturating_add(1) };
        let pause = if !seen.is_lively && !seen.had_visits {
            CALM
        } else if self.quiet_looks > PROMPT_LOOKS {
            2 * LIVELY
        } else {
            LIVELY
        };
        pause.max(took.saturating_mul(PART))
    }
}

/// Returns the time that the agent has had processors for. A look may take far longer on a
/// busy host, where it costs others nothing while it waits. Of all threads, as a look has
/// some of its own in other network namespaces.
pub fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIVELY_SEEN: Seen = Seen { is_lively: true, had_visits: false };

    #[test]
    fn it_is_prompt_where_buffers_may_grow_and_seldom_where_none_does() {
        let mut pace = Pace::default();
        let short = Duration::from_micros(50);
        assert_eq!(pace.pause(Seen::default(), short), CALM);
        assert_eq!(pace.pause(LIVELY_SEEN, short), LIVELY);
        assert_eq!(pace.pause(Seen { is_lively: false, had_visits: true }, short), LIVELY);
    }

    #[test]
    fn looks_take_a_small_part_of_the_time() {
        let mut pace = Pace::default();
        let seen = Seen { is_lively: true, had_visits: true };
        for millis in [1, 4, 10, 1_000, u64::MAX] {
            let took = Duration::from_millis(millis);
            let pause = pace.pause(seen, took);
            assert!(pause >= LIVELY && pause >= took.saturating_mul(25), "{pause:?}");
        }
    }

    #[test]
    fn idle_flows_are_looked_at_less_often_until_one_wants_anything() {
        let mut pace = Pace::default();
        let mut pause = |seen| pace.pause(seen, Duration::ZERO);
        (0..PROMPT_LOOKS).for_each(|_| assert_eq!(pause(LIVELY_SEEN), LIVELY));
        assert_eq!(pause(LIVELY_SEEN), 2 * LIVELY);
        pause(Seen { is_lively: true, had_visits: true });
        assert_eq!(pause(LIVELY_SEEN), LIVELY);
    }
}
