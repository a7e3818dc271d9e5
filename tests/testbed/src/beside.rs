//! A test that runs beside others is told that the host's settings are made for all of
//! them, and which of their places is its own.

use std::{env, process::Command};

/// The variable has the form `PLACE/PLACES`.
const VARIABLE: &str = "WAD_TEST_BESIDE";

/// A place in which tests run beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beside {
    /// The number of the place, from 0.
    pub place: u32,
    pub places: u32,
}

impl Beside {
    /// Returns the place of this process; none if it has the host for itself.
    #[must_use]
    pub fn this() -> Option<Self> {
        Self::parse(&env::var(VARIABLE).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let (place, places) = text.split_once('/')?;
        let (place, places) = (place.parse().ok()?, places.parse().ok()?);
        (place < places).then_some(Self { place, places })
    }

    /// Gives the place to a process that is to be started.
    pub fn tell(self, command: &mut Command) {
        command.env(VARIABLE, format!("{}/{}", self.place, self.places));
    }

    /// Tells whether algorithms of an instance of that name are registered under names
    /// that no other place has. They end in two characters made of its name, and names
    /// of algorithms are the host's.
    #[must_use]
    pub fn may_have(self, instance: &str) -> bool {
        // The first of the two.
        hash(instance) % 36 % self.places == self.place
    }
}

/// Returns what the two characters are made of, as `wad` has it.
pub(crate) fn hash(instance: &str) -> u32 {
    instance.bytes().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(byte.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_one_of_the_places() {
        assert_eq!(Beside::parse("1/4"), Some(Beside { place: 1, places: 4 }));
        assert_eq!(Beside::parse("4/4"), None);
        assert_eq!(Beside::parse("x"), None);
    }

    #[test]
    fn each_name_is_for_one_place() {
        for name in ["t123-0a", "t123-1b", "t4194304-17z"] {
            let fit = (0..5).filter(|place| Beside { place: *place, places: 5 }.may_have(name));
            assert_eq!(fit.count(), 1, "{name}");
        }
    }
}
