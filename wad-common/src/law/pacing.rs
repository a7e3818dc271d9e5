//! The rate at which a flow with `cong_control` is paced: the kernel sets one
//! only for the others (`tcp_update_pacing_rate()`). And the bursts that paced flows send.

/// Per cent of a window for each RTT, in congestion avoidance: the kernel's
/// `tcp_pacing_ca_ratio`.
const AVOIDANCE_PERCENT: u64 = 120;
/// The ratio is this while the window doubles: `tcp_pacing_ss_ratio`.
const SLOW_START_PERCENT: u64 = 200;

/// The rate that spreads a window over its RTT, and lets it grow: 1.2 times the
/// window in an RTT, in slow start twice. None without an RTT, which is no
/// rate at all.
#[inline(always)]
#[must_use]
pub const fn bytes_per_second(window_bytes: u64, srtt_us: u32, slow_start: bool) -> Option<u64> {
    const US_PER_PERCENT: u64 = 1_000_000 / 100;
    if srtt_us == 0 {
        return None;
    }
    let percent = if slow_start { SLOW_START_PERCENT } else { AVOIDANCE_PERCENT };
    // 9 TB, beyond which the product would not fit.
    const MOST_BYTES: u64 = u64::MAX / (US_PER_PERCENT * SLOW_START_PERCENT);
    let window_bytes = if window_bytes < MOST_BYTES { window_bytes } else { MOST_BYTES };
    Some(window_bytes * (US_PER_PERCENT * percent) / srtt_us as u64)
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
    use super::{burst_segments, bytes_per_second, least_segments};

    #[test]
    fn the_window_goes_out_a_little_faster_than_it_is_acknowledged() {
        assert_eq!(bytes_per_second(1_000_000, 100_000, false), Some(12_000_000));
        assert_eq!(bytes_per_second(1_000_000, 100_000, true), Some(20_000_000));
        assert_eq!(bytes_per_second(1_000_000, 0, true), None);
    }

    #[test]
    fn the_largest_window_is_no_overflow() {
        let most = bytes_per_second(u64::MAX, 1, true).unwrap();
        assert!(most > u64::MAX / 2);
        assert_eq!(bytes_per_second(u64::MAX / 2, 1, true), Some(most));
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
