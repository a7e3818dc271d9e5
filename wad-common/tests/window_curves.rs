//! The loss-based laws are run over a simulated path, as curves to look at: each is
//! compared with the reviewed one in `curves/`. `WAD_BLESS=1 cargo test -p wad-common`
//! writes them anew; then it is the difference that needs a review.

use path::{
    Phase::{Bulk, Limited},
    Scenario, curve,
};
use wad_common::law::{
    Aimd, Binomial,
    aimd::{MAX_INCREASE_Q16, MAX_KEEP_Q16, ONE_Q16},
    highspeed, scalable,
};

mod curves;
mod path;

/// Makes AIMD(b, a): b in 1/1000, a in segments. What is kept is rounded up, so that it
/// is 0.7 of 80 segments that b = 0.3 keeps, and b = 0.9 is in its range.
const fn aimd(decrease_permille: u32, increase_segments: u32) -> Aimd {
    let keep_q16 = ((1000 - decrease_permille) * ONE_Q16).div_ceil(1000);
    match Aimd::try_new(increase_segments * ONE_Q16, keep_q16) {
        Some(aimd) => aimd,
        None => panic!("out of range"),
    }
}

/// Holds what most scenarios have in common.
const BULK: Scenario = Scenario {
    title: "",
    law: |_| Aimd::STANDARD,
    initial_window: 10,
    ssthresh: u32::MAX,
    max_ssthresh: u32::MAX,
    segments_per_ack: 2,
    losses: &[],
    phases: &[],
};

/// A year has so many seconds, and as many RTTs, at one in a second.
const YEAR: u64 = 365 * 24 * 3600;

#[test]
fn standard() {
    check(
        "standard",
        &Scenario {
            title: "AIMD(0.5, 1), RFC 5681: slow start to a loss, then saw teeth.",
            losses: &[160, 96, 96],
            phases: &[Bulk { rtts: 75 }],
            ..BULK
        },
    );
}

#[test]
fn virtual_mss() {
    check(
        "virtual-mss",
        &Scenario {
            title: "AIMD(0.3, 6): the papers' example.",
            law: |_| aimd(300, 6),
            losses: &[160, 160, 160],
            phases: &[Bulk { rtts: 35 }],
            ..BULK
        },
    );
}

#[test]
fn application_limited() {
    check(
        "application-limited",
        &Scenario {
            title: "AIMD(0.3, 6): 5 segments in each RTT at first, later 20, a year without\n\
                    anything, and a year of one segment in each RTT. Only a full window grows;\n\
                    in slow start one that is more than half full.",
            law: |_| aimd(300, 6),
            losses: &[60],
            phases: &[
                Limited { rtts: 20, segments: 5 },
                Limited { rtts: 20, segments: 20 },
                Bulk { rtts: 4 },
                Limited { rtts: YEAR, segments: 0 },
                Bulk { rtts: 3 },
                Limited { rtts: YEAR, segments: 1 },
                Bulk { rtts: 3 },
            ],
            ..BULK
        },
    );
}

#[test]
fn huge() {
    check(
        "huge",
        &Scenario {
            title: "AIMD(0.01, 4096) from a window of 2^31 and from losses near 2^32: nothing\n\
                    wraps around.",
            law: |_| match Aimd::try_new(MAX_INCREASE_Q16, MAX_KEEP_Q16) {
                Some(aimd) => aimd,
                None => panic!("out of range"),
            },
            initial_window: 1 << 31,
            segments_per_ack: 1 << 20,
            losses: &[u32::MAX, u32::MAX - (1 << 26), u32::MAX - (1 << 27)],
            phases: &[Bulk { rtts: 10 }],
            ..BULK
        },
    );
}

#[test]
fn increase_above_window() {
    check(
        "increase-above-window",
        &Scenario {
            title: "AIMD(0.9, 4096): losses at windows below the increase; what follows is no\n\
                    faster than slow start.",
            law: |_| aimd(900, 4096),
            losses: &[100, 1000, 10_000, 10_000],
            phases: &[Bulk { rtts: 30 }],
            ..BULK
        },
    );
}

#[test]
fn slow_increase() {
    check(
        "slow-increase",
        &Scenario {
            title: "AIMD(0.5, 1/16), with a threshold of 20: one segment in 16 RTTs.",
            law: |_| match Aimd::try_new(ONE_Q16 / 16, ONE_Q16 / 2) {
                Some(aimd) => aimd,
                None => panic!("out of range"),
            },
            ssthresh: 20,
            losses: &[24],
            phases: &[Bulk { rtts: 120 }],
            ..BULK
        },
    );
}

#[test]
fn highspeed() {
    check(
        "highspeed",
        &Scenario {
            title: "RFC 3649: a loss at 5000 segments or more takes 0.25 of them, and with a = 17\n\
                    to 20 they are back after 60 RTTs, where AIMD(0.5, 1) takes 2500.",
            law: highspeed::response,
            losses: &[5000, 5000],
            phases: &[Bulk { rtts: 160 }],
            ..BULK
        },
    );
}

#[test]
fn highspeed_small() {
    check(
        "highspeed-small",
        &Scenario {
            title: "RFC 3649: losses at 300 segments and below; up to 38, AIMD(0.5, 1).",
            law: highspeed::response,
            losses: &[300, 300, 100, 60, 38],
            phases: &[Bulk { rtts: 90 }],
            ..BULK
        },
    );
}

#[test]
fn scalable() {
    check(
        "scalable",
        &Scenario {
            title: "Scalable TCP: 13 RTTs to recover from a loss at 5000 segments.",
            law: scalable::response,
            losses: &[5000, 5000, 5000],
            phases: &[Bulk { rtts: 50 }],
            ..BULK
        },
    );
}

#[test]
fn scalable_small() {
    check(
        "scalable-small",
        &Scenario {
            title: "Scalable TCP: loss upon loss, an eighth each, down to 96 segments; a segment for\n\
                    each RTT there, and from 100 on a hundredth of the window.",
            law: scalable::response,
            losses: &[90, 90, 90, 90, 90, 90, 90, 90, 90, 90, 90, 90, 90, 90],
            phases: &[Bulk { rtts: 70 }],
            ..BULK
        },
    );
}

#[test]
fn binomial_sqrt() {
    check(
        "binomial-sqrt",
        &Scenario {
            title: "Binomial, SQRT: a loss at 100 segments takes 7 of them, and with 0.1 of a segment\n\
                    for each RTT they are back after 70.",
            law: |segments| Binomial::Sqrt.response(segments),
            ssthresh: 100,
            losses: &[100, 100, 100],
            phases: &[Bulk { rtts: 180 }],
            ..BULK
        },
    );
}

#[test]
fn binomial_iiad() {
    check(
        "binomial-iiad",
        &Scenario {
            title: "Binomial, IIAD: loss upon loss, one segment each, down to 15; it takes 10 RTTs\n\
                    for one more.",
            law: |segments| Binomial::Iiad.response(segments),
            ssthresh: 20,
            losses: &[20, 19, 18, 17, 15, 18],
            phases: &[Bulk { rtts: 60 }],
            ..BULK
        },
    );
}

#[test]
fn limited_slow_start() {
    check(
        "limited-slow-start",
        &Scenario {
            title: "Slow start limited at 100 segments, RFC 3742: 50 more in each RTT, up to a\n\
                    threshold of 1000; then AIMD(0.3, 6).",
            law: |_| aimd(300, 6),
            ssthresh: 1000,
            max_ssthresh: 100,
            phases: &[Bulk { rtts: 32 }],
            ..BULK
        },
    );
}

fn check(name: &str, scenario: &Scenario) {
    curves::check(name, &curve(scenario));
}
