//! Algorithms have names as they are registered, and as users know them.

/// The laws that `wad` brings.
const OWN: [&str; 7] = [
    "wad_cubic",
    "wad_aimd",
    "wad_highspeed",
    "wad_scalable",
    "wad_binomial",
    "wad_leaky",
    "wad_delay",
];

/// Returns an algorithm's name, whatever the instance: `wad`'s own have two characters
/// after the name in an instance for tests, as here.
#[must_use]
pub fn algorithm(registered: &str) -> &str {
    OWN.into_iter().find(|own| registered.starts_with(own)).unwrap_or(registered)
}

/// Tells whether an algorithm is one of `wad`'s.
#[must_use]
pub fn is_own(registered: &str) -> bool {
    OWN.iter().any(|own| registered.starts_with(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_does_not_change_the_algorithm() {
        assert_eq!(
            ["wad_aimd", "wad_aimd7k", "cubic", "wad_leaky"].map(algorithm),
            ["wad_aimd", "wad_aimd", "cubic", "wad_leaky"]
        );
        assert_eq!(["wad_aimd7k", "cubic", "wad"].map(is_own), [true, false, false]);
    }
}
