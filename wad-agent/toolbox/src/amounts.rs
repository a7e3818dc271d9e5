//! Amounts as people read them.

use std::fmt::{self, Display};

/// A rate is of bits per second: three digits and a unit.
pub struct Rate(pub f64);

impl Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("Tbit/s", 1e12), ("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)];
        let unit = units.into_iter().find(|(_, factor)| self.0 >= *factor);
        let (unit, factor) = unit.unwrap_or(("bit/s", 1.0));
        write!(f, "{} {unit}", Digits(self.0 / factor))
    }
}

/// A time is of seconds, as one would say it: "23.1 min".
pub struct Time(pub f64);

impl Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("d", 172_800.0, 86_400.0), ("h", 7200.0, 3600.0), ("min", 120.0, 60.0)];
        let small = [("s", 1.0, 1.0), ("ms", 1e-3, 1e-3), ("us", 0.0, 1e-6)];
        let unit = units.into_iter().chain(small).find(|(_, least, _)| self.0 >= *least);
        let (unit, _, factor) = unit.unwrap_or(("s", 0.0, 1.0));
        write!(f, "{} {unit}", Digits(self.0 / factor))
    }
}

/// Three digits.
struct Digits(f64);

impl Display for Digits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = match self.0 {
            number if number >= 100.0 => 0,
            number if number >= 10.0 => 1,
            _ => 2,
        };
        let text = format!("{:.places$}", self.0);
        let text = match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.'),
            false => &text,
        };
        f.write_str(text)
    }
}

/// Bytes are shown in binary units.
pub struct Bytes(pub u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].iter();
        let (mut value, mut unit) = (self.0 as f64, units.next());
        // 1023.95 would be shown as 1024.0.
        while value >= 1023.95
            && let Some(next) = units.next()
        {
            (value, unit) = (value / 1024.0, Some(next));
        }
        match unit {
            Some(&"B") | None => write!(f, "{} B", self.0),
            Some(unit) => write!(f, "{value:.1} {unit}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_at_their_edges() {
        let shown = |bytes| Bytes(bytes).to_string();
        assert_eq!(shown(1023), "1023 B");
        assert_eq!(shown(1024), "1.0 KiB");
        assert_eq!(shown((1 << 20) - 1), "1.0 MiB");
        assert_eq!(shown(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn three_digits_and_no_zeros_behind_a_point() {
        let shown = |rate| Rate(rate).to_string();
        assert_eq!(shown(0.0), "0 bit/s");
        assert_eq!(shown(12_345.0), "12.3 kbit/s");
        assert_eq!(shown(622e6), "622 Mbit/s");
        assert_eq!(shown(2.5e9), "2.5 Gbit/s");
        assert_eq!(Time(0.070_04).to_string(), "70 ms");
        assert_eq!(Time(0.0).to_string(), "0 us");
    }
}
