//! Flows that resume on a path whose capacity is as it was known, or half of that, or a tenth,
//! or shared by now: packet by packet, beside flows that begin with nothing.

use bottleneck::{Ack, Control, Flow, Path, World, cubic};
use wad_common::law::{
    Aimd, INFINITE_SSTHRESH, Window,
    loss_based::{Course, Delivery, LossBased, Moment},
    pacing::bytes_per_second,
    resume::{self, INITIAL_WINDOW_SEGMENTS, Known, Phase, Resume, Step},
    stall::Signs,
};

mod bottleneck;

const MSS_BYTES: u64 = 1_448;
const RTT_MS: f64 = 120.0;
const RTT_US: u32 = 120_000;
/// The path was known to carry this.
const KNOWN_MBPS: f64 = 600.0;

/// A standard flow as the kernel has it, proportional rate reduction included (RFC 6937).
struct Standard {
    law: LossBased,
    course: Course,
    cwnd: u32,
    ssthresh: u32,
    srtt_us: u32,
    reduction: Option<Reduction>,
}

struct Reduction {
    prior_cwnd: u32,
    delivered: u32,
    sent: u32,
    /// All that was on its way has been delivered, or is known to be lost, by then.
    ends_at_delivered: u32,
}

impl Standard {
    fn new(known: Option<Known>, ssthresh: u32) -> Self {
        let cwnd = INITIAL_WINDOW_SEGMENTS;
        let mut law = LossBased::START;
        if let Some(known) = known {
            law.resume = Resume::begin(known, u32::MAX, cwnd, cwnd);
            assert_eq!(law.resume.phase(), Phase::Reconnaissance);
        }
        Self { law, course: Course::START, cwnd, ssthresh, srtt_us: RTT_US, reduction: None }
    }

    fn reduce(&mut self, ack: &Ack) {
        let moment = Moment {
            now_us: ack.now_us,
            srtt_us: self.srtt_us,
            cwnd_segments: self.cwnd,
            ssthresh_segments: self.ssthresh,
            prior_cwnd_segments: self.cwnd,
            in_flight_segments: ack.in_flight,
            delivered_segments: ack.delivered,
            retransmitted_segments: 0,
            delivery: Delivery { segments: 0, interval_us: 0 },
            signs: Signs { lost_segments: ack.lost, sacked_segments: 0, delivered_ce_segments: 0 },
            ignores_stalls: false,
        };
        let answer = self.law.on_asked(&mut self.course, &moment, |_| Aimd::STANDARD);
        self.ssthresh = answer.ssthresh_segments;
        self.reduction = Some(Reduction {
            prior_cwnd: self.cwnd,
            delivered: 0,
            sent: 0,
            ends_at_delivered: ack.delivered + ack.in_flight,
        });
    }

    fn grow(&mut self, ack: &Ack) {
        let step = self.law.resume.on_ack(&resume::Ack {
            now_us: ack.now_us as u32,
            latest_rtt_us: ack.rtt_us,
            srtt_us: self.srtt_us,
            delivered_segments: ack.delivered,
            retransmitted_segments: 0,
            in_flight_segments: ack.in_flight,
            cwnd_segments: self.cwnd,
            ssthresh_segments: self.ssthresh,
            is_cwnd_limited: true,
        });
        match step {
            Step::Normal => {}
            Step::Hold => return,
            Step::Jump(window) | Step::Settle(window) => {
                self.cwnd = window.cwnd_segments;
                self.ssthresh = window.ssthresh_segments;
                return;
            }
        }
        let window = Window {
            cwnd_segments: self.cwnd,
            ssthresh_segments: self.ssthresh,
            clamp_segments: u32::MAX,
            max_ssthresh_segments: u32::MAX,
            credit_q16: self.law.credit_q16,
        };
        let after = Aimd::STANDARD.on_ack(window, ack.acked);
        self.cwnd = after.cwnd_segments;
        self.law.credit_q16 = after.credit_q16;
    }
}

impl Control for Standard {
    fn on_ack(&mut self, ack: &Ack) {
        self.srtt_us = (self.srtt_us * 7 + ack.rtt_us) / 8;
        if ack.lost > 0 && self.reduction.is_none() {
            self.reduce(ack);
        }
        let Some(reduction) = &mut self.reduction else { return self.grow(ack) };
        reduction.delivered += ack.acked;
        if ack.delivered >= reduction.ends_at_delivered {
            self.reduction = None;
            self.cwnd = self.ssthresh;
            return;
        }
        // `tcp_cwnd_reduction()`.
        let share = u64::from(self.ssthresh) * u64::from(reduction.delivered);
        let sent = if ack.in_flight > self.ssthresh {
            share.div_ceil(reduction.prior_cwnd.into()) as u32 - reduction.sent
        } else {
            (reduction.delivered - reduction.sent.min(reduction.delivered))
                .max(ack.acked)
                .min(self.ssthresh - ack.in_flight)
        };
        reduction.sent += sent;
        self.cwnd = ack.in_flight + sent;
    }

    fn on_timeout(&mut self, ack: &Ack) {
        if self.reduction.is_none() {
            self.reduce(ack);
        }
        self.reduction = None;
        self.cwnd = 1;
    }

    fn cwnd(&self) -> u32 {
        self.cwnd
    }

    fn pacing(&self) -> Option<f64> {
        let in_slow_start = self.cwnd < self.ssthresh / 2;
        let bytes = u64::from(self.cwnd) * MSS_BYTES;
        let rate = bytes_per_second(bytes, self.srtt_us, in_slow_start)?;
        Some(rate as f64 / MSS_BYTES as f64)
    }
}

fn segments(mbps: f64) -> u32 {
    (mbps * 1e6 / 8.0 * RTT_MS / 1e3 / 1500.0) as u32
}

fn known() -> Known {
    Known { saved_cwnd_segments: segments(KNOWN_MBPS), saved_rtt_us: RTT_US }
}

/// A queue of that part of what the path carries in an RTT.
fn path(rate_mbps: f64, queue: f64) -> Path {
    Path {
        rate_mbps,
        queue_packets: (f64::from(segments(rate_mbps)) * queue) as u64,
        loss: 0.0,
        jitter_us: 0,
        packets_per_ack: 2,
        seed: 7,
    }
}

/// Returns the seconds that a flow takes until so many bytes are delivered, and what it has
/// lost until then.
fn seconds(path: Path, known: Option<Known>, ssthresh: u32, bytes: u64) -> (f64, u64) {
    let control = Box::new(Standard::new(known, ssthresh));
    let mut world = World::new(path, vec![Flow::new(control, RTT_MS, 0.0)]);
    let mut now_s = 0.0;
    while world.flows[0].delivered * MSS_BYTES < bytes {
        now_s += 0.01;
        world.run(now_s);
        assert!(now_s < 600.0);
    }
    (now_s, world.flows[0].lost)
}

#[test]
fn an_object_on_a_known_path_takes_a_part_of_the_time() {
    // A policy for a path ends slow start at what that carries.
    let ssthresh = known().saved_cwnd_segments;
    for queue in [0.1, 0.5] {
        for (bytes, most) in [(1_000_000, 0.45), (10_000_000, 0.5), (100_000_000, 0.75)] {
            let path = path(KNOWN_MBPS, queue);
            let (cold_s, cold_lost) = seconds(path, None, ssthresh, bytes);
            let (warm_s, lost) = seconds(path, Some(known()), ssthresh, bytes);
            println!(
                "queue {queue} BDP, {bytes} bytes: {warm_s:.2} s for {cold_s:.2} s, lost {lost} \
                 for {cold_lost}"
            );
            assert!(warm_s <= most * cold_s, "{bytes}: {warm_s} of {cold_s}");
            assert!(lost <= cold_lost, "{bytes}: {lost} of {cold_lost}");
        }
    }
}

#[test]
fn a_jump_on_a_path_as_it_was_finds_hardly_a_queue() {
    let control = Box::new(Standard::new(Some(known()), INFINITE_SSTHRESH));
    let mut world = World::new(path(KNOWN_MBPS, 0.5), vec![Flow::new(control, RTT_MS, 0.0)]);
    // The first window, the jump, and what its ACKs let out.
    let mut most_ms: f64 = 0.0;
    for tenth in 1..40 {
        world.run(f64::from(tenth) * RTT_MS / 1e4);
        most_ms = most_ms.max(world.queue_ms());
    }
    println!("{most_ms:.1} ms");
    assert!(most_ms < RTT_MS / 10.0, "{most_ms}");
}

/// A path that carries what is known has no overshoot of slow start, and one that carries more
/// by now is filled as slow start does.
#[test]
fn a_path_that_carries_as_much_or_more_is_filled() {
    for (times, most_lost) in [(1.0, 0), (4.0, 4 * segments(KNOWN_MBPS) * 3 / 2 + 20)] {
        let path = path(KNOWN_MBPS * times, 0.5);
        let (cold_s, cold_lost) = seconds(path, None, INFINITE_SSTHRESH, 200_000_000);
        let (warm_s, lost) = seconds(path, Some(known()), INFINITE_SSTHRESH, 200_000_000);
        println!("{times} of it: {warm_s:.2} s for {cold_s:.2} s, lost {lost} for {cold_lost}");
        assert!(warm_s < cold_s, "{times}: {warm_s} of {cold_s}");
        assert!(lost <= most_lost.into(), "{times}: {lost}");
    }
}

/// A jump to half of what a path is known to carry, which carries a part of that now: all that
/// it lets out is that half, once; after the retreat it grows as slow start lets it from the
/// part of the pipe that was shown.
#[test]
fn wrong_knowledge_costs_no_more_than_the_jump() {
    for part in [0.5, 0.25, 0.1] {
        for queue in [0.1, 0.5, 1.0] {
            let path = path(KNOWN_MBPS * part, queue);
            let carried = u64::from(segments(KNOWN_MBPS * part)) + path.queue_packets;
            let jump = u64::from(known().saved_cwnd_segments / 2);
            let control = Box::new(Standard::new(Some(known()), INFINITE_SSTHRESH));
            let mut world = World::new(path, vec![Flow::new(control, RTT_MS, 0.0)]);
            // The first window, the jump, what the kernel finds out of it, and three more.
            world.run(7.0 * RTT_MS / 1e3);
            let lost = world.flows[0].lost;
            println!("{part} of it, queue {queue} BDP: {lost} lost of {jump}, holds {carried}");
            let bound = jump.max(carried);
            assert!(lost <= bound, "{part} {queue}: {lost} of a jump to {jump}");
            // It has a fair use of the path after that.
            let before = world.flows[0].delivered;
            world.run(30.0);
            let got = world.mbps(0, before, 30.0 - 7.0 * RTT_MS / 1e3);
            println!("    then {got:.0} Mb/s of {:.0}", KNOWN_MBPS * part);
            assert!(got > 0.5 * KNOWN_MBPS * part, "{part} {queue}: {got}");
        }
    }
}

#[test]
fn beside_others_it_takes_no_more_from_them_than_slow_start_does() {
    let lost_of_others = |known: Option<Known>| -> (u64, f64) {
        let mut flows: Vec<Flow> = (0..4)
            .map(|n| Flow::new(Box::new(cubic::Kernel::cubic()), RTT_MS, f64::from(n) * 0.2))
            .collect();
        flows.push(Flow::new(Box::new(Standard::new(known, INFINITE_SSTHRESH)), RTT_MS, 20.0));
        let mut world = World::new(path(KNOWN_MBPS, 1.0), flows);
        world.run(20.0);
        let sum = |world: &World| -> (u64, u64) {
            let others = &world.flows[..4];
            (others.iter().map(|f| f.lost).sum(), others.iter().map(|f| f.delivered).sum())
        };
        let before = sum(&world);
        world.run(30.0);
        let after = sum(&world);
        let mbps = (after.1 - before.1) as f64 * MSS_BYTES as f64 * 8.0 / 10.0 / 1e6;
        (after.0 - before.0, mbps)
    };
    let (cold_lost, cold_mbps) = lost_of_others(None);
    let (lost, mbps) = lost_of_others(Some(known()));
    println!("others: {lost} lost, {mbps:.0} Mb/s; beside slow start {cold_lost}, {cold_mbps:.0}");
    assert!(mbps > 0.85 * cold_mbps, "{mbps} of {cold_mbps}");
}
