//! Amounts with a unit: sizes in bytes, rates in bit/s, times in seconds.

use std::{ops::RangeInclusive, time::Duration};

use jiff::Timestamp;
use toml::de::DeValue;

use super::{
    fault::{Fault, quoted},
    table,
};

type Units = &'static [(&'static str, f64)];

const SIZES: Units = &[
    ("B", 1.0),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
];

/// Each may also be followed by `/s`.
const BIT_RATES: Units =
    &[("bit", 1.0), ("kbit", 1e3), ("Mbit", 1e6), ("Gbit", 1e9), ("Tbit", 1e12)];

const BYTE_RATES: Units =
    &[("B/s", 8.0), ("kB/s", 8e3), ("MB/s", 8e6), ("GB/s", 8e9), ("TB/s", 8e12)];

const TIMES: Units = &[("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];

/// The units of what is done now and then; no path's.
const LONG_TIMES: Units =
    &[("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3_600.0), ("d", 86_400.0)];

/// A size within a range: an integer, or text as for [`bytes`].
pub fn size(value: &DeValue<'_>, range: RangeInclusive<u64>) -> Result<u64, Fault> {
    let bytes = match value {
        DeValue::Integer(_) => return table::integer(value, range, "bytes"),
        DeValue::String(text) => bytes(text)?,
        _ => return Err(table::wrong_type(value, "a size such as \"4MiB\"")),
    };
    if range.contains(&bytes) { Ok(bytes) } else { Err(table::out_of_range(&range, "bytes")) }
}

/// "3751239", "4MiB", "1.5MB": bytes, rounded. The only amount that may go
/// without a unit.
pub fn bytes(text: &str) -> Result<u64, Fault> {
    let (number, unit) = split(text, "a size such as \"4MiB\"")?;
    if unit.is_empty() {
        // As an integer, exact beyond 2^53; with a fraction it is no count.
        return text.trim().parse().map_err(|_| not_an_amount(text, "a whole number of bytes"));
    }
    let factor = find(SIZES, unit).ok_or_else(|| unknown_unit(unit, &[SIZES]))?;
    // Saturates, and is then out of every range.
    Ok((number * factor).round() as u64)
}

/// "622Mbit", "10Gbit/s", "1.25GB/s": bit/s.
pub fn bits_per_second(text: &str) -> Result<f64, Fault> {
    let (number, unit) = split(text, "a rate such as \"622Mbit\"")?;
    if unit.is_empty() {
        return Err(Fault::new("no unit", "of what?")
            .help("add one: bit, kbit, Mbit, Gbit, Tbit, or kB/s, MB/s, GB/s for bytes"));
    }
    let factor = find(BIT_RATES, unit.strip_suffix("/s").unwrap_or(unit))
        .or_else(|| find(BYTE_RATES, unit))
        .ok_or_else(|| unknown_rate(unit))?;
    Ok(number * factor)
}

/// Gb/s and Gbps are gigabits to those who build networks, and gigabytes to some tools.
fn unknown_rate(unit: &str) -> Fault {
    let is_in_b = unit.strip_suffix("/s").unwrap_or(unit).ends_with('b');
    if is_in_b || unit.to_ascii_lowercase().ends_with("bps") {
        return Fault::new(
            format!("the unit {} is ambiguous", quoted(unit)),
            "bits to some tools, bytes to others",
        )
        .help("write bits as `Mbit` and bytes as `MB/s`");
    }
    unknown_unit(unit, &[BIT_RATES, BYTE_RATES])
}

/// "70ms": seconds.
pub fn seconds(text: &str) -> Result<f64, Fault> {
    let (number, unit) = split(text, "a time such as \"70ms\"")?;
    if unit.is_empty() {
        return Err(Fault::new("no unit", "of what?").help("add one: us, ms or s"));
    }
    Ok(number * find(TIMES, unit).ok_or_else(|| unknown_unit(unit, &[TIMES]))?)
}

/// "30s", "5min", "6h": a time within a range, which is shown as `range_text`.
pub fn duration(
    text: &str,
    range: RangeInclusive<Duration>,
    range_text: &str,
) -> Result<Duration, Fault> {
    let (number, unit) = split(text, "a time such as \"30s\"")?;
    if unit.is_empty() {
        return Err(Fault::new("no unit", "of what?").help("add one: ms, s, min, h or d"));
    }
    let factor = find(LONG_TIMES, unit).ok_or_else(|| unknown_unit(unit, &[LONG_TIMES]))?;
    Duration::try_from_secs_f64(number * factor)
        .ok()
        .filter(|time| range.contains(time))
        .ok_or_else(|| Fault::new("out of range", format!("must be {range_text}")))
}

/// Reads a date and time, in quotes or as TOML has them: time since 1970, in UTC.
pub fn moment(value: &DeValue<'_>) -> Result<Duration, Fault> {
    let time = timestamp(value)?;
    Duration::try_from(time.as_duration())
        .map_err(|_| Fault::new("out of range", "must be later than 1970"))
}

/// Reads the same as a point in time of its own type.
pub fn timestamp(value: &DeValue<'_>) -> Result<Timestamp, Fault> {
    let text = match value {
        DeValue::Datetime(time) => time.to_string(),
        other => table::text(other)?.to_owned(),
    };
    text.parse().map_err(|_| {
        Fault::new(format!("{} is no date and time", quoted(&text)), "with its zone")
            .help("write it as \"2027-01-01T00:00:00Z\"")
    })
}

fn split<'t>(text: &'t str, expected: &str) -> Result<(f64, &'t str), Fault> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number = text[..digits].parse().map_err(|_| not_an_amount(text, expected))?;
    Ok((number, text[digits..].trim_start()))
}

fn find(units: Units, unit: &str) -> Option<f64> {
    units.iter().find(|(name, _)| *name == unit).map(|&(_, factor)| factor)
}

fn not_an_amount(text: &str, expected: &str) -> Fault {
    Fault::new(format!("{} is no amount", quoted(text)), format!("it takes {expected}"))
}

fn unknown_unit(unit: &str, known: &[Units]) -> Fault {
    let known = || known.iter().copied().flatten().map(|(name, _)| *name);
    let fault = Fault::new(format!("unknown unit {}", quoted(unit)), "not a unit known here");
    match known().find(|name| name.eq_ignore_ascii_case(unit)) {
        Some(name) => fault.help(format!("did you mean `{name}`?")),
        None => fault.help(format!("write one of {}", known().collect::<Vec<_>>().join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("3751239", 3_751_239),
            ("0", 0),
            ("4MiB", 4 << 20),
            ("1.5 kB", 1_500),
            ("2GiB", 2 << 30),
            ("18446744073709551615", u64::MAX),
            ("99999999999999999999GiB", u64::MAX),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "MiB", "-1", "1.5", "4Mib", "4 M B", "1e6", "0x10", "1.2.3B", "\u{664}B"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates() {
        for (text, expected) in
            [("622Mbit", 622e6), ("10Gbit/s", 10e9), ("1.25GB/s", 10e9), ("9.6 kbit", 9_600.0)]
        {
            assert_eq!(bits_per_second(text), Ok(expected), "{text}");
        }
        for text in ["622", "622Mbps", "1.25GB", "622mbit", "622Mbit/s/s", "Mbit", "infbit"] {
            assert!(bits_per_second(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_rate_in_b_is_not_taken_for_bytes() {
        let fault = |text| format!("{:?}", bits_per_second(text).unwrap_err());
        for text in ["10Gb/s", "10gb/s", "622mb/s", "10Gb", "10Gbps", "10GBps"] {
            assert!(fault(text).contains("ambiguous"), "{text}: {}", fault(text));
        }
        // Bytes they are, of which time is not said.
        assert!(fault("10GB").contains("unknown unit `GB`"), "{}", fault("10GB"));
        assert!(fault("622mbit").contains("did you mean `Mbit`?"), "{}", fault("622mbit"));
    }

    #[test]
    fn times() {
        assert_eq!(seconds("70ms"), Ok(0.07));
        assert_eq!(seconds("250us"), Ok(250.0 * 1e-6));
        assert_eq!(seconds("1.5s"), Ok(1.5));
        for text in ["70", "70m", "70 min", "-70ms", "ms"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations() {
        let range = Duration::from_secs(1)..=Duration::from_secs(86_400);
        let read = |text| duration(text, range.clone(), "1s to 1d");
        for (text, seconds) in [("30s", 30), ("5min", 300), ("1.5h", 5_400), ("1d", 86_400)] {
            assert_eq!(read(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["30", "0s", "999ms", "25h", "5m", "99999999999999999999999999d", "-1s"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
