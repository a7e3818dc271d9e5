//! Reads what the file says that the path carries: its rate and its round trip time.

use super::{
    fault::{Fault, Problems, Span},
    quantity,
    table::{self, Located, Table},
};
use crate::capacity::Capacity;

/// The most that a path can carry.
pub const MAX_BITS_PER_SECOND: f64 = 10e12;
const MAX_RTT_SECONDS: f64 = 60.0;
/// The rates and times that a path can have, in words.
pub const RATES: &str = "above 0, up to 10Tbit";
pub const TIMES: &str = "above 0, up to 60s";

/// Rate and round trip time, as far as the file has them.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The capacity of `dedicated`, else of `bandwidth`.
    capacity: Capacity,
    dedicated: Option<Located<f64>>,
    /// The path is measured: the file need not say anything.
    is_measured: bool,
}

impl Line {
    pub fn read(table: &Table<'_>, is_measured: bool, problems: &mut Problems) -> Self {
        let mut rate =
            |key| table.read(key, problems, |value| bits_per_second(table::text(value)?));
        let (bandwidth, dedicated) = (rate("bandwidth"), rate("dedicated"));
        let rtt = table.read("rtt", problems, |value| rtt_seconds(table::text(value)?));
        let capacity = Capacity {
            bits_per_second: dedicated.or(bandwidth).map(|rate| rate.value),
            rtt_seconds: rtt.map(|rtt| rtt.value),
            is_least: false,
        };
        Self { capacity, dedicated, is_measured }
    }

    pub const fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// A path of one's own: its rate, in bit/s.
    pub const fn dedicated(&self) -> Option<Located<f64>> {
        self.dedicated
    }

    /// The bandwidth-delay product, in bytes.
    pub fn bdp_bytes(&self) -> Option<f64> {
        self.capacity.bdp_bytes()
    }

    /// Reports what "auto" lacks here.
    pub fn check_auto(&self, table: &Table<'_>, key: &str, at: Span, problems: &mut Problems) {
        if self.is_measured {
            return;
        }
        let value = match key {
            "buffers" => "autotune",
            "resume" => "known",
            _ => "auto",
        };
        let rate = if table.has("dedicated") { "dedicated" } else { "bandwidth" };
        for needed in [rate, "rtt"].into_iter().filter(|needed| !table.has(needed)) {
            let fault = Fault::new(
                format!("`{key}`: \"{value}\" needs `{needed}`"),
                "the product of bandwidth and rtt gives the size",
            );
            let fault = fault.help(match key {
                "resume" => "add `bandwidth` and `rtt` of the path, or take resume = \"saved\"",
                _ => "add `bandwidth` and `rtt` of the path, or give a size",
            });
            problems.push(fault.at(at));
        }
    }
}

/// A path's bandwidth, bit/s.
pub fn bits_per_second(text: &str) -> Result<f64, Fault> {
    let rate = quantity::bits_per_second(text)?;
    positive(rate, MAX_BITS_PER_SECOND, RATES)
}

/// Whether a path can have this bandwidth.
pub fn is_rate(bits_per_second: f64) -> bool {
    bits_per_second > 0.0 && bits_per_second <= MAX_BITS_PER_SECOND
}

/// Whether a path can have this RTT.
pub fn is_rtt(seconds: f64) -> bool {
    seconds > 0.0 && seconds <= MAX_RTT_SECONDS
}

/// A path's RTT, seconds.
pub fn rtt_seconds(text: &str) -> Result<f64, Fault> {
    let time = quantity::seconds(text)?;
    positive(time, MAX_RTT_SECONDS, TIMES)
}

fn positive(number: f64, most: f64, range: &str) -> Result<f64, Fault> {
    if number > 0.0 && number <= most {
        return Ok(number);
    }
    Err(Fault::new("out of range", format!("must be {range}")))
}
