use proptest::prelude::*;
use wad_common::{arrivals::Arrivals, event::Event, flow::Flow, progress::Limits};
use wad_policy::config::Source;
use wad_tuning::bpf::testing::event;

use super::*;

const START: f64 = 1_700_000_000.0;
const TICKS_PER_SECOND: u32 = 250;

fn passive(interval_seconds: u64) -> Passive {
    Passive::new(&Source { interval: Duration::from_secs(interval_seconds), ..Source::passive() })
}

/// A path and what is known of it.
struct Bench {
    passive: Passive,
    now_seconds: f64,
}

impl Bench {
    fn new() -> Self {
        Self { passive: passive(30), now_seconds: START }
    }

    /// The bandwidth that is known then, and since when.
    fn shows(&mut self, mbit: f64, is_free: bool) -> (f64, f64) {
        let shown = Shown { bits_per_second: Some(mbit * 1e6), rtt_seconds: None, is_free };
        let readings = self.passive.take(0, shown, self.now_seconds, |_| None);
        let [Reading { target: 0, metric: Metric::Bandwidth, sample }] = readings[..] else {
            panic!("{readings:?}");
        };
        (sample.value / 1e6, sample.measured_at_seconds - START)
    }

    fn after(&mut self, seconds: f64) -> &mut Self {
        self.now_seconds += seconds;
        self
    }
}

/// 100 Mbit/s at 100 ms, at the end of a second in which all that was done.
fn flow(second: u32) -> Progress {
    Progress {
        cookie: 7,
        bytes_acked: u64::from(second) * 12_500_000,
        bytes_received: 0,
        arrived_bytes_per_second: 0,
        policy: 3,
        delivered_segments: 1_000,
        delivered_in_us: 100_000,
        app_limited: 0,
        min_rtt_us: 100_000,
        receiving_rtt_us: 0,
        mss_bytes: 1_250,
        cwnd_segments: 1_000,
        ssthresh_segments: 800,
        limits: Limits { busy_ticks: second * TICKS_PER_SECOND, ..Limits::default() },
        ticks: u32::MAX.wrapping_add(second * TICKS_PER_SECOND),
        reserved: 0,
    }
}

/// The same from the other end: it asked once, and all comes this way.
fn receiving(second: u32) -> Progress {
    Progress {
        bytes_acked: 200,
        bytes_received: u64::from(second) * 12_500_000,
        arrived_bytes_per_second: 12_500_000,
        receiving_rtt_us: 140_000,
        delivered_segments: 1,
        ..flow(second)
    }
}

/// Returns what two looks at these flows show, a second apart.
fn seen(before: &[Progress], now: &[Progress]) -> HashMap<u32, Shown> {
    let (mut passive, start) = (passive(1), Instant::now());
    assert!(passive.is_due(start));
    assert_eq!(passive.look(before.to_vec(), start), HashMap::new());
    assert!(!passive.is_due(start + Duration::from_millis(999)));
    assert!(passive.is_due(start + Duration::from_secs(1)));
    passive.look(now.to_vec(), start + Duration::from_secs(1))
}

fn seen_of_one(before: Progress, now: Progress) -> Option<Shown> {
    seen(&[before], &[now]).remove(&3)
}

#[test]
fn a_flow_that_only_the_path_holds_back_is_free() {
    let shown = Shown { bits_per_second: Some(100e6), rtt_seconds: Some(0.1), is_free: true };
    assert_eq!(seen_of_one(flow(1), flow(2)), Some(shown));
    let is_free = |now| seen_of_one(flow(1), now).unwrap().is_free;
    assert!(!is_free(Progress { app_limited: 1, ..flow(2) }));
    // On its way up.
    assert!(!is_free(Progress { ssthresh_segments: 1_001, ..flow(2) }));
    // Idle now and then, or held back by the peer's window or its own buffer.
    let limits = Limits { busy_ticks: TICKS_PER_SECOND + 200, ..Limits::default() };
    assert!(!is_free(Progress { limits, ..flow(2) }));
    let limits = Limits { busy_ticks: TICKS_PER_SECOND + 240, rwnd_ticks: 10, sndbuf_ticks: 0 };
    assert!(is_free(Progress { limits, ..flow(2) }));
}

#[test]
fn what_has_not_moved_shows_nothing() {
    let still = Progress { bytes_acked: flow(1).bytes_acked, ..flow(2) };
    assert_eq!(seen_of_one(flow(1), still), None);
    // It came under another path.
    assert_eq!(seen(&[flow(1)], &[Progress { policy: 4, ..flow(2) }]), HashMap::new());
    // Its first look: who knows how long its bytes took. But it has just made its handshake.
    let handshake = Shown { rtt_seconds: Some(0.1), ..Shown::default() };
    assert_eq!(seen(&[], &[flow(2)]), HashMap::from([(3, handshake)]));
    assert_eq!(seen(&[], &[Progress { min_rtt_us: u32::MAX, ..flow(2) }]), HashMap::new());
}

#[test]
fn a_flow_that_only_receives_shows_what_arrives_and_frees_nothing() {
    let shown = Shown { bits_per_second: Some(100e6), rtt_seconds: Some(0.14), is_free: false };
    assert_eq!(seen_of_one(receiving(1), receiving(2)), Some(shown));
    // The best second counts, and no RTT where the sender paused.
    let paused = Progress { arrived_bytes_per_second: 50_000_000, ..receiving(2) };
    let shown = Shown { bits_per_second: Some(400e6), rtt_seconds: None, is_free: false };
    assert_eq!(seen_of_one(receiving(1), paused), Some(shown));
    // It sends again: what is acknowledged then is as good as the handshake.
    let asks = Progress { bytes_acked: 400, ..receiving(2) };
    assert_eq!(seen_of_one(receiving(1), asks).unwrap().rtt_seconds, Some(0.1));
    // No less than what was acknowledged, which may be nothing.
    let rtt = |now| seen_of_one(receiving(1), now).unwrap().rtt_seconds;
    assert_eq!(rtt(Progress { receiving_rtt_us: 5_000, ..receiving(2) }), Some(0.1));
    assert_eq!(rtt(Progress { min_rtt_us: u32::MAX, ..receiving(2) }), Some(0.14));
    assert_eq!(rtt(Progress { receiving_rtt_us: 0, ..receiving(2) }), None);
    // Nothing came.
    let still = Progress { bytes_received: receiving(1).bytes_received, ..receiving(2) };
    assert_eq!(seen_of_one(receiving(1), still), None);
}

#[test]
fn flows_that_receive_count_together() {
    let others = |second| [7, 8, 9].map(|cookie| Progress { cookie, ..receiving(second) });
    let shown = seen(&others(1), &others(2))[&3];
    assert!((shown.bits_per_second.unwrap() - 300e6).abs() < 1e6, "{shown:?}");
}

#[test]
fn a_receivers_end_shows_its_best_second_or_its_whole_life() {
    let end = |received, most_bytes_per_second, min_rtt_us| {
        let arrivals = Arrivals { most_bytes_per_second, ..Arrivals::default() };
        let flow = Flow { arrivals, ..event().flow };
        let sent = Event { delivered_segments: 1, bytes_acked: 200, ..event() };
        let event = Event { flow, bytes_received: received, min_rtt_us, ..sent };
        let shown = Shown::at_end(&event);
        (shown.bits_per_second.unwrap().round(), shown.rtt_seconds)
    };
    // It lived for 16.0004 s.
    assert_eq!(end(16_000_400, 0, 100_000), (8e6, Some(0.1)));
    assert_eq!(end(16_000_400, 9_000_000, 100_000), (72e6, Some(0.1)));
    // In less than a round trip nothing was measured.
    assert_eq!(end(2_000_000, 0, 32_000_000), (5e5, Some(32.0)));
    // Its handshake is long ago.
    let long = Event { time_ns: 2_000_000_000_000, ..event() };
    assert_eq!(Shown::at_end(&long).rtt_seconds, Some(0.070_001));
    let long = Event { bytes_received: 2_000_000_000, ..long };
    assert_eq!(Shown::at_end(&long).rtt_seconds, None);
}

#[test]
fn what_arrives_raises_what_is_known_and_never_lowers_it() {
    let mut bench = Bench::new();
    bench.shows(60.0, false);
    // The window was the limit: with twice as much there is more.
    assert_eq!(bench.after(30.0).shows(120.0, false).0, 120.0);
    for _ in 0..100 {
        assert_eq!(bench.after(30.0).shows(7.0, false).0, 120.0);
    }
}

#[test]
fn what_one_path_shows_is_no_other_paths() {
    let mut bench = Bench::new();
    bench.shows(100.0, true);
    let huge = Shown { bits_per_second: Some(9e11), rtt_seconds: Some(9.0), is_free: true };
    let readings = bench.passive.take(1, huge, START, |_| None);
    assert!(readings.iter().all(|reading| reading.target == 1), "{readings:?}");
    assert_eq!(bench.after(30.0).shows(100.0, true).0, 100.0);
    // Nor where both are looked at together.
    let of = |second, policy: u32| Progress { cookie: policy.into(), policy, ..flow(second) };
    let fast = Progress { delivered_segments: u32::MAX, ..of(2, 4) };
    let shown = seen(&[of(1, 3), of(1, 4)], &[of(2, 3), fast]);
    assert_eq!(shown[&3].bits_per_second, Some(100e6));
    assert!(shown[&4].bits_per_second.unwrap() > 1e12);
}

#[test]
fn flows_of_a_path_count_together() {
    let others = |second| [7, 8, 9].map(|cookie| Progress { cookie, ..flow(second) });
    let shown = seen(&others(1), &others(2))[&3];
    assert!((shown.bits_per_second.unwrap() - 300e6).abs() < 1e6, "{shown:?}");
}

#[test]
fn a_flow_at_its_end_shows_the_rate_that_it_had() {
    let shown = Shown::at_end(&event());
    // 3,759 segments of 1,448 bytes in 70.09 ms.
    assert_eq!((shown.bits_per_second.unwrap() / 1e6).round(), 621.0);
    assert_eq!((shown.rtt_seconds, shown.is_free), (Some(0.070_001), false));
    // It never sent, or was never answered.
    let silent = Event { bytes_received: 0, ..event() };
    let nothing = Event { delivered_segments: 0, min_rtt_us: u32::MAX, ..silent };
    assert_eq!(Shown::at_end(&nothing), Shown::default());
    let nothing = Event { delivered_in_us: 0, min_rtt_us: 0, ..silent };
    assert_eq!(Shown::at_end(&nothing), Shown::default());
}

#[test]
fn a_higher_rate_counts_whoever_it_comes_from() {
    let mut bench = Bench::new();
    assert_eq!(bench.shows(100.0, false), (100.0, 0.0));
    assert_eq!(bench.after(10.0).shows(200.0, false), (200.0, 10.0));
    // As good, hence as new.
    assert_eq!(bench.after(10.0).shows(195.0, false), (200.0, 20.0));
    assert_eq!(bench.after(10.0).shows(300.0, true), (300.0, 30.0));
}

#[test]
fn a_flow_that_something_else_holds_back_never_lowers_it() {
    let mut bench = Bench::new();
    bench.shows(900.0, true);
    for _ in 0..10_000 {
        assert_eq!(bench.after(30.0).shows(5.0, false), (900.0, 0.0));
    }
}

#[test]
fn what_is_too_old_to_count_is_in_nobodys_way() {
    let mut bench = Bench::new();
    bench.shows(900.0, true);
    let eight_days = 8.0 * 86_400.0;
    assert_eq!(bench.after(eight_days).shows(5.0, false), (900.0, 0.0));
    assert_eq!(bench.after(1.0).shows(5.0, false), (5.0, eight_days + 1.0));
}

#[test]
fn a_path_that_has_become_slower_is_seen_after_a_window() {
    let mut bench = Bench::new();
    bench.shows(900.0, true);
    let mut lowered = None;
    for n in 1..=30 {
        let mbit = if n % 2 == 0 { 300.0 } else { 250.0 };
        let (known, _) = bench.after(30.0).shows(mbit, true);
        if known < 900.0 && lowered.is_none() {
            lowered = Some((n, known));
        }
        assert!(lowered.is_none() || known == 300.0, "{known}");
    }
    // The window begins with the first that is worse.
    assert_eq!(lowered, Some((11, 300.0)));
}

#[test]
fn one_good_flow_in_a_window_keeps_it() {
    let mut bench = Bench::new();
    bench.shows(900.0, true);
    for n in 1..100 {
        let mbit = if n % 9 == 0 { 880.0 } else { 250.0 };
        assert_eq!(bench.after(30.0).shows(mbit, true).0, 900.0);
    }
}

#[test]
fn a_clock_that_is_set_back_does_no_harm() {
    let mut bench = Bench::new();
    bench.shows(900.0, true);
    bench.after(30.0).shows(300.0, true);
    bench.after(-1e9).shows(300.0, true);
    for _ in 0..9 {
        assert_eq!(bench.after(30.0).shows(300.0, true).0, 900.0);
    }
    assert_eq!(bench.after(30.0).shows(300.0, true).0, 300.0);
}

#[test]
fn the_least_rtt_of_a_window_counts() {
    let mut bench = Bench::new();
    let rtt = |bench: &mut Bench, ms: f64| {
        let shown = Shown { rtt_seconds: Some(ms / 1e3), ..Shown::default() };
        let readings = bench.passive.take(0, shown, bench.now_seconds, |_| None);
        (readings[0].sample.value * 1e3).round()
    };
    assert_eq!(rtt(&mut bench, 50.0), 50.0);
    assert_eq!(rtt(&mut bench, 20.0), 20.0);
    for _ in 0..10 {
        assert_eq!(rtt(bench.after(30.0), 120.0), 20.0);
    }
    assert_eq!(rtt(bench.after(30.0), 120.0), 120.0);
}

#[test]
fn what_is_known_from_before_is_not_lost() {
    let mut bench = Bench::new();
    let known = Sample { value: 900e6, measured_at_seconds: START - 5.0, is_least: false };
    let shown = Shown { bits_per_second: Some(5e6), ..Shown::default() };
    let readings = bench.passive.take(0, shown, START, |_| Some(known));
    assert_eq!(readings[0].sample, known);
    // And what no path can have is not taken.
    let shown = Shown { bits_per_second: Some(1e30), ..Shown::default() };
    assert_eq!(bench.passive.take(0, shown, START, |_| None), []);
}

proptest! {
    /// Whatever comes, the estimate is one of the values that came, and held-back
    /// flows never lower it.
    #[test]
    fn an_estimate_is_a_sample(
        samples in prop::collection::vec((0.0_f64..900.0, 1.0_f64..1e4, any::<bool>()), 1..200)
    ) {
        let (mut bench, mut known) = (Bench::new(), 0.0);
        for (wait_seconds, mbit, is_free) in &samples {
            let (now, _) = bench.after(*wait_seconds).shows(*mbit, *is_free);
            prop_assert!(samples.iter().any(|(_, mbit, _)| (now - mbit).abs() < 1e-6));
            prop_assert!(*is_free || now >= known);
            prop_assert!(now >= mbit * (1.0 - 1e-9));
            known = now;
        }
    }
}
