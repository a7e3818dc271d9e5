use super::{INFINITE_SSTHRESH, Leaky, Losses, MIN_WINDOW_SEGMENTS, Sample, Start, Window};

const BASE_US: u32 = 100_000;
/// Half of the base RTT.
const QUEUE_US: u32 = 50_000;

/// A flow of 1000 segments in congestion avoidance.
struct Flow {
    law: Leaky,
    window: Window,
    sample: Sample,
    losses: Losses,
}

impl Flow {
    fn new() -> Self {
        let mut flow = Self {
            law: Leaky::start(0, 0),
            window: Window {
                cwnd_segments: 1000,
                ssthresh_segments: 1000,
                clamp_segments: u32::MAX,
                max_ssthresh_segments: u32::MAX,
                credit_q16: 0,
            },
            sample: Sample {
                now_us: 0,
                rtt_us: Some(BASE_US),
                acked_segments: 0,
                delivered_segments: 0,
                in_flight_segments: 1000,
                entitled_segments: u32::MAX,
                is_reducing: false,
            },
            losses: Losses {
                lost_segments: 0,
                missing_segments: 0,
                marked_segments: 0,
                prior_segments: 1000,
            },
        };
        flow.rounds(3, BASE_US);
        flow
    }

    fn ack(&mut self, acked_segments: u32, lost_segments: u32) {
        self.sample.acked_segments = acked_segments;
        self.sample.delivered_segments += acked_segments;
        self.losses.lost_segments = lost_segments;
        self.window = self.law.on_ack(self.window, &self.sample, &self.losses);
    }

    /// So many RTTs, 50 ACKs in each.
    fn rounds(&mut self, rounds: u32, rtt_us: u32) {
        self.sample.rtt_us = Some(rtt_us);
        for _ in 0..rounds * 50 {
            self.sample.now_us += u64::from(rtt_us) / 50;
            self.ack(self.window.cwnd_segments.div_ceil(50), 0);
        }
    }

    /// Losses on one ACK; what they leave of 1000 segments.
    fn lose(&mut self, segments: u32) -> u32 {
        let before = self.window.cwnd_segments;
        self.losses.prior_segments = before;
        self.window.ssthresh_segments = self.law.on_congestion(self.window);
        self.sample.is_reducing = true;
        self.ack(0, segments);
        // A sixteenth of the RTT.
        for _ in 0..4 {
            self.sample.now_us += 2000;
            self.ack(0, 0);
        }
        self.sample.is_reducing = false;
        1000 * self.window.cwnd_segments / before
    }

    /// The path becomes known to leak.
    fn leak(&mut self) {
        assert_eq!(self.lose(1), 1000);
        self.rounds(4, BASE_US);
        assert_eq!(self.lose(1), 1000);
        assert!(self.law.leak.is_known());
    }

    fn mark(&mut self) -> u32 {
        self.losses.marked_segments += 1;
        self.lose(0)
    }
}

#[test]
fn a_loss_without_a_queue_changes_nothing_until_the_path_is_known_to_leak() {
    let mut flow = Flow::new();
    let before = flow.window;
    assert_eq!(flow.lose(1), 1000);
    assert_eq!(flow.window.ssthresh_segments, before.ssthresh_segments);
    flow.rounds(2, BASE_US);
    assert_eq!(flow.lose(1), 1000);
    assert!(!flow.law.leak.is_known(), "too soon");
    flow.rounds(2, BASE_US);
    assert_eq!(flow.lose(1), 1000);
    assert!(flow.law.leak.is_known());
    assert_eq!(flow.window.ssthresh_segments, INFINITE_SSTHRESH, "it looks for the queue");
}

#[test]
fn a_queue_that_is_gone_after_a_sixteenth_of_the_rtt_is_none() {
    let mut flow = Flow::new();
    flow.rounds(1, BASE_US + QUEUE_US);
    let before = flow.window.cwnd_segments;
    flow.ack(0, 1);
    flow.sample.rtt_us = Some(BASE_US);
    flow.sample.now_us += 4000;
    flow.ack(0, 0);
    flow.sample.now_us += 10_000;
    flow.ack(0, 0);
    assert_eq!(flow.window.cwnd_segments, before);
}

#[test]
fn a_loss_with_a_queue_is_congestion_once_in_a_round() {
    let mut flow = Flow::new();
    flow.rounds(1, BASE_US + QUEUE_US);
    assert!(matches!(flow.lose(1), 699..=701));
    assert_eq!(flow.window.cwnd_segments, flow.window.ssthresh_segments);
    assert_eq!(flow.lose(500), 1000);
    flow.rounds(2, BASE_US + QUEUE_US);
    assert!(matches!(flow.lose(1), 699..=701));
}

#[test]
fn losses_that_a_timer_found_count_once() {
    for (missing_segments, kept) in [(100, 699..=701), (3, 1000..=1000)] {
        let mut flow = Flow::new();
        flow.losses.missing_segments = missing_segments;
        assert!(kept.contains(&flow.lose(0)), "{missing_segments}");
    }
    // Those of an ACK are those that the kernel asks about.
    let mut flow = Flow::new();
    flow.losses.missing_segments = 100;
    assert_eq!(flow.lose(3), 1000);
}

#[test]
fn slow_start_that_ends_at_one_segment_leaves_a_threshold_of_two() {
    let mut flow = Flow::new();
    flow.rounds(2, BASE_US + QUEUE_US);
    flow.law.start = Start::Again as u8;
    // As a time-out leaves it.
    flow.window.cwnd_segments = 1;
    flow.window.ssthresh_segments = INFINITE_SSTHRESH;
    flow.ack(1, 0);
    assert_eq!(flow.window.ssthresh_segments, MIN_WINDOW_SEGMENTS);
}

#[test]
fn gentle_slow_start_leaves_one_segment() {
    let mut flow = Flow::new();
    flow.law.start = Start::Again as u8;
    flow.window.cwnd_segments = 1;
    flow.window.ssthresh_segments = INFINITE_SSTHRESH;
    flow.rounds(20, BASE_US);
    assert!(flow.window.cwnd_segments > 10);
}

/// As reordering has it that looks like many losses, and is found out.
#[test]
fn slow_start_whose_end_was_undone_ends_with_a_queue() {
    let mut flow = Flow::new();
    flow.law = Leaky::start(0, 0);
    flow.window.ssthresh_segments = INFINITE_SSTHRESH;
    assert!(matches!(flow.lose(500), 699..=701));
    flow.window.cwnd_segments = 1000;
    flow.window.ssthresh_segments = INFINITE_SSTHRESH;
    flow.rounds(2, BASE_US);
    flow.rounds(3, BASE_US + QUEUE_US);
    assert_ne!(flow.window.ssthresh_segments, INFINITE_SSTHRESH);
}

#[test]
fn on_a_path_known_to_leak_it_cuts_what_the_queue_takes() {
    for (queue_us, keeps) in [(10_000, 900), (30_000, 761), (100_000, 700)] {
        let mut flow = Flow::new();
        flow.leak();
        flow.rounds(1, BASE_US + queue_us);
        let kept = flow.lose(1);
        assert!(kept.abs_diff(keeps) <= 2, "{kept}, not {keeps}");
    }
}

#[test]
fn a_queue_that_a_cut_does_not_empty_is_of_others() {
    let mut flow = Flow::new();
    flow.leak();
    // Slow start is over for long.
    flow.rounds(4, BASE_US + 10_000);
    assert!(flow.lose(1) > 850);
    flow.rounds(5, BASE_US + 10_000);
    assert!(matches!(flow.lose(1), 699..=701));
}

#[test]
fn a_queue_that_slow_start_goes_on_filling_is_its_own() {
    let mut flow = Flow::new();
    flow.leak();
    flow.rounds(1, BASE_US);
    assert_eq!(flow.window.ssthresh_segments, INFINITE_SSTHRESH);
    flow.rounds(1, BASE_US + 4000);
    assert_ne!(flow.window.ssthresh_segments, INFINITE_SSTHRESH);
    assert!(flow.lose(1) > 850);
    // What the cut did not know of.
    flow.rounds(5, BASE_US + 6000);
    assert!(flow.lose(1) > 850);
    // But that should have emptied it.
    flow.rounds(5, BASE_US + 6000);
    assert!(matches!(flow.lose(1), 699..=701));
}

/// As a queue of a tenth of the path: now and then its packets are lost in a burst,
/// before it stands.
#[test]
fn losses_that_mostly_wait_for_a_queue_are_no_leak() {
    let mut flow = Flow::new();
    flow.leak();
    for _ in 0..4 {
        for _ in 0..3 {
            flow.rounds(1, BASE_US + 10_000);
            flow.lose(1);
            flow.rounds(5, BASE_US);
        }
        assert_eq!(flow.lose(1), 1000);
        flow.rounds(5, BASE_US);
    }
    flow.rounds(1, BASE_US + 10_000);
    assert!(matches!(flow.lose(1), 699..=701));
}

#[test]
fn losses_of_one_burst_are_one_sign_though_many_acks_tell_of_them() {
    let mut flow = Flow::new();
    flow.leak();
    for _ in 0..3 {
        flow.rounds(1, BASE_US + 10_000);
        flow.lose(1);
        flow.rounds(5, BASE_US);
    }
    for _ in 0..3 {
        assert_eq!(flow.lose(1), 1000);
    }
    flow.rounds(5, BASE_US);
    flow.rounds(1, BASE_US + 10_000);
    flow.lose(1);
    flow.rounds(5, BASE_US);
    flow.rounds(1, BASE_US + 10_000);
    assert!(matches!(flow.lose(1), 699..=701));
}

#[test]
fn a_leak_stays_known_while_every_other_loss_finds_a_queue() {
    let mut flow = Flow::new();
    flow.leak();
    for _ in 0..6 {
        flow.rounds(1, BASE_US + 10_000);
        assert!(flow.lose(1) > 850);
        flow.rounds(5, BASE_US);
        assert_eq!(flow.lose(1), 1000);
        flow.rounds(5, BASE_US);
    }
}

#[test]
fn a_queue_of_a_thirtieth_of_the_rtt_is_one() {
    let mut flow = Flow::new();
    flow.rounds(1, BASE_US + BASE_US / 30);
    assert!(matches!(flow.lose(1), 699..=701));
}

#[test]
fn a_leak_is_forgotten() {
    let mut flow = Flow::new();
    flow.window.clamp_segments = flow.window.cwnd_segments;
    flow.leak();
    flow.rounds(400, BASE_US);
    flow.rounds(1, BASE_US + 10_000);
    assert!(matches!(flow.lose(1), 699..=701));
}

#[test]
fn many_losses_are_congestion_with_or_without_a_queue() {
    let mut flow = Flow::new();
    assert_eq!(flow.lose(19), 1000);
    flow.rounds(2, BASE_US);
    flow.window.cwnd_segments = 1000;
    assert!(matches!(flow.lose(20), 699..=701));
}

#[test]
fn marks_are_congestion_even_where_the_path_leaks() {
    let mut flow = Flow::new();
    flow.leak();
    flow.rounds(2, BASE_US);
    assert!(matches!(flow.mark(), 699..=701));
    assert_eq!(flow.window.cwnd_segments, flow.window.ssthresh_segments);
    // What was out is acknowledged with ECE to the last segment.
    flow.sample.acked_segments = 1000;
    flow.sample.delivered_segments += 1000;
    assert_eq!(flow.mark(), 1000);
    flow.rounds(1, BASE_US);
    assert!(matches!(flow.mark(), 699..=701));
}

#[test]
fn a_mark_ends_slow_start() {
    let mut flow = Flow::new();
    flow.law = Leaky::start(0, 0);
    flow.window.ssthresh_segments = INFINITE_SSTHRESH;
    flow.mark();
    assert_eq!(flow.window.cwnd_segments, flow.window.ssthresh_segments);
}

#[test]
fn after_a_timeout_slow_start_leads_back_to_the_threshold() {
    let mut flow = Flow::new();
    flow.losses.prior_segments = 1000;
    flow.window.ssthresh_segments = flow.law.on_congestion(flow.window);
    flow.window.cwnd_segments = 1;
    flow.sample.in_flight_segments = 1;
    flow.ack(1, 0);
    assert_eq!((flow.window.cwnd_segments, flow.window.ssthresh_segments), (2, 700));
    for segments in [2, 4, 8] {
        flow.ack(segments, 0);
    }
    assert_eq!(flow.window.cwnd_segments, 16);
}

#[test]
fn a_timeout_after_a_leak_of_the_same_window_is_congestion() {
    let mut flow = Flow::new();
    flow.losses.prior_segments = 1000;
    flow.lose(1);
    assert!(flow.window.cwnd_segments >= 1000, "{:?}", flow.window);
    // What was sent again is lost: the kernel asks for nothing.
    flow.law.on_timeout();
    flow.window.cwnd_segments = 1;
    flow.sample.in_flight_segments = 1;
    flow.ack(1, 0);
    assert_eq!((flow.window.cwnd_segments, flow.window.ssthresh_segments), (2, 700));
}

#[test]
fn a_timeout_that_was_undone_is_none() {
    let mut flow = Flow::new();
    flow.window.ssthresh_segments = flow.law.on_congestion(flow.window);
    flow.ack(1, 0);
    assert!(flow.window.cwnd_segments >= 1000);
    assert!(flow.window.ssthresh_segments >= 1000);
}

#[test]
fn the_least_window_stays() {
    let mut flow = Flow::new();
    flow.rounds(1, BASE_US + QUEUE_US);
    flow.window.cwnd_segments = 2;
    flow.lose(2);
    assert_eq!(flow.window.cwnd_segments, MIN_WINDOW_SEGMENTS);
}
