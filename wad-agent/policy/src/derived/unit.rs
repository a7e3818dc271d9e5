//! Units are what the numbers of an expression measure: powers of octets, segments,
//! events and seconds. A sum of different things is a mistake in the file.

use std::fmt::{self, Display};

use wad_instruments::{self as instruments, name};

/// The names, in the order of [`Unit::powers`].
const NAMES: [&str; 4] = ["octets", "segments", "events", "s"];

/// A product of powers; all zero for a ratio of like things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    powers: [i8; NAMES.len()],
}

impl Unit {
    pub const SECONDS: Self = Self::of([0, 0, 0, 1]);

    const fn of(powers: [i8; NAMES.len()]) -> Self {
        Self { powers }
    }

    /// Combines two units; None beyond powers that mean anything.
    fn combine(self, other: Self, power: fn(i8, i8) -> Option<i8>) -> Option<Self> {
        let mut powers = [0; NAMES.len()];
        for (n, combined) in powers.iter_mut().enumerate() {
            *combined = power(self.powers[n], other.powers[n])?;
        }
        Some(Self { powers })
    }
}

impl Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let factors = |sign: i8| -> Vec<String> {
            let powers = NAMES.iter().zip(self.powers).map(|(name, power)| (name, power * sign));
            let factor = |(name, power): (&&str, i8)| match power {
                1 => (*name).to_owned(),
                _ => format!("{name}^{power}"),
            };
            powers.filter(|(_, power)| *power > 0).map(factor).collect()
        };
        let (above, below) = (factors(1), factors(-1));
        match above.as_slice() {
            [] => f.write_str("1")?,
            above => f.write_str(&above.join(" "))?,
        }
        below.iter().try_for_each(|factor| write!(f, "/{factor}"))
    }
}

/// A measure is what is known of a number's unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// A bare number: in a sum it is of the unit that it stands beside.
    Number,
    /// A field of the kernel's, which says nothing of its unit.
    Unknown,
    Of(Unit),
}

impl Measure {
    /// An instrument's, and the divisor that makes seconds of its times.
    pub fn of(instrument: &instruments::Instrument) -> (Self, f64) {
        use instruments::Unit as Own;
        // So that segments times it are octets, and octets divided by it segments.
        if instrument.name == name::CUR_MSS {
            return (Self::Of(Unit::of([1, -1, 0, 0])), 1.0);
        }
        match instrument.unit {
            Own::Octets => (Self::Of(Unit::of([1, 0, 0, 0])), 1.0),
            Own::Segments => (Self::Of(Unit::of([0, 1, 0, 0])), 1.0),
            Own::Events => (Self::Of(Unit::of([0, 0, 1, 0])), 1.0),
            Own::Seconds => (Self::Of(Unit::SECONDS), 1.0),
            Own::Milliseconds => (Self::Of(Unit::SECONDS), 1e3),
            Own::Microseconds => (Self::Of(Unit::SECONDS), 1e6),
            Own::OctetsPerSecond => (Self::Of(Unit::of([1, 0, 0, -1])), 1.0),
            Own::Number => (Self::Number, 1.0),
        }
    }

    /// Returns the measure of a sum, and of the less or the greater of two: None
    /// where they differ.
    pub fn like(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Of(one), Self::Of(two)) => (one == two).then_some(self),
            (Self::Of(_), _) => Some(self),
            (_, Self::Of(_)) => Some(other),
            (Self::Unknown, _) | (_, Self::Unknown) => Some(Self::Unknown),
            (Self::Number, Self::Number) => Some(Self::Number),
        }
    }

    /// Returns the product's measure; None where the powers become too large.
    pub fn times(self, other: Self) -> Option<Self> {
        self.combine(other, i8::checked_add)
    }

    /// Returns the quotient's measure; None where the powers become too large.
    pub fn per(self, other: Self) -> Option<Self> {
        self.combine(other, i8::checked_sub)
    }

    fn combine(self, other: Self, power: fn(i8, i8) -> Option<i8>) -> Option<Self> {
        let unit = |measure| match measure {
            Self::Of(unit) => unit,
            Self::Number | Self::Unknown => Unit::of([0; NAMES.len()]),
        };
        match (self, other) {
            (Self::Unknown, _) | (_, Self::Unknown) => Some(Self::Unknown),
            (Self::Number, Self::Number) => Some(Self::Number),
            _ => unit(self).combine(unit(other), power).map(Self::Of),
        }
    }
}

impl Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number => f.write_str("a number"),
            Self::Unknown => f.write_str("of unknown unit"),
            Self::Of(unit) => unit.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OCTETS: Measure = Measure::Of(Unit::of([1, 0, 0, 0]));
    const SECONDS: Measure = Measure::Of(Unit::SECONDS);

    #[test]
    fn units_are_multiplied_and_divided() {
        let rate = OCTETS.per(SECONDS).unwrap();
        assert_eq!(rate.to_string(), "octets/s");
        assert_eq!(rate.times(SECONDS), Some(OCTETS));
        assert_eq!(Measure::Number.times(rate), Some(rate));
        assert_eq!(Measure::Number.per(SECONDS).unwrap().to_string(), "1/s");
        assert_eq!(OCTETS.per(OCTETS).unwrap().to_string(), "1");
        assert_eq!(Measure::Unknown.times(OCTETS), Some(Measure::Unknown));
        assert_eq!(rate.per(SECONDS).unwrap().to_string(), "octets/s^2");
    }

    #[test]
    fn only_like_things_have_a_sum() {
        assert_eq!(OCTETS.like(SECONDS), None);
        assert_eq!(OCTETS.like(OCTETS), Some(OCTETS));
        assert_eq!(Measure::Number.like(SECONDS), Some(SECONDS));
        assert_eq!(SECONDS.like(Measure::Unknown), Some(SECONDS));
        // A ratio is no bare number.
        assert_eq!(OCTETS.per(OCTETS).unwrap().like(SECONDS), None);
    }

    #[test]
    fn powers_are_bounded() {
        let mut square = Some(SECONDS);
        for _ in 0..10 {
            square = square.and_then(|power| power.times(power));
        }
        assert_eq!(square, None);
    }
}
