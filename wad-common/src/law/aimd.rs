//! AIMD(b, a): `a` segments more for each RTT, the fraction `b` less on a
//! congestion event.
//!
//! RFC 5681 is AIMD(0.5, 1). The papers' "virtual MSS" is a larger `a`.

use super::{MIN_WINDOW_SEGMENTS, Window, slow_start};
use crate::record;

/// Parameters of the law, or what another law amounts to at one window.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aimd {
    /// Additive increase `a`, segments for each RTT, in 1/65536.
    pub increase_q16: u32,
    /// What a decrease leaves, `1 - b`, in 1/65536.
    pub keep_q16: u32,
}
record!(Aimd, size = 8);

/// One segment, or the whole of a window, in fixed point.
pub const ONE_Q16: u32 = 1 << 16;

/// Least additive increase: 1/16 of a segment for each RTT.
pub const MIN_INCREASE_Q16: u32 = ONE_Q16 / 16;
/// Greatest additive increase of an operator's choice: 4096 segments for each RTT.
pub const MAX_INCREASE_Q16: u32 = 4096 * ONE_Q16;
/// Least part that a decrease leaves: b = 0.9.
pub const MIN_KEEP_Q16: u32 = ONE_Q16 - 58_982;
/// Greatest part that a decrease leaves: b = 0.01.
pub const MAX_KEEP_Q16: u32 = ONE_Q16 - 655;

impl Aimd {
    /// RFC 5681: one segment for each RTT, half on a congestion event.
    pub const STANDARD: Self = Self { increase_q16: ONE_Q16, keep_q16: ONE_Q16 / 2 };

    /// The parameters, if both are within their ranges.
    #[must_use]
    pub const fn try_new(increase_q16: u32, keep_q16: u32) -> Option<Self> {
        if MIN_INCREASE_Q16 <= increase_q16
            && increase_q16 <= MAX_INCREASE_Q16
            && MIN_KEEP_Q16 <= keep_q16
            && keep_q16 <= MAX_KEEP_Q16
        {
            Some(Self { increase_q16, keep_q16 })
        } else {
            None
        }
    }

    /// The window after an ACK for `acked_segments` of a flow that the window
    /// held back. A flow that it does not hold back must not call this: what
    /// its window could carry has not been tried (RFC 9293 3.8.6, RFC 7661).
    #[inline(always)]
    #[must_use]
    pub const fn on_ack(&self, window: Window, acked_segments: u32) -> Window {
        if window.in_slow_start() {
            let (window, left) = slow_start::on_ack(window, acked_segments);
            if left == 0 { window } else { self.avoid_congestion(window, left) }
        } else {
            self.avoid_congestion(window, acked_segments)
        }
    }

    /// Congestion avoidance, RFC 5681 section 3.1, with `a` for one segment.
    /// Never faster than slow start: where `a` exceeds the window, the window
    /// doubles in an RTT.
    #[inline(always)]
    const fn avoid_congestion(&self, window: Window, acked_segments: u32) -> Window {
        let (earned_segments, credit_q16) = window.earn(self.increase_q16, acked_segments);
        let grown_segments = window.cwnd_segments.saturating_add(earned_segments);
        Window { credit_q16, ..window.at_most_clamped(grown_segments) }
    }

    /// The slow start threshold after a congestion event: RFC 5681 section 3.1
    /// equation (4), with `1 - b` for one half.
    #[inline(always)]
    #[must_use]
    pub const fn on_congestion(&self, cwnd_segments: u32) -> u32 {
        let kept = ((cwnd_segments as u64 * self.keep_q16 as u64) >> 16) as u32;
        if kept > MIN_WINDOW_SEGMENTS { kept } else { MIN_WINDOW_SEGMENTS }
    }

    /// The window after a decrease turned out to be spurious: what it was
    /// before, unless it has grown past that since (`tcp_reno_undo_cwnd()`).
    #[inline(always)]
    #[must_use]
    pub const fn on_undo(cwnd_segments: u32, prior_cwnd_segments: u32) -> u32 {
        if cwnd_segments > prior_cwnd_segments { cwnd_segments } else { prior_cwnd_segments }
    }
}

impl Default for Aimd {
    fn default() -> Self {
        Self::STANDARD
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Aimd, MAX_INCREASE_Q16, MAX_KEEP_Q16, MIN_INCREASE_Q16, MIN_KEEP_Q16, ONE_Q16, Window,
    };

    const fn window(cwnd_segments: u32, ssthresh_segments: u32) -> Window {
        Window {
            cwnd_segments,
            ssthresh_segments,
            clamp_segments: u32::MAX,
            max_ssthresh_segments: u32::MAX,
            credit_q16: 0,
        }
    }

    const fn aimd(increase_q16: u32, keep_q16: u32) -> Aimd {
        match Aimd::try_new(increase_q16, keep_q16) {
            Some(aimd) => aimd,
            None => panic!("out of range"),
        }
    }

    const fn most() -> Aimd {
        aimd(MAX_INCREASE_Q16, MAX_KEEP_Q16)
    }

    /// The window after one RTT, each of its segments acknowledged by itself.
    fn after_rtt(aimd: Aimd, mut window: Window) -> Window {
        for _ in 0..window.cwnd_segments {
            window = aimd.on_ack(window, 1);
        }
        window
    }

    #[test]
    fn ranges_are_kept() {
        assert!(Aimd::try_new(MIN_INCREASE_Q16, MIN_KEEP_Q16).is_some());
        assert!(Aimd::try_new(MAX_INCREASE_Q16, MAX_KEEP_Q16).is_some());
        assert!(Aimd::try_new(MIN_INCREASE_Q16 - 1, ONE_Q16 / 2).is_none());
        assert!(Aimd::try_new(MAX_INCREASE_Q16 + 1, ONE_Q16 / 2).is_none());
        assert!(Aimd::try_new(ONE_Q16, MIN_KEEP_Q16 - 1).is_none());
        assert!(Aimd::try_new(ONE_Q16, MAX_KEEP_Q16 + 1).is_none());
    }

    #[test]
    fn slow_start_doubles_up_to_the_threshold() {
        assert_eq!(after_rtt(Aimd::STANDARD, window(10, 100)).cwnd_segments, 20);
        let across = Aimd::STANDARD.on_ack(window(10, 12), 5);
        // Two segments reach the threshold, three earn 3/12 of a segment.
        assert_eq!(across.cwnd_segments, 12);
        assert_eq!(across.credit_q16, 3 * u64::from(ONE_Q16));
    }

    #[test]
    fn an_rtt_adds_the_increase() {
        assert_eq!(after_rtt(Aimd::STANDARD, window(10, 2)).cwnd_segments, 11);
        let six = aimd(6 * ONE_Q16, ONE_Q16 / 2);
        // A little below 6 while ACKs come in: the window that divides grows.
        assert_eq!(after_rtt(six, window(1000, 2)).cwnd_segments, 1005);
    }

    #[test]
    fn growth_counts_segments_not_acks() {
        let mut single = window(10, 2);
        for _ in 0..10 {
            single = Aimd::STANDARD.on_ack(single, 1);
        }
        assert_eq!(Aimd::STANDARD.on_ack(window(10, 2), 10), single);
    }

    #[test]
    fn a_small_increase_is_saved_up() {
        let sixteenth = aimd(MIN_INCREASE_Q16, ONE_Q16 / 2);
        let mut window = window(10, 2);
        for _ in 0..159 {
            window = sixteenth.on_ack(window, 1);
        }
        assert_eq!(window.cwnd_segments, 10);
        window = sixteenth.on_ack(window, 1);
        assert_eq!((window.cwnd_segments, window.credit_q16), (11, 0));
    }

    #[test]
    fn an_increase_above_the_window_only_doubles_it() {
        assert_eq!(after_rtt(most(), window(10, 2)).cwnd_segments, 20);
        assert_eq!(most().on_ack(window(10, 2), 10).cwnd_segments, 20);
    }

    #[test]
    fn credit_of_a_larger_window_is_worth_one_segment() {
        let after_decrease = Window { credit_q16: 99 << 16, ..window(10, 10) };
        let next = Aimd::STANDARD.on_ack(after_decrease, 2);
        assert_eq!((next.cwnd_segments, next.credit_q16), (11, 2 << 16));
    }

    #[test]
    fn a_decrease_leaves_its_part_and_two_segments_at_least() {
        assert_eq!(Aimd::STANDARD.on_congestion(101), 50);
        assert_eq!(Aimd::STANDARD.on_congestion(3), 2);
        assert_eq!(Aimd::STANDARD.on_congestion(0), 2);
        // 0.7 and 0.875 of the window.
        assert_eq!(aimd(ONE_Q16, 45_875).on_congestion(1000), 699);
        assert_eq!(aimd(ONE_Q16, 57_344).on_congestion(1000), 875);
        assert_eq!(aimd(ONE_Q16, MIN_KEEP_Q16).on_congestion(1000), 100);
        assert_eq!(aimd(ONE_Q16, MAX_KEEP_Q16).on_congestion(1000), 990);
        assert_eq!(Aimd::STANDARD.on_congestion(u32::MAX), u32::MAX / 2);
    }

    #[test]
    fn undo_never_shrinks() {
        assert_eq!(Aimd::on_undo(50, 100), 100);
        assert_eq!(Aimd::on_undo(120, 100), 120);
    }

    #[test]
    fn the_clamp_holds_in_both_phases() {
        for ssthresh_segments in [2, 100] {
            let clamped = Window { clamp_segments: 12, ..window(10, ssthresh_segments) };
            assert_eq!(after_rtt(most(), clamped).cwnd_segments, 12);
        }
    }

    #[test]
    fn the_largest_windows_do_no_harm() {
        for cwnd_segments in [1 << 31, u32::MAX - 1, u32::MAX] {
            for ssthresh_segments in [2, u32::MAX] {
                let huge =
                    Window { credit_q16: 1 << 47, ..window(cwnd_segments, ssthresh_segments) };
                let next = most().on_ack(huge, u32::MAX);
                assert!(next.cwnd_segments >= cwnd_segments);
            }
        }
    }
}
