//! Random numbers: the same seed gives the same.

use wad_common::mixed::{INCREMENT, mixed};

/// SplitMix64, as [`mixed`] has it.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    const fn next(&mut self) -> u64 {
        let number = mixed(self.state);
        self.state = self.state.wrapping_add(INCREMENT);
        number
    }

    /// Returns a number that is uniform in 0 to 1, 1 excluded.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number that is uniform in 0 to `bound`, which is excluded unless it is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        (self.unit() * bound as f64) as u64
    }

    /// Returns how many trials of this probability fail before one succeeds; all of them where
    /// none ever does.
    pub fn failures(&mut self, probability: f64) -> u64 {
        if probability <= 0.0 {
            return u64::MAX;
        }
        // Saturates; none fails where the probability is 1.
        ((1.0 - self.unit()).ln() / (-probability).ln_1p()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn failures_are_as_many_as_the_probability_says() {
        for probability in [0.5, 0.01, 1e-4] {
            let mut random = Random::new(7);
            let sum: u64 = (0..20_000).map(|_| random.failures(probability)).sum();
            let expected = 20_000.0 * (1.0 - probability) / probability;
            assert!((sum as f64 / expected - 1.0).abs() < 0.03, "{probability}: {sum}");
        }
        assert_eq!((Random::new(1).failures(0.0), Random::new(1).failures(1.0)), (u64::MAX, 0));
    }
}
