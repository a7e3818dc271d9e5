//! Chance, for what hosts are not to do all at once.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A number from 0 to 1.
pub fn chance() -> f64 {
    // The keys of the standard library's hash maps are random.
    RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use super::chance;

    #[test]
    fn chance_is_within_its_bounds_and_varies() {
        let chances: Vec<_> = (0..100).map(|_| chance()).collect();
        assert!(chances.iter().all(|chance| (0.0..=1.0).contains(chance)));
        assert!(chances.iter().any(|chance| *chance < 0.5));
        assert!(chances.iter().any(|chance| *chance > 0.5));
    }
}
