//! Whether a flow's packets are spread over the RTT, and the most rate.

use toml::de::DeValue;
use wad_common::{control::Pacing, policy::PACED};

use super::{
    congestion::Choice,
    fault::{Fault, Problems},
    line::Line,
    quantity,
    table::{self, Table},
};
use crate::{capacity::Capacity, law::Law};

/// SO_MAX_PACING_RATE is 32 bits wide where BPF sets it, and all ones stand for no bound.
pub const MAX_BYTES_PER_SECOND: u32 = PACED - 1;
const MIN_BYTES_PER_SECOND: u32 = 1_000;
/// The kernel itself paces so much above a flow's rate once it is out of slow start
/// (`tcp_pacing_ca_ratio`, 120%): a flow that is as fast as the path is not held back by
/// a measurement that is a little low.
const HEADROOM: f64 = 1.2;
/// The bounds of a rate, in words.
pub const RANGE: &str = "8kbit to 34.3Gbit";

#[derive(Clone, Copy, Debug)]
pub struct Paced {
    /// Pacing for laws of ours.
    pub pacing: Pacing,
    /// Argument of SO_MAX_PACING_RATE, or [`PACED`].
    pub max_bytes_per_second: Option<u32>,
    /// On a path that is measured the rate follows from that.
    pub is_auto: bool,
}

#[derive(Clone, Copy)]
enum Asked {
    Off,
    Auto,
    BytesPerSecond(u32),
}

pub fn read(
    table: &Table<'_>,
    choice: &Choice,
    (line, is_measured): (&Line, bool),
    problems: &mut Problems,
) -> Paced {
    let unasked = Paced { pacing: Pacing::LongPaths, max_bytes_per_second: None, is_auto: false };
    let Some(asked) = table.read("pacing", problems, parse) else { return unasked };
    let law = choice.law();
    match asked.value {
        Asked::Off => {
            let refused = match law {
                Some(law) if law.entry().needs_pacing => Some("it needs to be paced"),
                Some(_) => None,
                None => Some("only laws of ours leave pacing to us"),
            };
            let is_of_use = |law: Law| !law.entry().needs_pacing;
            let is_of_use = choice.candidates().any(|it| it.law().is_some_and(is_of_use));
            if let Some(label) = refused.filter(|_| !choice.in_doubt && !is_of_use) {
                let name = choice.congestion.as_ref().map_or("the host's default", |c| c.name());
                let title = format!("pacing = \"off\" has no effect on {name}");
                problems.push(Fault::new(title, label).help("leave it out").idle().at(asked.at));
            } else if let Some(loss) = choice.auto_loss {
                let title = "pacing = \"off\" does not go with loss = \"auto\"";
                let fault = Fault::new(title, "what it may become needs to be paced");
                let fault = fault.help("leave one of the two out");
                problems.push(fault.at(asked.at).also(loss, "by this"));
            }
            Paced { pacing: Pacing::Off, ..unasked }
        }
        Asked::Auto => {
            // A path that is not measured has no rate but the law's.
            let capacity = if is_measured { line.capacity() } else { Capacity::default() };
            Paced {
                pacing: if law.is_some() { Pacing::On } else { Pacing::LongPaths },
                max_bytes_per_second: auto_bytes_per_second(law.is_some(), capacity),
                is_auto: true,
            }
        }
        Asked::BytesPerSecond(rate) => {
            Paced { pacing: Pacing::On, max_bytes_per_second: Some(rate), ..unasked }
        }
    }
}

/// Returns the most rate of a flow on a measured path: what the path carries, and the
/// headroom. Without a bound None for a law of ours, which sees to pacing itself, and
/// [`PACED`] for an algorithm of the kernel's.
pub fn auto_bytes_per_second(is_law_of_ours: bool, capacity: Capacity) -> Option<u32> {
    // What flows got is the least that a path carries, and bounds nothing.
    let carried = capacity.bits_per_second.filter(|_| !capacity.is_least);
    let rate = carried.map(|rate| (rate / 8.0 * HEADROOM).round());
    match rate.filter(|&rate| rate <= f64::from(MAX_BYTES_PER_SECOND)) {
        Some(rate) => Some((rate as u32).max(MIN_BYTES_PER_SECOND)),
        None if is_law_of_ours => None,
        None => Some(PACED),
    }
}

fn parse(value: &DeValue<'_>) -> Result<Asked, Fault> {
    match table::text(value)? {
        "off" => Ok(Asked::Off),
        "auto" => Ok(Asked::Auto),
        rate if !rate.starts_with(|c: char| c.is_ascii_digit()) => {
            let label = "it takes \"off\", \"auto\", or a rate such as \"600Mbit\"";
            Err(Fault::new("this is no pacing", label))
        }
        rate => {
            let bytes = (quantity::bits_per_second(rate)? / 8.0).round();
            if bytes > f64::from(MAX_BYTES_PER_SECOND) {
                return Err(Fault::new("out of range", "must be at most 34.3Gbit")
                    .help("what BPF programs can give to SO_MAX_PACING_RATE has 32 bits"));
            }
            if bytes < f64::from(MIN_BYTES_PER_SECOND) {
                return Err(Fault::new("out of range", "must be at least 8kbit"));
            }
            Ok(Asked::BytesPerSecond(bytes as u32))
        }
    }
}
