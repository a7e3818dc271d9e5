use std::time::Duration;

use proptest::prelude::*;
use wad_common::{control::WindowSize, policy::PACED};
use wad_toolbox::clock::Moment;

use super::*;
use crate::config::{Config, Cut, CutBuffers, testing::host};

const MIB: u64 = 1 << 20;
/// Debian's.
const KERNEL: KernelBuffers = KernelBuffers { sndbuf_bytes: 4_194_304, rcvbuf_bytes: 6_291_456 };
const INTERVAL: Duration = Duration::from_secs(60);
const START: Moment = Duration::from_secs(1_000);

fn bounds() -> Bounds {
    Bounds::new(None, 1 << 40, KERNEL)
}

fn capacity(mbit: f64, rtt_ms: f64) -> Capacity {
    let (bits_per_second, rtt_seconds) = (Some(mbit * 1e6), Some(rtt_ms / 1e3));
    Capacity { bits_per_second, rtt_seconds, is_least: false }
}

/// A path with these keys, separated by `;`.
fn path(mode: &str, keys: &str) -> PathPolicy {
    let keys = keys.replace(';', "\n");
    let text = format!(
        "[[source]]\nname = 's'\nkind = 'prometheus'\nurl = 'http://[::1]:9090'\nrtt = 'rtt'\n\
         [[path]]\nname = 'p'\nremote = '10.0.0.0/8'\nallow = 'aggressive'\n\
         mode = '{mode}'\n{keys}\n"
    );
    let config = Config::parse("wad.toml", &text, &host()).unwrap_or_else(|e| panic!("{e}"));
    config.paths[0].clone()
}

const ALL: &str = "sndbuf = 'auto'; rcvbuf = 'auto'; initial_ssthresh = 'auto'; \
                   max_cwnd = 'auto'; additive_increase = 'auto'";

/// The one sizes by what the file says, the other by what is measured.
#[test]
fn what_is_measured_is_as_good_as_written_by_hand() {
    for (mbit, rtt_ms) in [(622.0, 70.0), (2500.0, 120.0), (10.0, 1.0)] {
        let line = format!("bandwidth = '{mbit}Mbit'; rtt = '{rtt_ms}ms'");
        let by_hand = path("static", &format!("{line}; {ALL}"));
        // Whatever the kernel gives by itself.
        let bounds = Bounds::new(None, 1 << 40, KernelBuffers::default());
        let measured = policy(&path("measured", ALL), capacity(mbit, rtt_ms), bounds);
        assert_eq!(PathPolicy { measured: None, ..measured }, by_hand);
    }
}

#[test]
fn room_for_the_kernels_autotuning_follows_as_buffers_do() {
    let measured = path("measured", "buffers = 'autotune'");
    let plan = policy(&measured, capacity(622.0, 70.0), bounds());
    assert_eq!(plan.autotune_bytes, Some(6_803_125));
    assert_eq!((plan.sndbuf_bytes, plan.rcvbuf_bytes), (None, None));
    assert_eq!(policy(&measured, Capacity::default(), bounds()).autotune_bytes, None);
}

#[test]
fn without_a_measurement_the_files_values_hold_or_the_kernels() {
    let line = "bandwidth = '622Mbit'; rtt = '70ms'";
    let known = path("measured", &format!("{line}; {ALL}"));
    let fallback = known.measured.unwrap().fallback;
    assert_eq!(policy(&known, fallback, bounds()), known);
    let unknown = path("measured", ALL);
    let plan = policy(&unknown, unknown.measured.unwrap().fallback, bounds());
    assert_eq!(plan, unknown);
    assert_eq!((plan.sndbuf_bytes, plan.rcvbuf_bytes), (None, None));
    assert_eq!(plan.control.max_cwnd, WindowSize::default());
}

#[test]
fn what_flows_got_may_double() {
    let nothing = Capacity::default();
    let path = path("measured", ALL);
    let plan = |mbit| policy(&path, with_room(capacity(mbit, 100.0), nothing, bounds()), bounds());
    // Twice 250 Mbit/s times 100 ms.
    let grown = plan(250.0);
    assert_eq!((grown.sndbuf_bytes, grown.rcvbuf_bytes), (Some(6_250_000), Some(6_250_000)));
    // As much as the kernel has for a sender, less than for a receiver.
    let half = plan(100.0);
    assert_eq!((half.sndbuf_bytes, half.rcvbuf_bytes), (Some(2_500_000), None));
    // The kernel has more by itself: nothing follows, not even a window.
    let small = PathPolicy { origin: path.origin.clone(), ..plan(10.0) };
    assert_eq!(PathPolicy { bdp_bytes: path.bdp_bytes, ..small }, path);
}

#[test]
fn what_flows_got_never_takes_away_from_what_the_file_says() {
    let file = capacity(1000.0, 100.0);
    let least = |mbit| with_room(capacity(mbit, 50.0), file, bounds());
    assert_eq!(least(300.0), capacity(1000.0, 50.0));
    assert_eq!(least(1000.0), Capacity { is_least: true, ..capacity(1600.0, 50.0) });
    let rtt_only = Capacity { bits_per_second: None, ..capacity(0.0, 50.0) };
    assert_eq!(with_room(rtt_only, file, bounds()), capacity(1000.0, 50.0));
    assert_eq!(with_room(Capacity::default(), file, bounds()), file);
}

#[test]
fn only_what_is_auto_follows() {
    let path = path("measured", "sndbuf = '1MiB'; rcvbuf = 'auto'; max_cwnd = 1000");
    let plan = policy(&path, capacity(622.0, 70.0), bounds());
    assert_eq!(plan.sndbuf_bytes, Some(1 << 20));
    assert_eq!(plan.rcvbuf_bytes, Some(6_803_125));
    assert_eq!(plan.control.max_cwnd.segments, 1000);
}

#[test]
fn buffers_are_for_as_many_streams() {
    let path = path("measured", "sndbuf = 'auto'; equivalent_streams = 4");
    let plan = policy(&path, capacity(622.0, 70.0), bounds());
    assert_eq!(plan.sndbuf_bytes, Some(4 * 6_803_125));
}

#[test]
fn no_measurement_goes_beyond_the_bounds() {
    let path = path("measured", ALL);
    let most = capacity(1e7, 60e3);
    for (bounds, by, bytes) in [
        (bounds(), Limit::Kernel, (1 << 30) - 1),
        (Bounds::new(Some(5_000_000), 1 << 40, KERNEL), Limit::MaxBuffer, 5_000_000),
        (Bounds::new(None, 64 * MIB, KERNEL), Limit::MaxMemory, 16 << 20),
    ] {
        let plan = policy(&path, most, bounds);
        assert_eq!(plan.sndbuf_bytes, Some(bytes));
        let cut = Some(Cut { from_bytes: 93_750_000_000_000, to: Most { bytes, by } });
        assert_eq!((plan.origin.cut.sndbuf, plan.origin.cut.rcvbuf), (cut, cut));
    }
    let little = policy(&path, capacity(622.0, 70.0), bounds());
    assert_eq!(little.origin.cut, CutBuffers::default());
    assert_eq!(policy(&path, most, bounds()).control.max_cwnd.bytes, u32::MAX);
}

#[test]
fn pacing_follows_what_is_measured_and_not_what_flows_got() {
    let rate =
        |path: &PathPolicy, capacity| policy(path, capacity, bounds()).max_pacing_bytes_per_second;
    let ours = path("measured", "pacing = 'auto'; congestion = 'wad_aimd'");
    assert_eq!(rate(&ours, capacity(1000.0, 20.0)), Some(150_000_000));
    let of_flows = Capacity { is_least: true, ..capacity(1000.0, 20.0) };
    assert_eq!(rate(&ours, of_flows), None);
    assert_eq!(rate(&ours, Capacity::default()), None);
    // More than what can be said to the kernel is no cap.
    assert_eq!(rate(&ours, capacity(40e3, 20.0)), None);
    let kernels = path("measured", "pacing = 'auto'; congestion = 'cubic'");
    assert_eq!(rate(&kernels, capacity(1000.0, 20.0)), Some(150_000_000));
    assert_eq!(rate(&kernels, capacity(40e3, 20.0)), Some(PACED));
    // What the file says is no measurement's.
    let fixed = path("measured", "pacing = '600Mbit'; sndbuf = 'auto'");
    assert_eq!(rate(&fixed, capacity(1000.0, 20.0)), Some(75_000_000));
    let known = path("measured", "pacing = 'auto'; bandwidth = '1Gbit'; congestion = 'wad_aimd'");
    assert_eq!(known.max_pacing_bytes_per_second, Some(150_000_000));
    assert_eq!(policy(&known, known.measured.unwrap().fallback, bounds()), known);
}

#[test]
fn a_change_of_the_rate_alone_is_one() {
    let rate = |mbit: f64| Capacity { bits_per_second: Some(mbit * 1e6), ..Capacity::default() };
    let mut damper = Damper::new(rate(1000.0));
    assert!(!damper.offer(rate(1090.0), START, INTERVAL));
    assert!(damper.offer(rate(2000.0), START, INTERVAL));
}

#[test]
fn a_change_that_matters_is_made_at_once_and_a_small_one_not_at_all() {
    let mut damper = Damper::new(capacity(1000.0, 20.0));
    assert!(!damper.offer(capacity(1000.0, 21.9), START, INTERVAL));
    assert!(damper.offer(capacity(1000.0, 120.0), START, INTERVAL));
    assert_eq!(damper.conditions().capacity, capacity(1000.0, 120.0));
    // Too soon, then not any more.
    assert!(!damper.offer(capacity(1000.0, 20.0), START + INTERVAL / 2, INTERVAL));
    assert!(damper.offer(capacity(1000.0, 20.0), START + INTERVAL, INTERVAL));
}

#[test]
fn a_path_that_is_not_known_any_more_is_a_change() {
    let mut damper = Damper::new(capacity(1000.0, 20.0));
    assert!(damper.offer(Capacity::default(), START, INTERVAL));
    assert!(!damper.offer(Capacity::default(), START + INTERVAL, INTERVAL));
}

proptest! {
    #[test]
    fn whatever_is_measured_there_is_one_change_in_an_interval(
        polls in prop::collection::vec((0_u64..20_000, prop::option::of((1e-3_f64..1e6, 1e-3_f64..1e4))), 1..200)
    ) {
        let mut damper = Damper::new(Capacity::default());
        let (mut now, mut last) = (START, None::<Moment>);
        for (wait_ms, measured) in polls {
            now += Duration::from_millis(wait_ms);
            let wanted = measured.map_or_else(Capacity::default, |(mbit, ms)| capacity(mbit, ms));
            if damper.offer(wanted, now, INTERVAL) {
                prop_assert!(last.is_none_or(|last| now - last >= INTERVAL));
                last = Some(now);
            }
        }
    }

    #[test]
    fn buffers_never_shrink_as_a_path_grows(mbit in 1e-3_f64..1e7, ms in 1e-3_f64..6e4, times in 1.0_f64..10.0) {
        let path = path("measured", ALL);
        let smaller = policy(&path, capacity(mbit, ms), bounds());
        let larger = policy(&path, capacity(mbit * times, ms), bounds());
        prop_assert!(smaller.sndbuf_bytes <= larger.sndbuf_bytes);
    }

    /// A buffer is left to the kernel, or larger than what that gives by itself.
    #[test]
    fn no_measurement_takes_away_what_the_kernel_gives(
        mbit in 1e-6_f64..1e7,
        ms in 1e-3_f64..6e4,
        has_own in any::<bool>(),
    ) {
        let own = if has_own { "bandwidth = '622Mbit'; rtt = '70ms'; " } else { "" };
        let plan = policy(&path("measured", &format!("{own}{ALL}")), capacity(mbit, ms), bounds());
        let sizes = [plan.sndbuf_bytes, plan.rcvbuf_bytes];
        for (bytes, kernel) in sizes.into_iter().zip([KERNEL.sndbuf_bytes, KERNEL.rcvbuf_bytes]) {
            prop_assert!(bytes.is_none_or(|bytes| 2 * u64::from(bytes) > kernel), "{bytes:?}");
        }
    }
}

fn traits(reorder_segments: Option<u32>, is_leaky: bool) -> Conditions {
    let traits = Traits { reorder_segments, is_leaky };
    Conditions { traits, ..Conditions::default() }
}

#[test]
fn reordering_follows_where_it_is_auto() {
    let auto = path("measured", "reorder = 'auto'");
    let plan = policy(&auto, traits(Some(19), true), bounds());
    assert_eq!((plan.reorder_segments, plan.origin.reorder_segments), (Some(19), 19));
    // Nothing else does, and without a measurement nothing at all.
    assert_eq!(plan.congestion, None);
    assert_eq!(policy(&auto, Conditions::default(), bounds()), auto);
    let fixed = path("measured", "reorder = 30; sndbuf = 'auto'");
    assert_eq!(policy(&fixed, traits(Some(19), true), bounds()).reorder_segments, Some(30));
}

#[test]
fn a_loss_is_no_congestion_where_that_is_measured() {
    for keys in ["", "congestion = 'cubic'", "congestion = 'wad_scalable'; idle = 'keep'"] {
        let auto = path("measured", &format!("loss = 'auto'; {keys}"));
        let plan = policy(&auto, traits(Some(19), true), bounds());
        assert_eq!((plan.law(), plan.reorder_segments), (Some(Law::Leaky), None), "{keys}");
        assert_eq!(plan.control, Control::STANDARD, "{keys}");
        // Absent that it is as the file says.
        assert_eq!(policy(&auto, traits(Some(19), false), bounds()), auto, "{keys}");
    }
    let bounded = path("measured", "loss = 'auto'; max_cwnd = 1000; decrease = 0.3");
    let control = policy(&bounded, traits(None, true), bounds()).control;
    let max_cwnd = bounded.control.max_cwnd;
    assert_eq!((bounded.law(), max_cwnd.segments), (Some(Law::Aimd), 1000));
    assert_eq!(control, Control { max_cwnd, ..Control::STANDARD });
    let sure = path("measured", "congestion = 'cubic'; sndbuf = 'auto'");
    assert_eq!(policy(&sure, traits(None, true), bounds()).congestion, sure.congestion);
}

#[test]
fn the_rate_is_that_of_the_law_in_force() {
    let auto = path("measured", "loss = 'auto'; congestion = 'cubic'; pacing = 'auto'");
    let rate = |conditions| policy(&auto, conditions, bounds()).max_pacing_bytes_per_second;
    assert_eq!([rate(traits(None, false)), rate(traits(None, true))], [Some(PACED), None]);
}

#[test]
fn a_change_of_traits_is_one_and_waits_as_others_do() {
    let mut damper = Damper::new(traits(Some(20), false));
    assert!(!damper.offer(traits(Some(23), false), START, INTERVAL));
    assert!(damper.offer(traits(Some(23), true), START, INTERVAL));
    assert!(!damper.offer(traits(None, false), START + INTERVAL / 2, INTERVAL));
    assert!(damper.offer(traits(None, false), START + INTERVAL, INTERVAL));
}
