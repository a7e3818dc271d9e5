//! A flow is back some time after something took its rate away; this module tells how
//! soon. Times are CLOCK_MONOTONIC nanoseconds.

use serde::{Deserialize, Serialize};

use crate::measure::{Series, Sight};

/// Rates are means over so long.
const WINDOW_NS: u64 = 500_000_000;
const STEP_NS: u64 = 10_000_000;
/// So much of the rate from before is as good as all of it.
const BACK: f64 = 0.9;

/// The figures of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// The rate that arrived in the second before.
    pub before_bits_per_second: f64,
    /// The time from the event until the rate of the last half second was 90% of that
    /// again; none if it was not so before the end.
    pub back_after_seconds: Option<f64>,
    /// The rate that arrived from the event to the end.
    pub after_bits_per_second: f64,
}

/// Makes a series of what arrived, in whatever order, as the senders know it: what
/// waits at the receiver for a hole to be filled counts when it arrives, not all at
/// once when it is handed on.
#[must_use]
pub fn arrived(sights: &[Sight]) -> Series {
    let bytes = |sight: &Sight| {
        sight.flows.iter().map(|flow| flow.delivered_segments * u64::from(flow.mss_bytes)).sum()
    };
    let seen = sights.iter().filter(|sight| !sight.flows.is_empty());
    Series::new(seen.map(|sight| (sight.time_ns, bytes(sight))).collect())
}

/// Works out the figures.
#[must_use]
pub fn recovery(arrived: &Series, event_ns: u64, end_ns: u64) -> Recovery {
    let before = arrived.goodput(event_ns.saturating_sub(1_000_000_000), event_ns);
    let is_back = |time_ns: u64| arrived.goodput(time_ns - WINDOW_NS, time_ns) >= BACK * before;
    let times = || (event_ns + STEP_NS..=end_ns).step_by(STEP_NS as usize);
    // It is gone some time after the event, if at all: look for its return
    // only from then on.
    let gone =
        times().take_while(|time| time - event_ns <= 2 * WINDOW_NS).find(|time| !is_back(*time));
    let back =
        gone.map_or(Some(event_ns), |gone| times().find(|time| *time > gone && is_back(*time)));
    Recovery {
        before_bits_per_second: before,
        back_after_seconds: back.map(|back| (back - event_ns) as f64 / 1e9),
        after_bits_per_second: arrived.goodput(event_ns, end_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Returns a series of these megabytes in each tenth of a second.
    fn series(tenths: impl IntoIterator<Item = u64>) -> Series {
        let mut sum = 0;
        let points = tenths.into_iter().enumerate().map(|(at, megabytes)| {
            sum += megabytes * 1_000_000;
            ((at as u64 + 1) * SECOND_NS / 10, sum)
        });
        Series::new(std::iter::once((0, 0)).chain(points).collect())
    }

    #[test]
    fn the_time_back_is_from_the_event() {
        // 3 s at 10, 2 s at 5, then 10 again.
        let tenths = [(30, 10), (20, 5), (30, 10)];
        let tenths = tenths.into_iter().flat_map(|(count, rate)| std::iter::repeat_n(rate, count));
        let seen = recovery(&series(tenths), 3 * SECOND_NS, 8 * SECOND_NS);
        assert!((seen.before_bits_per_second - 8e8).abs() < 1.0);
        // Of the half second up to 5.4 s, four fifths are at the full rate.
        assert!(seen.back_after_seconds.is_some_and(|back| (back - 2.4).abs() < 0.02), "{seen:?}");
        assert!((seen.after_bits_per_second - 6.4e8).abs() < 1.0);
    }

    #[test]
    fn one_that_never_is_back_says_so() {
        let tenths = (0..60).map(|tenth| if tenth < 30 { 10 } else { 5 });
        let seen = recovery(&series(tenths), 3 * SECOND_NS, 6 * SECOND_NS);
        assert_eq!(seen.back_after_seconds, None);
    }

    #[test]
    fn one_that_was_never_gone_is_back_at_once() {
        let seen = recovery(&series([10; 60]), 3 * SECOND_NS, 6 * SECOND_NS);
        assert_eq!(seen.back_after_seconds, Some(0.0));
    }
}
