//! Slow start: RFC 5681 section 3.1, with the byte counting of RFC 3465, limited
//! as RFC 3742 has it.
//!
//! Above `max_ssthresh` the window grows by at most half of `max_ssthresh` in an
//! RTT. RFC 3742 grows it by 1/K of a segment for each ACK, with K = cwnd /
//! (max_ssthresh / 2) cut down to a whole number, and thereby by up to half more
//! than its own bound where K is 2. Here K is not cut down.

use super::{MAX_LAW_INCREASE_Q16, Window};

/// The window after an ACK in slow start, and the acknowledged segments left
/// over for congestion avoidance: those after it reached ssthresh.
#[inline(always)]
#[must_use]
pub const fn on_ack(window: Window, acked_segments: u32) -> (Window, u32) {
    if window.ssthresh_segments <= window.max_ssthresh_segments {
        return standard(window, window.ssthresh_segments, acked_segments);
    }
    let (window, left_segments) = if window.cwnd_segments < window.max_ssthresh_segments {
        standard(window, window.max_ssthresh_segments, acked_segments)
    } else {
        (window, acked_segments)
    };
    if left_segments == 0 { (window, 0) } else { limited(window, left_segments) }
}

/// Grows by the segments acknowledged, up to this end, and returns those left
/// over, as `tcp_slow_start()` does.
#[inline(always)]
const fn standard(window: Window, end_segments: u32, acked_segments: u32) -> (Window, u32) {
    // Saturating: a window near 2^32 stays there.
    let grown = window.cwnd_segments.saturating_add(acked_segments);
    let grown = if grown < end_segments { grown } else { end_segments };
    let used = grown.saturating_sub(window.cwnd_segments);
    (window.at_most_clamped(grown), acked_segments.saturating_sub(used))
}

/// Grows by half of `max_ssthresh` in an RTT, up to ssthresh.
#[inline(always)]
const fn limited(window: Window, acked_segments: u32) -> (Window, u32) {
    let increase_q16 = limited_increase_segments(window.max_ssthresh_segments) << 16;
    let (earned_segments, credit_q16) = window.earn(increase_q16, acked_segments);
    let room_segments = window.ssthresh_segments.saturating_sub(window.cwnd_segments);
    if earned_segments < room_segments {
        let window = Window { credit_q16, ..window };
        return (window.at_most_clamped(window.cwnd_segments + earned_segments), 0);
    }
    // What was earned beyond ssthresh goes back for the segments that earned it,
    // whole ones. Fits: it is part of what `earn()` made segments of.
    let beyond_segments = earned_segments - room_segments;
    let beyond_q16 = beyond_segments as u64 * window.cwnd_q16() + credit_q16;
    let left_segments = beyond_q16 / increase_q16 as u64;
    let unused_segments = acked_segments.saturating_sub(room_segments);
    let left_segments =
        if left_segments < unused_segments as u64 { left_segments as u32 } else { unused_segments };
    let window = Window { credit_q16: 0, ..window };
    (window.at_most_clamped(window.ssthresh_segments), left_segments)
}

/// Half of `max_ssthresh`, in whole segments: with a fraction, there would be
/// RTTs with one segment more than half. One segment at least; and not beyond
/// what a law may ask for, which is less than half above 131,068.
pub(super) const fn limited_increase_segments(max_ssthresh_segments: u32) -> u32 {
    const MOST: u32 = MAX_LAW_INCREASE_Q16 >> 16;
    match max_ssthresh_segments / 2 {
        0 => 1,
        half if half < MOST => half,
        _ => MOST,
    }
}

#[cfg(test)]
mod tests {
    use super::{Window, limited_increase_segments, on_ack};

    const fn window(cwnd_segments: u32) -> Window {
        Window {
            cwnd_segments,
            ssthresh_segments: 1000,
            clamp_segments: u32::MAX,
            max_ssthresh_segments: 100,
            credit_q16: 0,
        }
    }

    #[test]
    fn without_a_limit_each_segment_counts() {
        let unlimited = Window { max_ssthresh_segments: u32::MAX, ..window(600) };
        assert_eq!(on_ack(unlimited, 300), (Window { cwnd_segments: 900, ..unlimited }, 0));
        assert_eq!(on_ack(unlimited, 500), (Window { cwnd_segments: 1000, ..unlimited }, 100));
    }

    #[test]
    fn the_limit_begins_within_an_ack() {
        // Five segments reach it, two more are worth one at half speed.
        let (after, left) = on_ack(window(95), 7);
        assert_eq!((after.cwnd_segments, after.credit_q16, left), (101, 0, 0));
    }

    #[test]
    fn an_rtt_adds_half_of_the_limit() {
        let (after, left) = on_ack(window(400), 400);
        assert_eq!((after.cwnd_segments, left), (450, 0));
    }

    #[test]
    fn what_the_threshold_leaves_of_an_ack_is_left_over() {
        // 50/998 of a segment for each: 40 earn the two segments to 1000.
        assert_eq!(on_ack(window(998), 50), (window(1000), 10));
        assert_eq!(on_ack(window(998), 40), (window(1000), 0));
    }

    #[test]
    fn a_clamp_below_the_threshold_holds() {
        let clamped = Window { clamp_segments: 420, ..window(400) };
        assert_eq!(on_ack(clamped, 400).0.cwnd_segments, 420);
        let clamped = Window { clamp_segments: 50, ..window(40) };
        assert_eq!(on_ack(clamped, 400).0.cwnd_segments, 50);
    }

    #[test]
    fn the_increase_is_whole_and_bounded() {
        for (limit, segments) in [(0, 1), (1, 1), (2, 1), (3, 1), (5, 2), (100, 50)] {
            assert_eq!(limited_increase_segments(limit), segments);
        }
        assert_eq!(limited_increase_segments(131_068), 65_534);
        assert_eq!(limited_increase_segments(u32::MAX), 65_534);
    }

    #[test]
    fn the_largest_windows_do_no_harm() {
        for limit in [2, 1 << 20, u32::MAX - 1] {
            for cwnd_segments in [1, 1 << 31, u32::MAX - 2] {
                let huge = Window {
                    ssthresh_segments: u32::MAX,
                    max_ssthresh_segments: limit,
                    credit_q16: u64::from(u32::MAX) << 16,
                    ..window(cwnd_segments)
                };
                assert!(on_ack(huge, u32::MAX).0.cwnd_segments >= cwnd_segments);
            }
        }
    }
}
