//! Chance that a seed decides: the same seed has the same schedule, on every host and in
//! every version.

use std::time::Duration;

use wad_common::mixed::mixed;

/// The least time that chance tells apart.
pub const TICK: Duration = Duration::from_nanos(1);

/// A chance is one number of a tree of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chance(u64);

impl Chance {
    pub const fn new(seed: u64) -> Self {
        Self(mixed(seed))
    }

    /// Returns that of a number.
    #[must_use]
    pub const fn of(self, number: u64) -> Self {
        Self(mixed(self.0 ^ mixed(number)))
    }

    /// Returns that of a text (FNV-1a, 64 bits).
    #[must_use]
    pub fn of_text(self, text: &str) -> Self {
        const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0100_0000_01b3;
        let add = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
        self.of(text.bytes().fold(BASIS, add))
    }

    /// Returns the number itself.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Returns a part of the time: less than all of it.
    pub fn part_of(self, time: Duration) -> Duration {
        let part = (time.as_nanos() * u128::from(self.0)) >> 64;
        Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Periods would move for all users if these did.
    #[test]
    fn a_seed_decides_for_good() {
        assert_eq!(Chance::new(0).of_text(""), Chance::new(0).of(0xcbf2_9ce4_8422_2325));
        assert_eq!(Chance::new(0).of_text("a"), Chance::new(0).of(0xaf63_dc4c_8601_ec8c));
        assert_ne!(Chance::new(0).of(1), Chance::new(0).of(2));
    }

    #[test]
    fn a_part_is_less_than_the_whole() {
        let year = Duration::from_secs(366 * 86_400);
        for number in 0..1_000 {
            assert!(Chance::new(9).of(number).part_of(year) < year);
        }
        assert_eq!(Chance(u64::MAX).part_of(TICK), Duration::ZERO);
    }
}
