use wad_common::law::{Aimd, aimd::ONE_Q16};

use super::*;
use crate::config::{Config, testing::host};

fn capacity(mbit: f64, rtt_ms: f64) -> Capacity {
    let (bits_per_second, rtt_seconds) = (Some(mbit * 1e6), Some(rtt_ms / 1e3));
    Capacity { bits_per_second, rtt_seconds, is_least: false }
}

fn shares(law: Law, path: impl Into<SharedPath>) -> Shares {
    Shares::of(law, &Control::STANDARD, path).expect("losses are a measure")
}

fn pair(decrease: f64, increase_segments: f64) -> Control {
    let q16 = |number: f64| (number * f64::from(ONE_Q16)).round() as u32;
    let aimd = Aimd { increase_q16: q16(increase_segments), keep_q16: ONE_Q16 - q16(decrease) };
    Control { aimd, ..Control::STANDARD }
}

const UNKNOWN: SharedPath = SharedPath { packets: None, rtt_seconds: None };

/// Mean window of CUBIC by RFC 9438: the larger of formula 6, with its C and beta, and of
/// section 4.3's AIMD with alpha = 3 (1 - beta) / (1 + beta).
fn cubic_by_hand(loss: f64, rtt_seconds: f64) -> f64 {
    let (c, beta) = (0.4_f64, 0.7_f64);
    let factor = (c * (3.0 + beta) / (4.0 * (1.0 - beta))).powf(0.25);
    let by_time = factor * rtt_seconds.powf(0.75) / loss.powf(0.75);
    let alpha = 3.0 * (1.0 - beta) / (1.0 + beta);
    by_time.max(aimd_by_hand(1.0 - beta, alpha, loss))
}

/// Mean window of AIMD(b, a): the mean of `(1 - b) w` and `w`, with one loss in the segments
/// between two losses, `b w / a` round trips of that mean.
fn aimd_by_hand(b: f64, a: f64, loss: f64) -> f64 {
    // 1 / p = (b w / a) (1 - b / 2) w
    let window = (a / (b * (1.0 - b / 2.0) * loss)).sqrt();
    window * (1.0 - b / 2.0)
}

/// Mean window of HighSpeed TCP: RFC 3649's equation between 38 segments and the end of its
/// table, from where on it is an AIMD that adds 73 segments. Below it is RFC 5681.
fn highspeed_by_hand(loss: f64) -> f64 {
    // Section 5's b(w).
    let last_b = 0.5 - 0.4 * (94_717.0_f64 / 38.0).ln() / (83_000.0_f64 / 38.0).ln();
    let own = (0.12 / loss.powf(0.835)).max(aimd_by_hand(0.5, 1.0, loss));
    own.min(aimd_by_hand(last_b, 73.0, loss))
}

/// Mean window of Scalable TCP: 0.01 / (0.125 p), and AIMD(0.125, 1) below 100 segments.
fn scalable_by_hand(loss: f64) -> f64 {
    (0.01 / 0.125 / loss).max(aimd_by_hand(0.125, 1.0, loss))
}

/// The highest loss rate at which a window that falls with losses is as large, by bisection.
fn loss_by_hand(window: impl Fn(f64) -> f64, segments: f64) -> f64 {
    let (mut low, mut high) = (-15.0_f64, 0.0_f64);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if window(10_f64.powf(middle)) >= segments { low = middle } else { high = middle }
    }
    10_f64.powf(low)
}

type ByHand = fn(f64) -> f64;

/// Five paths, in Mbit/s and ms, by all that a file says of them. Each share is computed from
/// the formulas of the RFCs and papers, in this module alone: where the path is full, and the
/// most by a search over all loss rates.
#[test]
fn shares_of_five_paths_are_those_computed_by_hand() {
    let paths = [(100, 20), (622, 80), (1_000, 200), (10_000, 10), (10_000, 150)];
    let laws: [(&str, ByHand); 6] = [
        ("congestion = 'wad_highspeed'", highspeed_by_hand),
        ("congestion = 'highspeed'", highspeed_by_hand),
        ("congestion = 'wad_scalable'", scalable_by_hand),
        ("additive_increase = 6\ndecrease = 0.3", |loss| aimd_by_hand(0.3, 6.0, loss)),
        ("congestion = 'wad_aimd'\nequivalent_streams = 4", |loss| aimd_by_hand(0.125, 4.0, loss)),
        ("additive_increase = 0.529\ndecrease = 0.3", |loss| aimd_by_hand(0.3, 0.529, loss)),
    ];
    for (mbit, rtt_ms) in paths {
        let rtt_seconds = f64::from(rtt_ms) / 1e3;
        let packets = f64::from(mbit) * 1e6 * rtt_seconds / 8.0 / 1500.0;
        let cubic = |loss| cubic_by_hand(loss, rtt_seconds);
        for (keys, window) in laws {
            let text = format!(
                "[[path]]\nname = 'p'\nremote = '10.0.0.1'\nbandwidth = '{mbit}Mbit'\n\
                 rtt = '{rtt_ms}ms'\n{keys}\nsndbuf = 'auto'\nallow = 'aggressive'\n"
            );
            let config = Config::parse("file", &text, &host()).unwrap_or_else(|e| panic!("{e}"));
            let found = config.paths[0].shares().expect("losses are a measure");

            let fills_at = loss_by_hand(|loss| window(loss).max(cubic(loss)), packets);
            let share = window(fills_at) / cubic(fills_at);
            let Filling::At(filling) = found.filling else { panic!("{found:?}") };
            near(filling.loss, fills_at, 2e-3, &text);
            near(filling.share, share, 2e-3, &text);

            let decades = (1e-3 / fills_at).log10().max(0.0);
            let grid = (0..=5_000).map(|n| fills_at * 10_f64.powf(decades * f64::from(n) / 5e3));
            let most = grid.map(|loss| window(loss) / cubic(loss)).fold(0.0, f64::max);
            near(found.most(), most, 2e-3, &text);
        }
    }
}

fn near(found: f64, expected: f64, tolerance: f64, of: &str) {
    assert!((found / expected - 1.0).abs() <= tolerance, "{found} for {expected}: {of}");
}

/// HighSpeed TCP beside CUBIC, with a calculator: 1 Gbit/s and 180 ms are 15,000 packets,
/// which 0.12 / p^0.835 fills at 7.87e-7. There 1.054 (0.18 / p)^0.75 is 11,025.
#[test]
fn highspeed_is_held_against_cubic_and_not_against_reno() {
    let found = shares(Law::HighSpeed, capacity(1e3, 180.0));
    near(found.most(), 1.36, 0.003, "HighSpeed TCP");
    near(found.most.loss, 7.87e-7, 0.003, "HighSpeed TCP");
    assert!(found.is_most_when_filling() && found.is_rtt_known);
    // Without a round trip time CUBIC is no faster than Reno, which has 1,381.
    let packets = SharedPath { packets: Some(15_000.0), rtt_seconds: None };
    near(shares(Law::HighSpeed, packets).most(), 10.86, 0.003, "HighSpeed TCP beside Reno");
}

#[test]
fn a_standard_flow_takes_no_more_than_cubic_at_any_loss() {
    assert_eq!(shares(Law::Aimd, UNKNOWN).at, [Some(1.0); 5]);
    for path in [UNKNOWN, capacity(1e3, 100.0).into(), capacity(1e4, 1.0).into()] {
        assert!(!shares(Law::Aimd, path).exceed_fair(), "{path:?}");
        assert!(!shares(Law::Binomial, path).exceed_fair(), "{path:?}");
    }
}

/// A pair takes the most where CUBIC is in its Reno-friendly region.
#[test]
fn a_pair_takes_the_most_where_losses_are_many() {
    let control = pair(0.3, 6.0);
    let alone = Shares::of(Law::Aimd, &control, UNKNOWN).unwrap();
    near(alone.most(), 3.367, 1e-3, "unknown path");
    let path = Shares::of(Law::Aimd, &control, capacity(1e4, 100.0)).unwrap();
    near(path.most(), 3.367, 1e-3, "100 ms");
    assert!((path.most.loss - 1e-3).abs() < 1e-12 && !path.is_most_when_filling());
    // CUBIC would have filled the path before.
    let Filling::At(ShareAt { share, .. }) = path.filling else { panic!("{path:?}") };
    assert!(share < 0.5, "{share}");
}

/// RFC 3649 section 4: standard up to 38 segments.
#[test]
fn highspeed_is_aggressive_only_where_the_path_has_room_for_it() {
    assert!(!shares(Law::HighSpeed, capacity(45.6, 10.0)).exceed_fair());
    assert!(shares(Law::HighSpeed, capacity(1_200.0, 10.0)).exceed_fair());
    // CUBIC keeps up with it where round trips are long.
    assert!(!shares(Law::HighSpeed, capacity(1_000.0, 600.0)).exceed_fair());
    let rtt = SharedPath { packets: None, rtt_seconds: Some(0.6) };
    assert!(!shares(Law::HighSpeed, rtt).exceed_fair());
}

#[test]
fn a_window_that_losses_leave_alone_takes_the_path() {
    // 1.054 (0.07 / 1e-4)^0.75 are 143 of 3628 segments.
    let leaky = shares(Law::Leaky, capacity(622.0, 70.0));
    near(leaky.at[1].unwrap(), 25.3, 0.003, "leaky");
    assert_eq!(leaky.most(), leaky.at[0].unwrap());
    assert_eq!(shares(Law::Leaky, UNKNOWN).most(), f64::INFINITY);
    assert!(!shares(Law::Leaky, capacity(36.0, 10.0)).exceed_fair());
}
