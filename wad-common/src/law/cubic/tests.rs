use core::time::Duration;

use super::{Ack, Cubic, LEAST_INCREASE_Q16, LOSS_Q16, alpha_q16, keep_q16, reno_friendly};
use crate::law::{
    Aimd, INFINITE_SSTHRESH, Window,
    aimd::{MIN_KEEP_Q16, ONE_Q16},
};

const ONE: f64 = ONE_Q16 as f64;
const BETA: f64 = 717.0 / 1024.0;
const C: f64 = 0.4;

/// A flow that its window holds back, each segment of which is acknowledged by itself.
struct Flow {
    law: Cubic,
    window: Window,
    now_us: u64,
    rtt_us: u32,
    fraction_q32: u32,
    prior_segments: u32,
    flows: u32,
}

impl Flow {
    fn of(cwnd_segments: u32, rtt_us: u32, flows: u32) -> Self {
        let window = Window {
            cwnd_segments,
            ssthresh_segments: 2,
            clamp_segments: u32::MAX,
            max_ssthresh_segments: u32::MAX,
            credit_q16: 0,
        };
        let law = Cubic::START;
        let now_us = 5_000_000;
        Self { law, window, now_us, rtt_us, fraction_q32: 0, prior_segments: 0, flows }
    }

    fn ack(&mut self, acked_segments: u32) {
        let ack = Ack {
            now_us: self.now_us,
            srtt_us: self.rtt_us,
            acked_segments,
            prior_segments: self.prior_segments,
            fraction_q32: self.fraction_q32,
        };
        let (increase_q16, fraction_q32) =
            self.law.grow(self.window.cwnd_segments, &ack, self.flows);
        self.fraction_q32 = fraction_q32;
        let aimd = Aimd { increase_q16, ..Aimd::STANDARD };
        self.window = aimd.on_ack(self.window, acked_segments);
    }

    /// A round trip, in ACKs for a 20th of the window each.
    fn round_trip(&mut self) {
        let (mut left, parts) = (self.window.cwnd_segments, 20);
        let each = left.div_ceil(parts);
        let acks = left.div_ceil(each);
        while left > 0 {
            self.now_us += u64::from(self.rtt_us / acks);
            let acked = each.min(left);
            self.ack(acked);
            left -= acked;
        }
    }

    fn run(&mut self, seconds: f64) {
        let end_us = self.now_us + Duration::from_secs_f64(seconds).as_micros() as u64;
        while self.now_us < end_us {
            self.round_trip();
        }
    }

    fn lose(&mut self) {
        self.prior_segments = self.window.cwnd_segments;
        let kept = self.law.shrink(self.window.cwnd_segments, self.flows);
        self.fraction_q32 = 0;
        let segments = kept.on_congestion(self.window.cwnd_segments);
        self.window.cwnd_segments = segments;
        self.window.ssthresh_segments = segments;
        self.window.credit_q16 = 0;
    }

    fn cwnd(&self) -> f64 {
        self.window.cwnd_segments.into()
    }
}

#[test]
fn the_window_is_back_after_k_and_flat_there() {
    for (before, rtt_us) in [(1_000, 50_000), (10_000, 100_000), (80_000, 200_000)] {
        let mut flow = Flow::of(before, rtt_us, 1);
        flow.lose();
        assert_eq!(flow.cwnd(), (f64::from(before) * BETA).floor());
        // RFC 9438 figure 2: K, from the window that the decrease has left.
        let k_s = ((f64::from(before) - flow.cwnd()) / C).cbrt();
        flow.run(k_s / 2.0);
        let half = f64::from(before) - C * (k_s / 2.0).powi(3);
        assert!((flow.cwnd() / half - 1.0).abs() < 0.01, "{} not {half}", flow.cwnd());
        flow.run(k_s / 2.0);
        let ratio = flow.cwnd() / f64::from(before);
        assert!((0.995..1.002).contains(&ratio), "{before}: {ratio} after {k_s}");
        flow.run(k_s);
        let beyond = f64::from(before) + C * k_s.powi(3);
        assert!((flow.cwnd() / beyond - 1.0).abs() < 0.02, "{} not {beyond}", flow.cwnd());
    }
}

#[test]
fn a_small_window_is_that_of_a_reno_flow() {
    let mut flow = Flow::of(60, 10_000, 1);
    flow.lose();
    let left = flow.cwnd();
    for _ in 0..20 {
        flow.round_trip();
    }
    // 0.53 segments for each RTT (section 4.3).
    let expected = left + 20.0 * 3.0 * (1.0 - BETA) / (1.0 + BETA);
    assert!((flow.cwnd() - expected).abs() < 1.5, "{} not {expected}", flow.cwnd());
    // And one of them from the window of the last event on.
    while flow.cwnd() < 62.0 {
        flow.round_trip();
    }
    let before = flow.cwnd();
    for _ in 0..10 {
        flow.round_trip();
    }
    assert!((flow.cwnd() - before - 10.0).abs() < 2.0, "{} after {before}", flow.cwnd());
}

#[test]
fn who_has_less_than_before_gives_up_more() {
    let mut flow = Flow::of(1_000, 100_000, 1);
    flow.lose();
    // At once again: W_max is (1 + beta) / 2 of the window, section 4.7.
    let second = flow.window.cwnd_segments;
    flow.lose();
    let plateau = f64::from(second) * (1.0 + BETA) / 2.0;
    assert!((f64::from(flow.law.curve.plateau_segments()) - plateau).abs() <= 1.0);
    // At a larger one it is the window.
    let mut flow = Flow::of(1_000, 100_000, 1);
    flow.lose();
    flow.window.cwnd_segments = 1_001;
    flow.lose();
    assert_eq!(flow.law.curve.plateau_segments(), 1_001);
}

#[test]
fn without_w_max_the_window_grows_by_a_20th_in_each_rtt() {
    let grows = |flow: &mut Flow| {
        let before = flow.cwnd();
        flow.run(1.0);
        let ratio = flow.cwnd() / before;
        assert!((1.5..1.7).contains(&ratio), "{before} to {}", flow.cwnd());
    };
    let mut flow = Flow::of(1_000, 100_000, 1);
    grows(&mut flow);
    flow.lose();
    flow.law.time_out();
    grows(&mut flow);
    // Until the next loss, after which there is a W_max.
    flow.lose();
    let before = flow.cwnd();
    flow.run(1.0);
    assert!(flow.cwnd() / before < 1.3, "{before} to {}", flow.cwnd());
}

#[test]
fn k_flows_lose_a_part_each_and_are_back_k_times_as_soon() {
    for flows in [2, 4, 16] {
        let mut all = Flow::of(10_000, 100_000, flows);
        all.lose();
        let (k, lost) = (f64::from(flows), 10_000.0 - all.cwnd());
        assert!((lost - 3_000.0 / k).abs() < 5.0, "{flows}: {lost}");
        // The curve is run along k times as fast.
        let each_s = (lost / C).cbrt() / k;
        all.run(each_s);
        let ratio = all.cwnd() / 10_000.0;
        assert!((0.995..1.005).contains(&ratio), "{flows}: {ratio} after {each_s} s");
    }
}

#[test]
fn time_in_which_it_could_not_grow_does_not_count() {
    let mut flow = Flow::of(1_000, 100_000, 1);
    flow.lose();
    flow.run(2.0);
    let before = flow.cwnd();
    flow.now_us += 3_600_000_000;
    flow.round_trip();
    assert!(flow.cwnd() < before + 60.0, "{} after {before}", flow.cwnd());
}

#[test]
fn no_increase_is_beyond_half_of_the_window_for_each_rtt() {
    let mut flow = Flow::of(100, 10_000, 1);
    flow.lose();
    flow.run(30.0);
    let before = flow.cwnd();
    flow.round_trip();
    assert!(flow.cwnd() <= before * 1.5 + 1.0);
    for cwnd_segments in [2, 1 << 20, u32::MAX - 1] {
        let mut law = Cubic::START;
        for flows in [1, 50] {
            for (now_us, prior_segments) in [(0, 0), (u64::MAX, u32::MAX), (1 << 40, 7)] {
                let ack = Ack {
                    now_us,
                    srtt_us: 1 << 28,
                    acked_segments: u32::MAX,
                    prior_segments,
                    fraction_q32: u32::MAX,
                };
                let (increase_q16, _) = law.grow(cwnd_segments, &ack, flows);
                assert!(i64::from(increase_q16) >= 0);
                let kept = law.shrink(cwnd_segments, flows);
                assert!(kept.on_congestion(cwnd_segments) <= cwnd_segments.max(2));
            }
        }
    }
}

#[test]
fn as_many_flows_have_the_windows_of_as_many_standard_ones() {
    // The mean window of AIMD(b, a) is sqrt(a (2 - b) / (2 b p)); a standard flow's sqrt(1.5 / p).
    for flows in 1..=50_u32 {
        let Aimd { increase_q16, keep_q16 } = reno_friendly(flows);
        let (a, b) = (f64::from(increase_q16) / ONE, 1.0 - f64::from(keep_q16) / ONE);
        let ratio = (a * (2.0 - b) / (2.0 * b) / 1.5).sqrt();
        assert!((ratio / f64::from(flows) - 1.0).abs() < 2e-3, "{flows}: {ratio}");
    }
    assert_eq!(i64::from(alpha_q16(1)), LEAST_INCREASE_Q16);
    assert_eq!(keep_q16(1), ONE_Q16 - LOSS_Q16 as u32);
    assert!(keep_q16(1) > MIN_KEEP_Q16 && INFINITE_SSTHRESH > ONE_Q16);
}
