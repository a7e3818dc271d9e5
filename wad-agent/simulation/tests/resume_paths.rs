//! Flows that resume on a path whose capacity is as it was known, or half of that, or a tenth,
//! or shared by now: packet by packet, beside flows that begin with nothing.

use paths::{MSS_BYTES, mbps, path, sender};
use wad_common::{
    control::{Control, WindowSize},
    policy::{Policy, RESUMES_KNOWN},
};
use wad_simulation::{Algorithm, Flow, Path, Sender, World};

mod paths;

const RTT_MS: f64 = 120.0;
const RTT_US: u32 = 120_000;
/// The path was known to carry this.
const KNOWN_MBPS: f64 = 600.0;

/// A standard flow that ends slow start there, or knows no end; and knows its path, or not.
fn standard(is_warm: bool, ssthresh: Option<u32>) -> Sender {
    let initial_ssthresh = WindowSize { segments: ssthresh.unwrap_or(0), bytes: 0 };
    let sender = Sender::new(Algorithm::Aimd, Control { initial_ssthresh, ..Control::STANDARD });
    if !is_warm {
        return sender;
    }
    let policy = Policy {
        flags: RESUMES_KNOWN,
        resume_lifetime_s: 3600,
        path_bytes: known_segments() * MSS_BYTES as u32,
        path_rtt_us: RTT_US,
        ..sender.policy
    };
    Sender { policy, ..sender }
}

fn segments(mbps: f64) -> u32 {
    (mbps * 1e6 / 8.0 * RTT_MS / 1e3 / 1500.0) as u32
}

fn known_segments() -> u32 {
    segments(KNOWN_MBPS)
}

/// Returns the seconds that a flow takes until so many bytes are delivered, and what it has
/// lost until then.
fn seconds(path: Path, sender: &Sender, bytes: u64) -> (f64, u64) {
    let mut world = World::new(path, &[]).with(sender, 1, 0.0);
    let mut now_s = 0.0;
    while world.flows[0].delivered() * MSS_BYTES < bytes {
        now_s += 0.01;
        world.run(now_s);
        assert!(now_s < 600.0);
    }
    (now_s, world.flows[0].lost())
}

#[test]
fn an_object_on_a_known_path_takes_a_part_of_the_time() {
    // A policy for a path ends slow start at what that carries.
    let ssthresh = Some(known_segments());
    for queue in [0.1, 0.5] {
        for (bytes, most) in [(1_000_000, 0.45), (10_000_000, 0.5), (100_000_000, 0.75)] {
            let path = path(KNOWN_MBPS, RTT_MS, queue);
            let (cold_s, cold_lost) = seconds(path, &standard(false, ssthresh), bytes);
            let (warm_s, lost) = seconds(path, &standard(true, ssthresh), bytes);
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
    let mut world =
        World::new(path(KNOWN_MBPS, RTT_MS, 0.5), &[]).with(&standard(true, None), 1, 0.0);
    // The first window, the jump, and what its ACKs let out.
    let mut most_ms: f64 = 0.0;
    for tenth in 1..40 {
        world.run(f64::from(tenth) * RTT_MS / 1e4);
        most_ms = most_ms.max(world.queue_seconds() * 1e3);
    }
    println!("{most_ms:.1} ms");
    assert!(most_ms < RTT_MS / 10.0, "{most_ms}");
}

/// A path that carries what is known, or more by now, is filled sooner than slow start does, and
/// without its overshoot.
#[test]
fn a_path_that_carries_as_much_or_more_is_filled() {
    for times in [1.0, 4.0] {
        let path = path(KNOWN_MBPS * times, RTT_MS, 0.5);
        // As a card that holds packets back has them acknowledged.
        let moderated = Path { moderation_ns: 100_000, ..path };
        for path in [path, moderated] {
            let (cold_s, cold_lost) = seconds(path, &standard(false, None), 200_000_000);
            let (warm_s, lost) = seconds(path, &standard(true, None), 200_000_000);
            println!("{times} of it: {warm_s:.2} s for {cold_s:.2} s, lost {lost} for {cold_lost}");
            assert!(warm_s < cold_s, "{times}: {warm_s} of {cold_s}");
            assert_eq!(lost, 0, "{times}");
        }
    }
}

/// A jump to half of what a path is known to carry, which carries a part of that now: all that
/// it lets out is that half, once; after the retreat it grows as slow start lets it from the
/// part of the pipe that was shown.
#[test]
fn wrong_knowledge_costs_no_more_than_the_jump() {
    for part in [0.5, 0.25, 0.1] {
        for queue in [0.1, 0.5, 1.0] {
            let path = path(KNOWN_MBPS * part, RTT_MS, queue);
            let carried = u64::from(segments(KNOWN_MBPS * part)) + path.queue_bytes / 1500;
            let jump = u64::from(known_segments() / 2);
            let mut world = World::new(path, &[]).with(&standard(true, None), 1, 0.0);
            // The first window, the jump, what the kernel finds out of it, and three more.
            world.run(7.0 * RTT_MS / 1e3);
            let lost = world.flows[0].lost();
            println!("{part} of it, queue {queue} BDP: {lost} lost of {jump}, holds {carried}");
            let bound = jump.max(carried);
            assert!(lost <= bound, "{part} {queue}: {lost} of a jump to {jump}");
            // It has a fair use of the path after that.
            let before = world.flows[0].delivered();
            world.run(30.0);
            let got = mbps(&world, 0, before, 30.0 - 7.0 * RTT_MS / 1e3);
            println!("    then {got:.0} Mb/s of {:.0}", KNOWN_MBPS * part);
            assert!(got > 0.5 * KNOWN_MBPS * part, "{part} {queue}: {got}");
        }
    }
}

#[test]
fn beside_others_it_takes_no_more_from_them_than_slow_start_does() {
    let lost_of_others = |is_warm: bool| -> (u64, f64) {
        let cubic = sender(Algorithm::KernelCubic);
        let world = World::new(path(KNOWN_MBPS, RTT_MS, 1.0), &[]);
        let world = (0..4).fold(world, |world, n| world.with(&cubic, 1, f64::from(n) * 0.2));
        let mut world = world.with(&standard(is_warm, None), 1, 20.0);
        world.run(20.0);
        let sum = |world: &World| -> (u64, u64) {
            let others = &world.flows[..4];
            (others.iter().map(Flow::lost).sum(), others.iter().map(Flow::delivered).sum())
        };
        let before = sum(&world);
        world.run(30.0);
        let after = sum(&world);
        let mbps = (after.1 - before.1) as f64 * MSS_BYTES as f64 * 8.0 / 10.0 / 1e6;
        (after.0 - before.0, mbps)
    };
    let (cold_lost, cold_mbps) = lost_of_others(false);
    let (lost, mbps) = lost_of_others(true);
    println!("others: {lost} lost, {mbps:.0} Mb/s; beside slow start {cold_lost}, {cold_mbps:.0}");
    assert!(mbps > 0.85 * cold_mbps, "{mbps} of {cold_mbps}");
}
