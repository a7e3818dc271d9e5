//! The law by delay is run over a simulated bottleneck, packet by packet: alone, beside
//! others of its kind, when the route changes, and with losses. Rates are parts of the
//! path's, times in seconds unless named otherwise.

use std::fmt::Write as _;

use paths::{MSS_BYTES, mbps, path, sender};
use wad_common::control::Control;
use wad_simulation::{Algorithm, Flow, Path, Sender, World};

mod curves;
mod paths;

/// A flow that is to keep so much queued; 0 leaves that to the law.
fn delay(standing_queue_segments: u32) -> Sender {
    Sender::new(Algorithm::Delay, Control { standing_queue_segments, ..Control::STANDARD })
}

/// Holds what was seen in a span of time.
struct Seen {
    /// Part of the path's rate that each flow had.
    shares: Vec<f64>,
    lost: u64,
    mean_queue_ms: f64,
    most_queue_ms: f64,
}

/// Runs the world on for so long.
fn watch(world: &mut World, rate_mbps: f64, seconds: f64) -> Seen {
    const STEP: f64 = 0.01;
    let begun = world.now_seconds();
    let before: Vec<u64> = world.flows.iter().map(Flow::delivered).collect();
    let lost_before: u64 = world.flows.iter().map(Flow::lost).sum();
    let steps = (seconds / STEP) as u32;
    let (mut sum_ms, mut most_ms) = (0.0, 0.0_f64);
    for step in 1..=steps {
        world.run(begun + f64::from(step) * STEP);
        let queue_ms = world.queue_seconds() * 1e3;
        sum_ms += queue_ms;
        most_ms = most_ms.max(queue_ms);
    }
    let carries_mbps = rate_mbps * MSS_BYTES as f64 / 1500.0;
    let shares = before
        .iter()
        .enumerate()
        .map(|(n, delivered)| mbps(world, n, *delivered, seconds) / carries_mbps)
        .collect();
    Seen {
        shares,
        lost: world.flows.iter().map(Flow::lost).sum::<u64>() - lost_before,
        mean_queue_ms: sum_ms / f64::from(steps),
        most_queue_ms: most_ms,
    }
}

#[test]
fn alone_it_fills_the_path_with_the_queue_it_is_to_keep_and_loses_nothing() {
    for (rate_mbps, rtt_ms, queues_segments) in [
        (100.0, 40.0, [10, 30]),
        (622.0, 20.0, [20, 50]),
        (622.0, 120.0, [20, 50]),
        // More than the 44 that the host sends at once.
        (2500.0, 120.0, [60, 200]),
    ] {
        for queue_segments in queues_segments {
            let path = path(rate_mbps, rtt_ms, 0.5);
            let mut world = World::new(path, &[]).with(&delay(queue_segments), 1, 0.0);
            let start = watch(&mut world, rate_mbps, 8.0);
            // Two drains are in it.
            let settled = watch(&mut world, rate_mbps, 25.0);
            let wanted_ms = f64::from(queue_segments) * 12.0 / rate_mbps;
            let case = format!(
                "{rate_mbps} Mb/s, {rtt_ms} ms, {queue_segments} segments: {:?} of the rate, \
                 queue {:.2} ms, {:.2} at most, {:.2} in the start, not {wanted_ms:.2}",
                settled.shares, settled.mean_queue_ms, settled.most_queue_ms, start.most_queue_ms,
            );
            assert_eq!(start.lost + settled.lost, 0, "{case}");
            assert!(settled.shares[0] > 0.98, "{case}");
            assert!((0.7..1.3).contains(&(settled.mean_queue_ms / wanted_ms)), "{case}");
            // A window that comes back after a drain is a 30th of the path, for a while.
            assert!(settled.most_queue_ms < 2.0 * wanted_ms + rtt_ms / 30.0, "{case}");
        }
    }
}

/// The queue is looked at once slow start, which is longer than such a queue, is over.
#[test]
fn its_own_choice_fits_in_a_queue_of_a_tenth_of_the_path() {
    for (rate_mbps, rtt_ms) in [(100.0, 40.0), (622.0, 20.0), (622.0, 120.0), (2500.0, 120.0)] {
        let path = path(rate_mbps, rtt_ms, 0.1);
        let mut world = World::new(path, &[]).with(&delay(0), 1, 0.0);
        watch(&mut world, rate_mbps, 8.0);
        let seen = watch(&mut world, rate_mbps, 25.0);
        let case = format!("{rate_mbps} Mb/s, {rtt_ms} ms: {:?}", seen.shares);
        assert_eq!(seen.lost, 0, "{case}");
        assert!(seen.shares[0] > 0.98, "{case}");
    }
}

#[test]
fn two_flows_share_whoever_comes_first() {
    for (rate_mbps, rtts_ms) in [
        (100.0, [40.0, 40.0]),
        (622.0, [20.0, 20.0]),
        (622.0, [120.0, 120.0]),
        (622.0, [120.0, 60.0]),
    ] {
        let mut world = World::new(path(rate_mbps, rtts_ms[0], 1.0), &[])
            .with(&delay(0), 1, 0.0)
            .with_rtt(&delay(0), 1, (10.0, (rtts_ms[1] * 1e6) as u64));
        watch(&mut world, rate_mbps, 60.0);
        let seen = watch(&mut world, rate_mbps, 30.0);
        let case = format!("{rate_mbps} Mb/s, {rtts_ms:?} ms: {:?}", seen.shares);
        assert_eq!(seen.lost, 0, "{case}");
        let [first, last] = seen.shares[..] else { panic!("{case}") };
        assert!(first + last > 0.97, "{case}");
        assert!((0.5..=2.0).contains(&(first / last)), "{case}");
    }
}

#[test]
fn eight_flows_share_and_keep_three_times_what_one_keeps() {
    let world = World::new(path(622.0, 50.0, 0.5), &[]);
    let mut world = (0..8).fold(world, |world, n| world.with(&delay(0), 1, f64::from(n)));
    watch(&mut world, 622.0, 60.0);
    let seen = watch(&mut world, 622.0, 30.0);
    assert_eq!(seen.lost, 0);
    assert!(seen.shares.iter().sum::<f64>() > 0.97, "{:?}", seen.shares);
    assert!(seen.shares.iter().all(|share| (0.06..0.25).contains(share)), "{:?}", seen.shares);
    // One keeps 1.2 ms of it.
    assert!(seen.mean_queue_ms < 4.0, "{}", seen.mean_queue_ms);
}

/// The base RTT is ten seconds old at most, whether it becomes more or less.
#[test]
fn a_change_of_the_route_is_survived() {
    for (before_ms, after_ms) in [(60.0, 90.0), (90.0, 60.0)] {
        let before_ns = (before_ms * 1e6) as u64;
        let mut world =
            World::new(path(200.0, 60.0, 1.0), &[]).with_rtt(&delay(30), 1, (0.0, before_ns));
        watch(&mut world, 200.0, 12.0);
        world.flows[0].rtt_ns = (after_ms * 1e6) as u64;
        watch(&mut world, 200.0, 14.0);
        let seen = watch(&mut world, 200.0, 20.0);
        let case = format!(
            "{before_ms} to {after_ms} ms: {:?}, queue {:.2} ms",
            seen.shares, seen.mean_queue_ms
        );
        assert_eq!(seen.lost, 0, "{case}");
        assert!(seen.shares[0] > 0.97, "{case}");
        assert!((0.7..1.5).contains(&(seen.mean_queue_ms / (30.0 * 0.06))), "{case}");
    }
}

/// A loss halves the window; a sixteenth for each RTT leads back.
#[test]
fn after_a_loss_it_is_back_within_twenty_rtts() {
    let mut world = World::new(path(200.0, 60.0, 0.5), &[]).with(&delay(30), 1, 0.0);
    watch(&mut world, 200.0, 6.0);
    let full = world.flows[0].tcp().cwnd_segments;
    world.lose_next();
    let mut least = full;
    let begun = world.now_seconds();
    for rtt in 1..=4 {
        world.run(begun + 0.06 * f64::from(rtt));
        least = least.min(world.flows[0].tcp().cwnd_segments);
    }
    assert!((full * 2 / 5..=full * 3 / 5).contains(&least), "{least} of {full}");
    watch(&mut world, 200.0, 1.2);
    let seen = watch(&mut world, 200.0, 2.0);
    assert!(seen.shares[0] > 0.97, "{:?}", seen.shares);
    assert_eq!(seen.lost, 0);
}

/// The law fares as all control by delay does: what is left beside a flow that fills
/// the queue is little where the queue is long, and it is no standstill.
#[test]
fn beside_flows_that_fill_the_queue_it_gets_little_and_takes_nothing() {
    let mut world = World::new(path(622.0, 40.0, 1.0), &[])
        .with(&sender(Algorithm::KernelCubic), 1, 0.0)
        .with(&delay(0), 1, 5.0);
    watch(&mut world, 622.0, 20.0);
    let seen = watch(&mut world, 622.0, 20.0);
    let [cubic, delay] = seen.shares[..] else { panic!("{:?}", seen.shares) };
    assert!(cubic > 0.85 && (0.002..0.15).contains(&delay), "cubic {cubic}, delay {delay}");
}

/// A flow is joined by another after 8 s, as a curve to look at. It is compared with
/// the reviewed one in `curves/`.
#[test]
fn two_flows() {
    let mut world =
        World::new(path(200.0, 60.0, 0.5), &[]).with(&delay(0), 1, 0.0).with(&delay(0), 1, 8.0);
    let mut now = String::from(
        "wad_delay at 200 Mb/s and 60 ms, 1000 segments, joined by another at 8 s: mean and\n\
         most queue of each second, losses, and each one's window and part of the rate.\n\n  \
         s   mean ms   most ms  lost   cwnd  share   cwnd  share\n",
    );
    for second in 1..=30 {
        let seen = watch(&mut world, 200.0, 1.0);
        let Seen { mean_queue_ms, most_queue_ms, lost, .. } = seen;
        write!(now, "{second:>3} {mean_queue_ms:>9.2} {most_queue_ms:>9.2} {lost:>5}").unwrap();
        for (flow, share) in world.flows.iter().zip(seen.shares) {
            write!(now, " {:>6} {share:>6.3}", flow.tcp().cwnd_segments).unwrap();
        }
        now.push('\n');
    }
    curves::check("delay-two-flows", &now);
}

/// A flow that keeps a long queue is no better to others than one that takes more than
/// its share: `standing_queue` needs consent above a 20th of the path, by this.
#[test]
fn beside_cubic_a_20th_of_the_path_may_be_queued_and_a_tenth_may_not() {
    const RATE_MBPS: f64 = 100.0;
    for rtt_ms in [20.0, 120.0] {
        let bdp_segments = RATE_MBPS * 1e3 * rtt_ms / 8.0 / 1500.0;
        let queued = |parts: f64| delay((bdp_segments / parts) as u32);
        // What a CUBIC gets that comes late, beside the other.
        let cubic = sender(Algorithm::KernelCubic);
        let beside = |first: Sender, queue_bdp, seed| {
            let path = Path { seed, jitter_ns: 200_000, ..path(RATE_MBPS, rtt_ms, queue_bdp) };
            let mut world = World::new(path, &[]).with(&first, 1, 0.0).with(&cubic, 1, 5.0);
            watch(&mut world, RATE_MBPS, 30.0);
            watch(&mut world, RATE_MBPS, 60.0).shares[1]
        };
        let cubic_beside = |first: Sender, queue_bdp| {
            (1..=3).map(|seed| beside(first, queue_bdp, seed)).sum::<f64>() / 3.0
        };
        for queue_bdp in [0.1, 0.5, 1.0] {
            let fair = cubic_beside(cubic, queue_bdp);
            let beside_20th = cubic_beside(queued(20.0), queue_bdp);
            let case = format!("{rtt_ms} ms, {queue_bdp} BDP: {beside_20th}, not {fair}");
            assert!(beside_20th > 0.7 * fair, "{case}");
        }
        let (fair, beside_tenth) = (cubic_beside(cubic, 0.1), cubic_beside(queued(10.0), 0.1));
        assert!(beside_tenth < 0.5 * fair, "{rtt_ms} ms: {beside_tenth}, not {fair}");
    }
}
