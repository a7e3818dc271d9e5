//! The rate at which a flow with `cong_control` is paced: the kernel sets one
//! only for the others (`tcp_update_pacing_rate()`).

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

#[cfg(test)]
mod tests {
    use super::bytes_per_second;

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
}
