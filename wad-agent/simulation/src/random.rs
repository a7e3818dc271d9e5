//! Random numbers: the same seed gives the same.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA
/// 2014, figure 17).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
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
