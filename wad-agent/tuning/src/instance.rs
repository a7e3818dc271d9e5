//! An instance is what keeps several agents on one host apart: pins, algorithm names,
//! journal.

use anyhow::{Result, ensure};
use wad_struct_ops::NAME_BYTES;

/// Longest name of an algorithm of ours, `wad_highspeed`.
const LONGEST_ALGORITHM: usize = 13;

/// The name of an instance; there is one without `--instance`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance(String);

impl Default for Instance {
    fn default() -> Self {
        Self("default".to_owned())
    }
}

impl Instance {
    /// 1 to 32 lower-case letters, digits, `-` and `_`: it becomes part of file
    /// names.
    pub fn try_new(name: &str) -> Result<Self> {
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        ensure!(
            (1..=32).contains(&name.len()) && name.chars().all(legal),
            "instance name {name:?}: give 1 to 32 lower-case letters, digits, `-` or `_`"
        );
        Ok(Self(name.to_owned()))
    }

    pub fn name(&self) -> &str {
        &self.0
    }

    /// Returns the name that an algorithm is registered as. Names are global to the
    /// host and have 15 characters, so another instance's end in two characters made
    /// from its name.
    pub fn algorithm(&self, base: &str) -> String {
        if *self == Self::default() {
            return base.to_owned();
        }
        const { assert!(LONGEST_ALGORITHM + 2 <= NAME_BYTES) };
        const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
        let hash = self
            .0
            .bytes()
            .fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(byte.into()))
            as usize;
        let digit = |n: usize| char::from(DIGITS[n % DIGITS.len()]);
        format!("{base}{}{}", digit(hash), digit(hash / DIGITS.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithm_names_of_instances_differ_and_fit() {
        let (a, b) = (Instance::try_new("a").unwrap(), Instance::try_new("lab-1").unwrap());
        assert_eq!(Instance::default().algorithm("wad_aimd"), "wad_aimd");
        assert_ne!(a.algorithm("wad_aimd"), b.algorithm("wad_aimd"));
        assert!(b.algorithm("wad_highspeed").len() <= NAME_BYTES);
    }

    #[test]
    fn names_that_would_escape_a_folder_are_refused() {
        for name in ["", "..", "a/b", "A", "a b"] {
            assert!(Instance::try_new(name).is_err(), "{name:?}");
        }
    }
}
