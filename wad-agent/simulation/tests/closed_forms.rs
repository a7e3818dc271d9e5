//! Figures of whole runs are those that theory has for them.

use paths::{mbps, path, sender};
use wad_common::{
    control::{Control, Pacing, WindowSize},
    law::aimd::{Aimd, ONE_Q16},
};
use wad_simulation::{Algorithm, Outcome, Path, Sender, Setup, World, simulate};

mod paths;

/// AIMD: `a` segments for each RTT; a loss leaves so many per cent.
fn aimd(increase_segments: u32, keep_percent: u32) -> Sender {
    let keep_q16 = (keep_percent * ONE_Q16).div_ceil(100);
    let aimd = Aimd { increase_q16: increase_segments * ONE_Q16, keep_q16 };
    Sender::new(Algorithm::Aimd, Control { aimd, ..Control::STANDARD })
}

/// Returns the mean of a flow's window by time, in steps of a third of an RTT.
fn mean_window(world: &mut World, rtt_ms: f64, (from_s, to_s): (f64, f64)) -> f64 {
    world.run(from_s);
    let (mut sum, mut looks, mut at_s) = (0.0, 0.0, from_s);
    while at_s < to_s {
        at_s += rtt_ms / 3e3;
        world.run(at_s);
        sum += f64::from(world.flows[0].tcp().cwnd_segments);
        looks += 1.0;
    }
    sum / looks
}

/// Where the queue never runs empty an RTT is as long as its window, and a window W of saw teeth
/// from k W up to W is (2/3) (1 - k^3) / (1 - k^2) W by time.
#[test]
fn saw_teeth_are_as_high_as_they_should_be() {
    for (increase, keep_percent) in [(1, 50), (6, 70), (2, 88)] {
        let path = path(50.0, 40.0, 1.2);
        let most = f64::from((path.bdp_bytes() / 1500.0) as u32) + path.queue_bytes as f64 / 1500.0;
        let k = f64::from(keep_percent) / 100.0;
        let expected = 2.0 / 3.0 * (1.0 - k.powi(3)) / (1.0 - k * k) * most;
        let mut world = World::new(path, &[]).with(&aimd(increase, keep_percent), 1, 0.0);
        let mean = mean_window(&mut world, 40.0, (60.0, 360.0));
        let ratio = mean / expected;
        println!("AIMD({}, {increase}): {mean:.0} segments, not {expected:.0}", 1.0 - k);
        assert!((0.96..1.04).contains(&ratio), "{ratio}");
        let rate = mbps(&world, 0, 0, world.now_seconds());
        assert!(rate > 0.97 * 50.0 * 1448.0 / 1500.0, "{rate}");
    }
}

/// The response functions: 1.22 / sqrt(p) (RFC 3649 section 1) and 0.12 / p^0.835 (section 5);
/// Scalable TCP's 0.08 / p (Kelly 2003). They are of losses at equal distances; at random
/// ones windows are wider.
#[test]
fn windows_under_losses_are_those_of_the_response_functions() {
    for (algorithm, loss, expected) in [
        (Algorithm::Reno, 1e-3, 38.6),
        (Algorithm::Reno, 1e-4, 122.0),
        (Algorithm::HighSpeed, 1e-4, 263.0),
        (Algorithm::HighSpeed, 1e-5, 1795.0),
        (Algorithm::HighSpeed, 1e-6, 12_279.0),
        (Algorithm::Scalable, 1e-3, 80.0),
        (Algorithm::Scalable, 1e-4, 800.0),
    ] {
        // As many losses, at any rate, on a path that is never full.
        let every = (1.0 / loss) as u64;
        let lose: Vec<u64> = (1..400).map(|number| number * every).collect();
        let rtt_ms = 100.0;
        let rate_mbps = 20.0 * expected * 1500.0 * 8.0 / rtt_ms / 1e3;
        let rtts = 250.0 * every as f64 / expected;
        let end_s = rtts * rtt_ms / 1e3;
        let path = Path::new(rate_mbps * 1e6, rtt_ms / 1e3, 1 << 40);
        let mut world = World::new(path, &lose).with(&sender(algorithm), 1, 0.0);
        let mean = mean_window(&mut world, rtt_ms, (end_s / 10.0, end_s));
        println!("{algorithm:?} at {loss:e}: {mean:.0} segments, not {expected:.0}");
        assert!((0.85..1.15).contains(&(mean / expected)), "{algorithm:?} {loss:e}: {mean}");
    }
}

#[test]
fn two_that_are_alike_have_the_same() {
    for algorithm in
        [Algorithm::Reno, Algorithm::Aimd, Algorithm::KernelCubic, Algorithm::HighSpeed]
    {
        let path = Path::new(100e6, 0.02, 125_000).for_flows(2);
        let lose = Vec::new();
        let setup = Setup { path, sender: sender(algorithm), flows: 2, seconds: 120.0, lose };
        let outcome = simulate(&setup);
        let jain = outcome.jain().unwrap();
        assert!(jain > 0.95, "{algorithm:?}: {jain}");
        assert!(outcome.last_half_bits_per_second > 0.9 * path.carries_bits_per_second());
    }
}

/// All that is lost of one flight is one congestion event (RFC 5681 section 4.3).
#[test]
fn one_flight_is_reduced_once() {
    for lose in [vec![5_000], (5_000..5_100).step_by(3).collect()] {
        let lost = lose.len() as u64;
        let ssthresh = WindowSize { segments: 1_000, bytes: 0 };
        let control = Control { initial_ssthresh: ssthresh, ..Control::STANDARD };
        let path = path(622.0, 40.0, 1.0);
        let mut world =
            World::new(path, &lose).with(&Sender::new(Algorithm::Aimd, control), 1, 0.0);
        world.run(2.0);
        let flow = &world.flows[0];
        assert_eq!((flow.lost(), flow.resent()), (lost, lost));
        let window = flow.tcp().cwnd_segments;
        // Half of a thousand, and one for each of the 45 RTTs since.
        assert!((500..=550).contains(&window), "{lost}: {window}");
        let decrease = flow.last_decrease().unwrap();
        assert!((1_000..1_010).contains(&decrease.window_segments), "{decrease:?}");
    }
}

#[test]
fn a_path_of_ones_own_has_its_rate() {
    let control = Control {
        max_cwnd: WindowSize { segments: 0, bytes: 6_220_000 },
        dedicated_bytes_per_second: (622e6 / 8.0 * 0.95) as u64,
        ..Control::STANDARD
    };
    let path = Path { loss: 1e-4, ..path(622.0, 80.0, 0.1) };
    let mut world = World::new(path, &[]).with(&Sender::new(Algorithm::Dedicated, control), 1, 0.0);
    world.run(10.0);
    let rate = mbps(&world, 0, 0, 10.0);
    assert!((0.97..1.0).contains(&(rate / (622.0 * 0.95))), "{rate}");
}

/// A flow has what 3 MiB of window carry, whatever the law would.
#[test]
fn buffers_bound_a_flow() {
    let sender = Sender { most_window_bytes: 3 << 20, ..sender(Algorithm::KernelCubic) };
    let mut world = World::new(path(2500.0, 120.0, 0.25), &[]).with(&sender, 1, 0.0);
    world.run(5.0);
    let before = world.flows[0].delivered();
    world.run(15.0);
    let (rate, expected) = (mbps(&world, 0, before, 10.0), f64::from(3 << 20) * 8.0 / 0.12 / 1e6);
    assert!((0.98..1.001).contains(&(rate / expected)), "{rate} of {expected}");
}

fn one_by_one(setup: &Setup) -> Outcome {
    simulate(&Setup { path: Path { moderation_ns: 0, ..setup.path }, ..setup.clone() })
}

/// Trains change rates by less than a hundredth. Where nothing is paced, what is acknowledged
/// together is sent in one burst: of a queue of 300 packets 100 us are a fifteenth.
#[test]
fn trains_go_as_their_segments_would() {
    let off = Control { pacing: Pacing::Off as u32, ..Control::STANDARD };
    let limited = Control { max_ssthresh_segments: 200, ..Control::STANDARD };
    let known = Control {
        initial_ssthresh: WindowSize { segments: 0, bytes: 37_500_000 },
        ..Control::STANDARD
    };
    // In rapid start, the window at a loss differs by more.
    let mut doubling = aimd(6, 70);
    doubling.policy.control.initial_ssthresh = WindowSize { segments: 0, bytes: 6_220_000 };
    for (path, sender, seconds, most) in [
        (Path::new(622e6, 0.08, 6_220_000), doubling, 12.0, 0.01),
        (Path::new(622e6, 0.08, 6_220_000), sender(Algorithm::KernelCubic), 12.0, 0.01),
        (Path::new(2.5e9, 0.12, 9_375_000), Sender::new(Algorithm::HighSpeed, known), 10.0, 0.01),
        (Path::new(2.5e9, 0.075, 450_000), Sender::new(Algorithm::Aimd, limited), 6.0, 0.01),
        (Path::new(2.5e9, 0.075, 450_000), Sender::new(Algorithm::Aimd, off), 6.0, 0.07),
        (Path::new(10e9, 0.01, 12_500_000), sender(Algorithm::Scalable), 3.0, 0.01),
    ] {
        // On the shortest queues one loss more would be another course.
        let lose = if path.queue_bytes > 1_000_000 { vec![3_000] } else { Vec::new() };
        let setup = Setup { path, sender, flows: 1, seconds, lose };
        let (trains, single) = (simulate(&setup), one_by_one(&setup));
        let ratio = trains.bits_per_second / single.bits_per_second;
        println!(
            "{:?} at {:.0} Mb/s: {ratio:.4}, lost {} for {}",
            sender.algorithm,
            path.bits_per_second / 1e6,
            trains.lost_segments,
            single.lost_segments,
        );
        assert!((ratio - 1.0).abs() < most, "{ratio}");
    }
}

/// A window that triples has sent 1 MB, which is 691 segments, in its fifth round (10, 30, 90, 270),
/// and one that doubles in its seventh.
#[test]
fn an_object_takes_two_rounds_less_where_the_window_triples() {
    const BYTES: f64 = 1e6;
    let path = path(600.0, 120.0, 0.5);
    let rounds = |control| {
        let sender = Sender::new(Algorithm::Cubic, control);
        let mut world = World::new(path, &[]).with(&sender, 1, 0.0);
        let segments = BYTES / f64::from(path.mss_bytes());
        while (world.arrived(0) as f64) < segments {
            world.run(world.now_seconds() + 0.001);
        }
        (world.now_seconds() / 0.12, world.flows[0].lost())
    };
    let (rapid, lost) = rounds(Control::STANDARD);
    let (doubling, _) = rounds(Control { pacing: Pacing::Off as u32, ..Control::STANDARD });
    println!("{rapid:.2} rounds, and {doubling:.2}");
    assert!((4.5..5.0).contains(&rapid), "{rapid}");
    assert!((6.5..7.0).contains(&doubling), "{doubling}");
    assert_eq!(lost, 0);
}
