use super::{Delay, GENTLE_SEGMENTS, Phase, Sample, Window};
use crate::law::{INFINITE_SSTHRESH, ShownPhase};

const BASE_US: u32 = 100_000;

/// A flow and what its ACKs say.
struct Flow {
    law: Delay,
    window: Window,
    queue_segments: u32,
    sample: Sample,
}

impl Flow {
    fn new(cwnd_segments: u32, ssthresh_segments: u32) -> Self {
        Self {
            law: Delay::start(0),
            window: Window {
                cwnd_segments,
                ssthresh_segments,
                clamp_segments: u32::MAX,
                max_ssthresh_segments: u32::MAX,
                credit_q16: 0,
            },
            queue_segments: 0,
            sample: Sample {
                now_us: 1_000_000,
                rtt_us: None,
                acked_segments: 1,
                delivered_segments: 0,
                in_flight_segments: cwnd_segments,
                entitled_segments: u32::MAX,
                is_reducing: false,
            },
        }
    }

    /// One that has seen the base RTT and follows the queue.
    fn settled(cwnd_segments: u32) -> Self {
        let mut flow = Self::new(cwnd_segments, 2);
        flow.sample.entitled_segments = 0;
        flow.round(BASE_US);
        flow.round(BASE_US);
        flow.sample.entitled_segments = u32::MAX;
        assert_eq!(flow.window.cwnd_segments, cwnd_segments);
        flow
    }

    fn ack(&mut self, rtt_us: u32) {
        let sample = &mut self.sample;
        sample.rtt_us = Some(rtt_us);
        sample.delivered_segments = sample.delivered_segments.wrapping_add(1);
        self.window = self.law.on_ack(self.window, sample, self.queue_segments);
        self.sample.in_flight_segments = self.window.cwnd_segments;
    }

    /// ACKs of one window, each of its segments acknowledged by itself.
    fn round(&mut self, rtt_us: u32) {
        self.sample.now_us += u64::from(rtt_us);
        for _ in 0..self.window.cwnd_segments {
            self.ack(rtt_us);
        }
    }

    /// A loss, and the kernel's answer to it.
    fn lose(&mut self) {
        self.window.ssthresh_segments = self.law.on_congestion(self.window.cwnd_segments);
        self.sample.is_reducing = true;
    }
}

#[test]
fn slow_start_doubles_and_later_takes_two_rtts_to_double() {
    let mut flow = Flow::new(10, INFINITE_SSTHRESH);
    flow.round(BASE_US);
    assert_eq!(flow.window.cwnd_segments, 20);
    let mut flow = Flow::new(10 * GENTLE_SEGMENTS, INFINITE_SSTHRESH);
    flow.round(BASE_US);
    assert!((1340..=1414).contains(&flow.window.cwnd_segments), "{:?}", flow.window);
    let mut flow = Flow::new(50, 80);
    flow.round(BASE_US);
    assert!((80..90).contains(&flow.window.cwnd_segments), "{:?}", flow.window);
}

#[test]
fn slow_start_is_limited_where_the_path_says_so() {
    let mut flow = Flow::new(1000, INFINITE_SSTHRESH);
    flow.window.max_ssthresh_segments = 100;
    flow.round(BASE_US);
    assert!((1045..=1050).contains(&flow.window.cwnd_segments), "{:?}", flow.window);
}

#[test]
fn slow_start_ends_when_a_queue_shows_and_the_window_is_kept_for_a_round() {
    let mut flow = Flow::new(500, INFINITE_SSTHRESH);
    flow.round(BASE_US);
    let before_segments = flow.window.cwnd_segments;
    for _ in 0..70 {
        flow.ack(BASE_US + BASE_US / 10);
    }
    let kept_segments = flow.window.cwnd_segments;
    assert_eq!(flow.window.ssthresh_segments, kept_segments);
    assert!((before_segments..before_segments + 40).contains(&kept_segments));
    for _ in 70..kept_segments {
        flow.ack(BASE_US + BASE_US / 5);
        assert_eq!(flow.window.cwnd_segments, kept_segments);
    }
    flow.round(BASE_US + BASE_US / 5);
    flow.round(BASE_US + BASE_US / 5);
    assert!(flow.window.cwnd_segments < kept_segments);
    assert!(!flow.window.in_slow_start());
}

#[test]
fn an_rtt_goes_half_of_the_way_to_the_queue_wanted() {
    for (queue_segments, extra_us) in [(50, 10_000), (200, 10_000), (100, 5000)] {
        let mut flow = Flow::settled(1000);
        flow.queue_segments = queue_segments;
        // The first floor of it is at the end of the round.
        flow.round(BASE_US + extra_us);
        let before = flow.window.cwnd_segments;
        flow.round(BASE_US + extra_us);
        let queued = before as f64 * f64::from(extra_us) / f64::from(BASE_US + extra_us);
        let step = (f64::from(queue_segments) - queued) / 2.0;
        let seen = f64::from(flow.window.cwnd_segments) - f64::from(before);
        assert!((seen - step).abs() < 3.0 + step.abs() / 10.0, "{seen}, not {step}");
    }
}

#[test]
fn a_window_without_a_queue_grows_faster_and_faster_up_to_a_sixteenth() {
    let mut flow = Flow::settled(1600);
    flow.queue_segments = 20;
    let mut grown = [0.0; 8];
    for grown in &mut grown {
        let before = flow.window.cwnd_segments;
        flow.round(BASE_US);
        *grown = f64::from(flow.window.cwnd_segments) / f64::from(before) - 1.0;
    }
    assert!(grown.is_sorted_by(|a, b| *b < 2.3 * a), "{grown:?}");
    assert!(grown[0] < 0.03 && (0.055..0.0626).contains(&grown[7]), "{grown:?}");
}

#[test]
fn only_a_window_that_holds_the_flow_back_grows_but_any_shrinks() {
    let mut flow = Flow::settled(1000);
    flow.sample.entitled_segments = 0;
    flow.round(BASE_US);
    assert_eq!(flow.window.cwnd_segments, 1000);
    flow.round(BASE_US * 2);
    flow.round(BASE_US * 2);
    assert!(flow.window.cwnd_segments < 1000);
    let mut flow = Flow::new(10, INFINITE_SSTHRESH);
    flow.sample.entitled_segments = 12;
    flow.round(BASE_US);
    assert_eq!(flow.window.cwnd_segments, 12);
}

#[test]
fn a_loss_halves_the_window_within_a_round() {
    let mut flow = Flow::settled(1000);
    flow.lose();
    assert_eq!(flow.window.ssthresh_segments, 500);
    flow.ack(BASE_US);
    assert!(flow.window.cwnd_segments >= 1000, "the retransmission may go out");
    let mut least = flow.window.cwnd_segments;
    for n in 0..1200_u32 {
        // What was sent is one for two that came.
        flow.sample.in_flight_segments = (1000 - n / 2).saturating_sub(1);
        let sample = Sample { rtt_us: None, ..flow.sample };
        flow.window = flow.law.on_ack(flow.window, &sample, 0);
        assert!(flow.window.cwnd_segments <= least);
        assert!(flow.window.cwnd_segments <= (1001 - n / 2).max(500));
        least = flow.window.cwnd_segments;
    }
    assert_eq!(least, 500);
    flow.sample.is_reducing = false;
    flow.ack(BASE_US);
    assert_eq!((flow.window.cwnd_segments, flow.window.ssthresh_segments), (500, 500));
}

#[test]
fn a_window_is_at_the_threshold_when_a_reduction_ends_early() {
    let mut flow = Flow::settled(1000);
    flow.lose();
    flow.ack(BASE_US);
    flow.sample.is_reducing = false;
    flow.ack(BASE_US);
    assert_eq!(flow.window.cwnd_segments, 500);
}

#[test]
fn a_loss_that_a_probe_repairs_halves_the_window_too() {
    // The kernel is back in the open state before any ACK is heard.
    let mut flow = Flow::settled(1000);
    flow.lose();
    flow.sample.is_reducing = false;
    flow.ack(BASE_US);
    assert_eq!((flow.window.cwnd_segments, flow.window.ssthresh_segments), (500, 500));
    // One that is undone as soon has another threshold: three quarters of the window.
    let mut flow = Flow::settled(1000);
    flow.lose();
    flow.sample.is_reducing = false;
    flow.window.ssthresh_segments = 750;
    flow.ack(BASE_US);
    assert_eq!(flow.window.cwnd_segments, 1000);
}

#[test]
fn an_undone_reduction_leaves_the_window_as_it_was() {
    let mut flow = Flow::settled(1000);
    flow.lose();
    flow.sample.in_flight_segments = 700;
    flow.ack(BASE_US);
    assert_eq!(flow.window.cwnd_segments, 701);
    // tcp_undo_cwnd_reduction()
    flow.window.cwnd_segments = 1000;
    flow.window.ssthresh_segments = 750;
    flow.sample.is_reducing = false;
    flow.ack(BASE_US);
    assert_eq!(flow.window.cwnd_segments, 1000);
}

#[test]
fn after_a_timeout_slow_start_leads_to_half_the_window() {
    let mut flow = Flow::settled(1000);
    flow.lose();
    flow.sample.is_reducing = false;
    flow.window.cwnd_segments = 1;
    for _ in 0..12 {
        flow.round(BASE_US);
    }
    assert!((500..560).contains(&flow.window.cwnd_segments), "{:?}", flow.window);
}

/// Rounds with a queue of ten segments until the base RTT is old.
fn until_drained(flow: &mut Flow) {
    flow.queue_segments = 10;
    for _ in 0..120_000 {
        flow.sample.now_us += u64::from(BASE_US) / 1000;
        flow.ack(BASE_US + BASE_US / 100);
        if flow.law.is(Phase::Drain) {
            return;
        }
    }
    panic!("never drained: {:?}", flow.law);
}

#[test]
fn the_base_rtt_is_sought_after_ten_seconds_and_the_window_comes_back() {
    let mut flow = Flow::settled(1000);
    until_drained(&mut flow);
    let drained_segments = flow.window.cwnd_segments;
    assert!((850..=880).contains(&drained_segments), "{:?}", flow.window);
    // What was out before the drain.
    for _ in 0..=flow.law.full_segments {
        flow.ack(BASE_US + 50_000);
    }
    assert!(flow.law.is(Phase::Refill));
    assert!((990..=1010).contains(&flow.window.cwnd_segments), "{:?}", flow.window);
    flow.round(BASE_US + 30_000);
    flow.round(BASE_US + 30_000);
    assert!(flow.law.is(Phase::Follow));
    assert_eq!(flow.law.base.rtt_us(), BASE_US + 30_000);
}

#[test]
fn a_loss_during_a_drain_halves_what_was_drained() {
    let mut flow = Flow::settled(1000);
    until_drained(&mut flow);
    let full_segments = flow.law.full_segments;
    assert_eq!(flow.law.on_congestion(flow.window.cwnd_segments), full_segments / 2);
}

#[test]
fn a_window_that_idle_time_took_is_not_filled_again_by_a_drain() {
    let mut flow = Flow::settled(1000);
    until_drained(&mut flow);
    // tcp_cwnd_restart()
    flow.window.cwnd_segments = 10;
    flow.window.ssthresh_segments = 750;
    flow.ack(BASE_US);
    assert!(flow.window.cwnd_segments <= 11, "{:?}", flow.window);
}

#[test]
fn edges_lead_where_the_law_goes_and_nowhere_else() {
    use Phase::{Drain, Follow, Reduce, Refill, Settle};
    let edges = [
        (Follow, Settle),
        (Follow, Drain),
        (Follow, Reduce),
        (Settle, Reduce),
        (Drain, Settle),
        (Drain, Refill),
        (Drain, Reduce),
        (Refill, Reduce),
    ];
    for from in Phase::ALL {
        for to in Phase::ALL {
            let is_edge = to == Follow || edges.contains(&(from, to));
            assert_eq!(from.leads_to(to), is_edge, "{from:?} {to:?}");
        }
    }
}

#[test]
#[should_panic(expected = "no edge leads from Some(Settle) to Refill")]
fn what_settles_is_not_refilled() {
    let mut law = Delay::start(0);
    law.transition_to(Phase::Settle);
    law.transition_to(Phase::Refill);
}

#[test]
fn where_it_is_shows() {
    let mut flow = Flow::new(50, INFINITE_SSTHRESH);
    let shown = |flow: &Flow| flow.law.phase(&flow.window);
    flow.round(BASE_US);
    assert_eq!(shown(&flow), ShownPhase::SlowStart);
    flow.window.max_ssthresh_segments = 80;
    assert_eq!(shown(&flow), ShownPhase::LimitedSlowStart);
    let mut flow = Flow::settled(1000);
    assert_eq!(shown(&flow), ShownPhase::CongestionAvoidance);
    flow.lose();
    flow.ack(BASE_US);
    assert_eq!(shown(&flow), ShownPhase::Recovery);
}
