//! Scalable TCP (T. Kelly, 2003): 0.01 of a segment more for each segment
//! acknowledged, an eighth of the window less on a congestion event. Recovery
//! takes the same number of RTTs at any window.
//!
//! As the kernel's `tcp_scalable.c`, but for rounding: what a decrease leaves is
//! rounded down here, up there, where a window below 8 segments is not reduced.

use super::{
    MAX_LAW_INCREASE_Q16,
    aimd::{Aimd, ONE_Q16},
};

/// Segments acknowledged for one segment of growth.
const SEGMENTS_PER_INCREASE: u32 = 100;
const KEEP_Q16: u32 = ONE_Q16 - ONE_Q16 / 8;

/// The law at this window. Below 100 segments, one segment for each RTT, as the
/// kernel has it; above 6.5 million, no more than 65,534.
#[inline(always)]
#[must_use]
pub const fn response(cwnd_segments: u32) -> Aimd {
    // A product, for BPF has no cheap division. Rounded up, which at 2^32
    // segments is one part in 10^9 too much.
    const INVERSE_Q32: u64 = (1 << 32) / SEGMENTS_PER_INCREASE as u64 + 1;
    let increase_q16 = (cwnd_segments as u64 * INVERSE_Q32) >> 16;
    let increase_q16 = if increase_q16 < MAX_LAW_INCREASE_Q16 as u64 {
        increase_q16 as u32
    } else {
        MAX_LAW_INCREASE_Q16
    };
    Aimd {
        increase_q16: if increase_q16 > ONE_Q16 { increase_q16 } else { ONE_Q16 },
        keep_q16: KEEP_Q16,
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_LAW_INCREASE_Q16, ONE_Q16, response};

    #[test]
    fn the_increase_is_a_hundredth_of_the_window_and_one_at_least() {
        for window in (0..300).chain([12_345, 83_000, 1 << 20, 6_500_000]) {
            let exact = (f64::from(window) / 100.0).max(1.0) * f64::from(ONE_Q16);
            let increase = f64::from(response(window).increase_q16);
            assert!((increase - exact).abs() <= 1.0 + exact / 1e9, "at {window}");
        }
        for window in [1, 50, 99, 100] {
            assert_eq!(response(window).increase_q16, ONE_Q16);
        }
    }

    #[test]
    fn the_increase_is_bounded() {
        for window in [6_553_400, 6_553_500, 1 << 31, u32::MAX] {
            assert_eq!(response(window).increase_q16, MAX_LAW_INCREASE_Q16);
        }
    }

    #[test]
    fn a_decrease_takes_an_eighth() {
        assert_eq!(response(8000).on_congestion(8000), 7000);
        assert_eq!(response(2).on_congestion(2), 2);
    }
}
