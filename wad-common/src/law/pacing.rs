//! The rate at which a flow is paced, under a law with `cong_control`; the kernel sets that of
//! the others, of which some is taken back. And the bursts that paced flows send.

use super::{INITIAL_WINDOW_SEGMENTS, Window, slow_start};

/// Per cent of a window for each RTT, in congestion avoidance: the kernel's
/// `tcp_pacing_ca_ratio`.
const AVOIDANCE_PERCENT: u64 = 120;
/// The ratio is this while the window doubles: `tcp_pacing_ss_ratio`.
const SLOW_START_PERCENT: u64 = 200;

/// The ratio is this in rapid start: see [`hystart`](super::hystart).
const RAPID_PERCENT: u64 = 300;

/// The rate that spreads a window over its RTT, and lets it grow: 1.2 times the
/// window in an RTT, twice while it doubles; and where slow start is limited
/// (RFC 3742), for what that adds in an RTT. None without an RTT, which is no rate
/// at all.
#[inline(always)]
#[must_use]
pub const fn bytes_per_second(
    window: &Window,
    mss_bytes: u32,
    srtt_us: u32,
    doubles: bool,
) -> Option<u64> {
    let percent = match doubles {
        false => AVOIDANCE_PERCENT,
        true if window.is_limited() => limited_percent(window),
        true => SLOW_START_PERCENT,
    };
    percent_of_window(window, mss_bytes, srtt_us, percent)
}

/// The rate of a flow in rapid start. None without an RTT.
#[inline(always)]
#[must_use]
pub const fn rapid_bytes_per_second(window: &Window, mss_bytes: u32, srtt_us: u32) -> Option<u64> {
    percent_of_window(window, mss_bytes, srtt_us, RAPID_PERCENT)
}

#[inline(always)]
const fn percent_of_window(
    window: &Window,
    mss_bytes: u32,
    srtt_us: u32,
    percent: u64,
) -> Option<u64> {
    const US_PER_PERCENT: u64 = 1_000_000 / 100;
    if srtt_us == 0 {
        return None;
    }
    // 6 TB, beyond which the product would not fit.
    const MOST_BYTES: u64 = u64::MAX / (US_PER_PERCENT * RAPID_PERCENT);
    let window_bytes = window.cwnd_segments as u64 * mss_bytes as u64;
    let window_bytes = if window_bytes < MOST_BYTES { window_bytes } else { MOST_BYTES };
    Some(window_bytes * (US_PER_PERCENT * percent) / srtt_us as u64)
}

#[inline(always)]
const fn limited_percent(window: &Window) -> u64 {
    let increase_segments = slow_start::limited_increase_segments(window.max_ssthresh_segments);
    let percent = match window.cwnd_segments as u64 {
        0 => SLOW_START_PERCENT,
        cwnd_segments => AVOIDANCE_PERCENT + increase_segments as u64 * 100 / cwnd_segments,
    };
    if percent < SLOW_START_PERCENT { percent } else { SLOW_START_PERCENT }
}

/// Returns the rate that is enough for a flow that the kernel sets a rate for, where it
/// sets too high a one (`tcp_update_pacing_rate()`): in a recovery, in which it goes by
/// all that has been sent behind the first missing segment (`packets_out`), the window
/// from before the loss, so that what is sent again may overflow the same queue once
/// more; and where slow start is limited, in which it goes by a window that doubles.
#[inline(always)]
#[must_use]
pub const fn enough_bytes_per_second(
    window: &Window,
    packets_out: u32,
    mss_bytes: u32,
    srtt_us: u32,
) -> Option<u64> {
    // Its own limit: the last doubling is at the lower rate.
    let doubles = window.cwnd_segments < window.ssthresh_segments / 2;
    if packets_out <= window.cwnd_segments && !(doubles && window.is_limited()) {
        return None;
    }
    window_bytes_per_second(window, mss_bytes, srtt_us, doubles)
}

/// Returns the rate of a window of a law of ours. A smaller one is paced as the initial window,
/// which every flow sends at once: after a time-out two segments would keep the next from leaving
/// for half an RTT, that of a full queue.
#[inline(always)]
#[must_use]
pub const fn window_bytes_per_second(
    window: &Window,
    mss_bytes: u32,
    srtt_us: u32,
    doubles: bool,
) -> Option<u64> {
    let cwnd_segments = if window.cwnd_segments > INITIAL_WINDOW_SEGMENTS {
        window.cwnd_segments
    } else {
        INITIAL_WINDOW_SEGMENTS
    };
    bytes_per_second(&Window { cwnd_segments, ..*window }, mss_bytes, srtt_us, doubles)
}

/// A path takes a burst of this time for none: NICs that moderate interrupts hold packets
/// back for as long.
const BURST_US: u64 = 50;
/// No burst has more payload: a packet of segments that a NIC is to cut up has 64 KiB with
/// its headers.
const MOST_BURST_BYTES: u64 = 60_000;

/// Returns how many segments pass in [`BURST_US`] at the rate of a path that carries so
/// much in this RTT.
#[inline(always)]
#[must_use]
pub const fn burst_segments(path_bytes: u32, srtt_us: u32, mss_bytes: u32) -> u8 {
    if srtt_us == 0 || mss_bytes == 0 {
        return 0;
    }
    let bytes = path_bytes as u64 * BURST_US / srtt_us as u64;
    let bytes = if bytes < MOST_BURST_BYTES { bytes } else { MOST_BURST_BYTES };
    let segments = bytes / mss_bytes as u64;
    if segments < u8::MAX as u64 { segments as u8 } else { u8::MAX }
}

/// So many segments are sent at a time without asking: `tcp_min_tso_segs`.
const LEAST_SEGMENTS: u32 = 2;

/// Returns how many segments a paced flow is to send at a time at least: a burst that its
/// path takes for none, and no more than a quarter of its window. The kernel has a
/// millisecond's worth of the flow's own rate instead where that is more
/// (`tcp_tso_autosize()`). With less, each of many flows has a timer go off for every two
/// segments, and the other end an ACK to send for them.
#[inline(always)]
#[must_use]
pub const fn least_segments(burst_segments: u8, cwnd_segments: u32) -> u32 {
    let burst_segments = burst_segments as u32;
    let segments =
        if burst_segments < cwnd_segments / 4 { burst_segments } else { cwnd_segments / 4 };
    if segments < LEAST_SEGMENTS { LEAST_SEGMENTS } else { segments }
}

#[cfg(test)]
mod tests {
    use super::{
        super::INFINITE_SSTHRESH, AVOIDANCE_PERCENT, RAPID_PERCENT, SLOW_START_PERCENT, Window,
        burst_segments, bytes_per_second, enough_bytes_per_second, least_segments,
        rapid_bytes_per_second,
    };

    const MSS_BYTES: u32 = 1000;
    const RTT_US: u32 = 100_000;

    // A thousand segments, 1 MB.
    const WINDOW: Window = Window {
        cwnd_segments: 1000,
        ssthresh_segments: INFINITE_SSTHRESH,
        clamp_segments: u32::MAX,
        max_ssthresh_segments: u32::MAX,
        credit_q16: 0,
    };

    #[test]
    fn the_window_goes_out_a_little_faster_than_it_is_acknowledged() {
        let rate = |doubles| bytes_per_second(&WINDOW, MSS_BYTES, RTT_US, doubles);
        assert_eq!([false, true].map(rate), [Some(12_000_000), Some(20_000_000)]);
        assert_eq!(bytes_per_second(&WINDOW, MSS_BYTES, 0, true), None);
        assert_eq!(rapid_bytes_per_second(&WINDOW, MSS_BYTES, RTT_US), Some(30_000_000));
        assert_eq!(rapid_bytes_per_second(&WINDOW, MSS_BYTES, 0), None);
    }

    #[test]
    fn a_limited_slow_start_is_paced_for_what_it_adds() {
        let rate = |cwnd_segments, doubles| {
            let window = Window { cwnd_segments, max_ssthresh_segments: 200, ..WINDOW };
            bytes_per_second(&window, MSS_BYTES, RTT_US, doubles)
        };
        // 100 segments of 1000 and of 200; still below the limit; out of slow start.
        assert_eq!(rate(1000, true), Some(13_000_000));
        assert_eq!(rate(200, true), Some(3_400_000));
        assert_eq!(rate(199, true), Some(3_980_000));
        assert_eq!(rate(1000, false), Some(12_000_000));
        // It adds no more than a segment for each that is acknowledged.
        let tiny = Window { cwnd_segments: 1, max_ssthresh_segments: 0, ..WINDOW };
        assert_eq!(bytes_per_second(&tiny, MSS_BYTES, RTT_US, true), Some(20_000));
    }

    #[test]
    fn the_kernels_rate_is_enough_but_in_a_recovery_and_a_limited_slow_start() {
        let enough = |window: &Window, packets_out| {
            enough_bytes_per_second(window, packets_out, MSS_BYTES, RTT_US)
        };
        assert_eq!(enough(&WINDOW, 1000), None);
        let halved = Window { ssthresh_segments: 1000, ..WINDOW };
        assert_eq!(enough(&halved, 1000), None);
        assert_eq!(enough(&halved, 2000), Some(12_000_000));
        // After a time-out.
        let lost = Window { cwnd_segments: 1, ..halved };
        assert_eq!(enough(&lost, 2000), Some(200_000));
        let limited = Window { max_ssthresh_segments: 200, ..WINDOW };
        assert_eq!(enough(&limited, 1000), Some(13_000_000));
        assert_eq!(enough(&Window { ssthresh_segments: 1500, ..limited }, 1000), None);
    }

    #[test]
    fn the_largest_window_is_no_overflow() {
        let huge =
            Window { cwnd_segments: u32::MAX, max_ssthresh_segments: u32::MAX - 1, ..WINDOW };
        // The largest product is that of rapid start; the others are as much smaller as their ratios.
        for (rate, percent) in [
            (bytes_per_second(&huge, u32::MAX, 1, false), AVOIDANCE_PERCENT),
            (bytes_per_second(&huge, u32::MAX, 1, true), SLOW_START_PERCENT),
            (rapid_bytes_per_second(&huge, u32::MAX, 1), RAPID_PERCENT),
        ] {
            let most = u64::MAX / RAPID_PERCENT * percent;
            assert!(rate.unwrap().abs_diff(most) < 1 << 24, "{rate:?} for {percent}%");
        }
    }

    #[test]
    fn a_burst_is_a_moment_of_the_paths_rate() {
        // 2.5 Gbit/s and 120 ms.
        assert_eq!(burst_segments(37_500_000, 120_000, 1_448), 10);
        // 1 Gbit/s and 80 ms.
        assert_eq!(burst_segments(10_000_000, 80_000, 1_448), 4);
        // 100 Gbit/s: what a NIC cuts up. Tiny segments.
        assert_eq!(burst_segments(125_000_000, 10_000, 8_948), 6);
        assert_eq!(burst_segments(125_000_000, 10_000, 100), 255);
        // Nothing is known.
        assert_eq!(
            [(0, 1, 1), (1, 0, 1), (1, 1, 0)].map(|(p, r, m)| burst_segments(p, r, m)),
            [0; 3]
        );
    }

    #[test]
    fn a_burst_is_no_large_part_of_a_window() {
        assert_eq!(
            [0, 4, 10, 39, 40, 1_000].map(|cwnd| least_segments(10, cwnd)),
            [2, 2, 2, 9, 10, 10]
        );
        assert_eq!(least_segments(0, 1_000), 2);
    }
}
