//! Bounds of the window: where slow start ends or slows down, and where growth
//! ends.

use std::ops::RangeInclusive;

use toml::de::DeValue;
use wad_common::control::WindowSize;

use super::{
    fault::{Fault, Problems},
    line::Line,
    quantity,
    table::{self, Located, Table},
};

/// Segments from the least window on; the most is 1.5 Tbit/s at 800 ms.
pub const SEGMENTS: RangeInclusive<u64> = 2..=100_000_000;
/// Bytes from two jumbo segments on, up to what 32 bits hold.
pub const BYTES: RangeInclusive<u64> = 18_000..=u32::MAX as u64;

#[derive(Clone, Copy, Debug, Default)]
pub struct Thresholds {
    pub initial_ssthresh: WindowSize,
    pub max_cwnd: WindowSize,
    pub auto: Windows,
    /// The line is used: what the path carries is needed for them.
    pub use_line: bool,
}

/// Says which of the bounds follow from what the path carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    pub initial_ssthresh: bool,
    pub max_cwnd: bool,
}

impl Windows {
    /// Returns a window of all that the path carries, of which headers and trailers leave
    /// 0.941 on Ethernet, packets of 1500 bytes, and with large segments up to 0.993: a
    /// little above what is payload, so that the path is full although no RTT is the least
    /// one.
    pub fn of_bdp(bdp_bytes: f64) -> WindowSize {
        saturating(bdp_bytes)
    }
}

#[derive(Clone, Copy)]
enum Size {
    Given(WindowSize),
    Auto,
}

pub fn read(table: &Table<'_>, line: &Line, problems: &mut Problems) -> Thresholds {
    let mut use_line = false;
    let mut read = |key, is_auto: &mut bool| {
        let size = table.read(key, problems, parse);
        match size {
            Some(Located { value: Size::Given(size), .. }) => size,
            Some(Located { value: Size::Auto, at }) => {
                (use_line, *is_auto) = (true, true);
                line.check_auto(table, key, at, problems);
                line.bdp_bytes().map_or_else(WindowSize::default, |bytes| {
                    in_bytes(bytes).unwrap_or_else(|fault| {
                        let title = format!("`{key}`: \"auto\" {}", fault.title);
                        let help = "check `bandwidth` and `rtt`, or give segments";
                        problems.push(Fault { title, ..fault }.help(help).at(at));
                        WindowSize::default()
                    })
                })
            }
            None => {
                // Wrong, and may have been meant so.
                use_line |= table.has(key);
                WindowSize::default()
            }
        }
    };
    let mut auto = Windows::default();
    let initial_ssthresh = read("initial_ssthresh", &mut auto.initial_ssthresh);
    let max_cwnd = read("max_cwnd", &mut auto.max_cwnd);
    check_order(table, initial_ssthresh, max_cwnd, problems);
    Thresholds { initial_ssthresh, max_cwnd, auto, use_line }
}

fn parse(value: &DeValue<'_>) -> Result<Size, Fault> {
    match value {
        DeValue::Integer(_) => {
            // In range, hence whole.
            let segments = table::integer(value, SEGMENTS, "segments")? as u32;
            Ok(Size::Given(WindowSize { segments, bytes: 0 }))
        }
        DeValue::String(text) if text == "auto" => Ok(Size::Auto),
        DeValue::String(text) if text.trim().bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(Fault::new("no unit", "of what?")
                .help("write segments without quotes, or bytes with a unit: 4000, \"6MiB\""))
        }
        DeValue::String(_) => {
            let bytes = quantity::size(value, BYTES)? as u32;
            Ok(Size::Given(WindowSize { segments: 0, bytes }))
        }
        _ => Err(table::wrong_type(value, "segments, a size such as \"6MiB\", or \"auto\"")),
    }
}

/// A window of so many bytes, as far as 32 bits can say it.
fn saturating(bytes: f64) -> WindowSize {
    in_bytes(bytes).unwrap_or(WindowSize { segments: 0, bytes: u32::MAX })
}

/// A window of so many bytes, at least two jumbo segments.
pub fn in_bytes(bytes: f64) -> Result<WindowSize, Fault> {
    let bytes = (bytes.round() as u64).max(*BYTES.start());
    match u32::try_from(bytes) {
        Ok(bytes) => Ok(WindowSize { segments: 0, bytes }),
        Err(_) => {
            let label = format!("a window in bytes has at most {}", BYTES.end());
            Err(Fault::new(format!("comes to {bytes} bytes"), label))
        }
    }
}

/// Checks the order as far as both are of one unit.
fn check_order(
    table: &Table<'_>,
    initial_ssthresh: WindowSize,
    max_cwnd: WindowSize,
    problems: &mut Problems,
) {
    let is_above = |threshold: u32, most: u32| most > 0 && threshold > most;
    let no_effect = is_above(initial_ssthresh.segments, max_cwnd.segments)
        || is_above(initial_ssthresh.bytes, max_cwnd.bytes);
    let places = table.place("initial_ssthresh").zip(table.place("max_cwnd"));
    if let Some((at, bound)) = places.filter(|_| no_effect) {
        let fault =
            Fault::new("`initial_ssthresh` has no effect above `max_cwnd`", "never reached")
                .help("lower it, raise `max_cwnd`, or leave one of the two out")
                .idle();
        problems.push(fault.at(at).also(bound, "the window ends here"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bdp_of_more_than_32_bits_is_refused() {
        let most = f64::from(u32::MAX);
        assert_eq!(in_bytes(most).map(|size| size.bytes), Ok(u32::MAX));
        assert_eq!(in_bytes(1.0).map(|size| size.bytes), Ok(18_000));
        assert!(in_bytes(most + 1.0).is_err());
    }
}
