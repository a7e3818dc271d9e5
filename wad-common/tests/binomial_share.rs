//! Binomial flows beside standard ones, at the same losses: they take no more.

use wad_common::law::{Aimd, Binomial, INFINITE_SSTHRESH, Window};

#[test]
fn a_flow_gets_no_more_than_a_standard_flow_at_the_same_loss() {
    for segments in [30.0, 100.0, 1000.0, 10_000.0] {
        let standard = mean_window(|_| Aimd::STANDARD, segments);
        for law in [Binomial::Sqrt, Binomial::Iiad] {
            let share = mean_window(|window| law.response(window), segments) / standard;
            assert!((0.7..=1.0).contains(&share), "{law:?} {segments}: {share}");
        }
    }
}

/// Mean window between losses at random, one in so many segments, over 30,000 RTTs.
fn mean_window(response: impl Fn(u32) -> Aimd, segments: f64) -> f64 {
    const RTTS: u32 = 30_000;
    let mut window = Window {
        cwnd_segments: segments.sqrt() as u32,
        ssthresh_segments: 2,
        clamp_segments: INFINITE_SSTHRESH,
        max_ssthresh_segments: u32::MAX,
        credit_q16: 0,
    };
    let (mut area, mut state) = (0.0, 1_u64);
    for _ in 0..RTTS {
        let cwnd = window.cwnd_segments;
        area += f64::from(cwnd);
        window = response(cwnd).on_ack(window, cwnd);
        // Knuth's generator (MMIX): its upper bits are good.
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        let drawn = (state >> 33) as f64 / f64::from(1_u32 << 31);
        if drawn < 1.0 - (-f64::from(cwnd) / segments).exp() {
            window.cwnd_segments = response(cwnd).on_congestion(cwnd);
            window.credit_q16 = 0;
        }
    }
    area / f64::from(RTTS)
}
