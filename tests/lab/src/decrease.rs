//! A loss takes a part of the window; this module tells how large a part, and how soon the
//! window is back: what DataTAG calls responsiveness. Windows count segments, times are in
//! nanoseconds.

use serde::{Deserialize, Serialize};

/// A loss is heard of, and the window has gone down for it, within so many round trips: one
/// until the sender hears, one of recovery, and a half each for a queue.
const HEARD_IN_RTTS: u64 = 3;
/// Recovery lets the window down over a round trip (RFC 6937), which a queue lengthens, and somebody
/// has to look at it then.
const DOWN_IN_RTTS: u64 = 4;

/// The figures of one run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decrease {
    /// The largest window until the loss took from it: the sum over the streams.
    pub before_segments: u32,
    /// The least window after that, within four round trips.
    pub after_segments: u32,
    /// The time from the largest window until there is one as large again; none if there was
    /// not before the end.
    pub back_after_seconds: Option<f64>,
}

impl Decrease {
    /// Returns the part of the window that the loss took.
    #[must_use]
    pub fn part(&self) -> f64 {
        let lost = self.before_segments.saturating_sub(self.after_segments);
        f64::from(lost) / f64::from(self.before_segments.max(1))
    }
}

/// Works out what a loss at that time took; none where nobody looked at the window then.
#[must_use]
pub fn decrease(windows: &[(u64, u32)], loss_ns: u64, rtt_ns: u64) -> Option<Decrease> {
    let from = |time_ns: u64| &windows[windows.partition_point(|(at, _)| *at < time_ns)..];
    let heard_ns = loss_ns + HEARD_IN_RTTS * rtt_ns;
    let near = from(loss_ns).iter().take_while(|(at, _)| *at <= heard_ns);
    // Of equals the last: there the fall begins.
    let (fall_ns, before_segments) = *near.max_by_key(|(_, window)| *window)?;
    let fallen = from(fall_ns).iter().take_while(|(at, _)| *at <= fall_ns + DOWN_IN_RTTS * rtt_ns);
    let (low_ns, after_segments) = *fallen.min_by_key(|(_, window)| *window)?;
    let back = from(low_ns).iter().find(|(_, window)| *window >= before_segments);
    Some(Decrease {
        before_segments,
        after_segments,
        back_after_seconds: back.map(|(at, _)| (at - fall_ns) as f64 / 1e9),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;
    const RTT_NS: u64 = 2 * SECOND_NS / 10;

    /// Returns one window for each tenth of a second.
    fn course(windows: &[u32]) -> Vec<(u64, u32)> {
        let tenths = (0..).map(|tenth| tenth * SECOND_NS / 10);
        tenths.zip(windows.iter().copied()).collect()
    }

    #[test]
    fn a_loss_takes_a_part_that_comes_back() {
        // Lost at 0.1 s, heard at 0.3 s, and a recovery that goes down step by step.
        let seen = course(&[100, 200, 300, 400, 300, 200, 240, 280, 320, 360, 400, 440]);
        let seen = decrease(&seen, SECOND_NS / 10, RTT_NS).unwrap();
        assert_eq!((seen.before_segments, seen.after_segments, seen.part()), (400, 200, 0.5));
        assert!(seen.back_after_seconds.is_some_and(|back| (back - 0.7).abs() < 1e-9), "{seen:?}");
    }

    #[test]
    fn a_window_that_is_not_as_large_again_is_not_back() {
        let seen = decrease(&course(&[300, 300, 150, 160, 299]), 0, RTT_NS).unwrap();
        assert_eq!((seen.part(), seen.back_after_seconds), (0.5, None));
    }

    #[test]
    fn a_loss_that_takes_nothing_is_back_at_once() {
        let seen = decrease(&course(&[100, 110, 120, 130, 140, 150, 160, 170, 180]), 0, RTT_NS);
        let seen = seen.unwrap();
        assert_eq!((seen.part(), seen.back_after_seconds), (0.0, Some(0.0)));
        assert_eq!(decrease(&[], 0, RTT_NS), None);
        assert_eq!(decrease(&course(&[100]), SECOND_NS, RTT_NS), None, "it was over by then");
    }
}
