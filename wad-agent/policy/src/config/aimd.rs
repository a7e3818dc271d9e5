//! The increase and decrease of `wad_aimd`: given, or as of several flows.

use std::ops::RangeInclusive;

use toml::de::DeValue;
use wad_common::law::{Aimd, INITIAL_WINDOW_SEGMENTS, aimd::ONE_Q16};

use super::{
    fault::{Fault, Problems},
    line::Line,
    table::{self, Table},
};
use crate::capacity::rfc3649_pair;

/// The range of the law for `a`, segments for each RTT.
pub const INCREASE: RangeInclusive<f64> = 0.0625..=4096.0;
/// The range of the law for `b`.
pub const DECREASE: RangeInclusive<f64> = 0.01..=0.9;
/// Above, `1 / (2k)` would be below the law's least decrease.
pub const STREAMS: RangeInclusive<u64> = 2..=50;

/// Segments that a SYN-ACK's window of 65,535 bytes leaves of an initial window, in
/// segments of 1460 bytes.
pub const HANDSHAKE_SEGMENTS: u32 = 45;

/// One flow is to behave as this many standard flows; None for one.
#[derive(Clone, Copy, Debug)]
pub struct Streams(pub u32);

impl Streams {
    /// Together k standard flows grow by k segments for each RTT, and one of
    /// them halves its k-th part of the window at a loss.
    fn aimd(self) -> Aimd {
        let Self(k) = self;
        Aimd { increase_q16: k * ONE_Q16, keep_q16: ONE_Q16 - ONE_Q16 / (2 * k) }
    }

    /// Theirs together, as far as the handshake goes.
    pub fn initial_window_segments(self) -> u32 {
        (self.0 * INITIAL_WINDOW_SEGMENTS).min(HANDSHAKE_SEGMENTS)
    }
}

/// Holds what the file says of both.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    pub aimd: Aimd,
    pub streams: Option<Streams>,
    /// The values are RFC 3649's for what the path carries.
    pub is_auto: bool,
}

#[derive(Clone, Copy)]
enum Increase {
    Segments(f64),
    Auto,
}

pub fn read(table: &Table<'_>, line: &Line, problems: &mut Problems) -> Given {
    let (given, is_auto) = read_given(table, line, problems);
    let streams = table.read("equivalent_streams", problems, |value| {
        table::integer(value, STREAMS, "standard flows")
    });
    // In range, hence whole.
    let Some(streams) = streams.map(|streams| Streams(streams.value as u32)) else {
        return Given { aimd: given, streams: None, is_auto };
    };
    let place = table.place("equivalent_streams").unwrap_or(table.at);
    for key in ["additive_increase", "decrease"] {
        if let Some(at) = table.place(key) {
            let title = format!("`{key}` and `equivalent_streams` say the same");
            let fault = Fault::new(title, "given here").help("keep one of them");
            problems.push(fault.at(at).also(place, "and by this"));
        }
    }
    Given { aimd: streams.aimd(), streams: Some(streams), is_auto: false }
}

fn read_given(table: &Table<'_>, line: &Line, problems: &mut Problems) -> (Aimd, bool) {
    // Both in range, hence whole.
    let q16 = |number: f64| (number * f64::from(ONE_Q16)).round() as u32;
    let increase = table.read("additive_increase", problems, parse_increase);
    let decrease = table.read("decrease", problems, |value| {
        let help = "it is the fraction of the window given up at a loss: 0.5 is standard";
        table::number(value, DECREASE, "").map_err(|fault| fault.help(help))
    });
    if let Some(Increase::Auto) = increase.map(|increase| increase.value) {
        let at = table.place("additive_increase").unwrap_or(table.at);
        line.check_auto(table, "additive_increase", at, problems);
        if let Some(beside) = table.place("decrease") {
            let fault = Fault::new("`decrease` comes with \"auto\"", "RFC 3649 has a pair")
                .help("leave it out, or give the increase as a number");
            problems.push(fault.at(beside).also(at, "chosen here"));
        }
        return (line.bdp_bytes().map_or(Aimd::STANDARD, rfc3649_pair), true);
    }
    let aimd = Aimd {
        increase_q16: match increase.map(|increase| increase.value) {
            Some(Increase::Segments(a)) => q16(a),
            _ => Aimd::STANDARD.increase_q16,
        },
        // Rounded down, so that 0.3 of 80 segments leaves 56 and not 55.
        keep_q16: decrease.map_or(Aimd::STANDARD.keep_q16, |b| {
            ONE_Q16 - (b.value * f64::from(ONE_Q16)).floor() as u32
        }),
    };
    (aimd, false)
}

fn parse_increase(value: &DeValue<'_>) -> Result<Increase, Fault> {
    if value.as_str() == Some("auto") {
        return Ok(Increase::Auto);
    }
    table::number(value, INCREASE, "segments for each RTT").map(Increase::Segments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranges_are_those_of_the_law() {
        let one = f64::from(ONE_Q16);
        let q16 = |number: f64| (number * one).round() as u32;
        for (increase, decrease) in
            [(INCREASE.start(), DECREASE.start()), (INCREASE.end(), DECREASE.end())]
        {
            assert!(Aimd::try_new(q16(*increase), ONE_Q16 - q16(*decrease)).is_some());
        }
        assert!(Aimd::try_new(q16(*INCREASE.start()) - 1, ONE_Q16 / 2).is_none());
        assert!(Aimd::try_new(q16(*INCREASE.end()) + 1, ONE_Q16 / 2).is_none());
        assert!(Aimd::try_new(ONE_Q16, ONE_Q16 - q16(*DECREASE.end()) - 1).is_none());
        assert!(Aimd::try_new(ONE_Q16, ONE_Q16 - q16(*DECREASE.start()) + 1).is_none());
    }

    #[test]
    fn as_many_flows_are_an_aimd_within_the_law() {
        let four = Streams(4).aimd();
        assert_eq!(four, Aimd { increase_q16: 4 * ONE_Q16, keep_q16: ONE_Q16 / 8 * 7 });
        for k in STREAMS {
            let Aimd { increase_q16, keep_q16 } = Streams(k as u32).aimd();
            assert!(Aimd::try_new(increase_q16, keep_q16).is_some(), "{k}");
        }
        let beyond = Streams(*STREAMS.end() as u32 + 1).aimd();
        assert!(Aimd::try_new(beyond.increase_q16, beyond.keep_q16).is_none());
    }

    #[test]
    fn they_start_with_what_the_handshake_allows() {
        assert_eq!(Streams(3).initial_window_segments(), 30);
        assert_eq!(Streams(5).initial_window_segments(), 45);
    }
}
