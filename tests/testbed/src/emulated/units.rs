//! Scenarios write rates and times always with a unit.

use std::{fmt, str::FromStr, time::Duration};

use serde::Deserialize;

/// A rate that could not be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    #[error("\"{0}\" is no rate: write a number and bit, kbit, Mbit or Gbit, such as \"622Mbit\"")]
    Rate(String),
    #[error("\"{0}\" is no time: write a number and us, ms or s, such as \"70ms\"")]
    Time(String),
}

/// A rate on the wire, headers included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Rate {
    pub bits_per_second: u64,
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let units = [("Gbit", 1e9), ("Mbit", 1e6), ("kbit", 1e3), ("bit", 1.0)];
        let rate = scaled(text, &units).filter(|rate| (1.0..=1e12).contains(rate));
        let bits_per_second = rate.ok_or_else(|| UnitError::Rate(text.to_owned()))? as u64;
        Ok(Self { bits_per_second })
    }
}

impl TryFrom<String> for Rate {
    type Error = UnitError;

    fn try_from(text: String) -> Result<Self, UnitError> {
        text.parse()
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits_per_second = self.bits_per_second as f64;
        if bits_per_second >= 1e9 {
            write!(out, "{} Gb/s", bits_per_second / 1e9)
        } else {
            write!(out, "{} Mb/s", bits_per_second / 1e6)
        }
    }
}

/// A length of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Span(pub Duration);

impl Span {
    /// Returns the time in nanoseconds; it saturates after 584 years.
    #[must_use]
    pub fn nanoseconds(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl FromStr for Span {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        // "ms" and "us" end in "s", so they come first.
        let seconds = scaled(text, &[("us", 1e-6), ("ms", 1e-3), ("s", 1.0)]);
        let seconds = seconds.filter(|seconds| (0.0..=86_400.0).contains(seconds));
        let seconds = seconds.ok_or_else(|| UnitError::Time(text.to_owned()))?;
        Ok(Self(Duration::from_secs_f64(seconds)))
    }
}

impl TryFrom<String> for Span {
    type Error = UnitError;

    fn try_from(text: String) -> Result<Self, UnitError> {
        text.parse()
    }
}

fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, scale) =
        units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)))?;
    Some(number.trim().parse::<f64>().ok()? * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_rates_and_times() {
        let rate = |text: &str| text.parse::<Rate>().map(|rate| rate.bits_per_second);
        assert_eq!(rate("622Mbit"), Ok(622_000_000));
        assert_eq!(rate("2.5 Gbit"), Ok(2_500_000_000));
        let span = |text: &str| text.parse().map(Span::nanoseconds);
        assert_eq!(span("70ms"), Ok(70_000_000));
        assert_eq!(span("1.5s"), Ok(1_500_000_000));
        assert_eq!(span("250us"), Ok(250_000));
    }

    #[test]
    fn refuses_what_has_no_clear_unit() {
        for text in ["622", "622Mbps", "Mbit", "-1Mbit", "NaNbit", "0bit", ""] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
        for text in ["70", "-1s", "inf s", "70 min"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
