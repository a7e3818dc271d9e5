//! Random numbers of an experiment: the same seed gives the same losses.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
/// OOPSLA 2014, figure 17) is ample for drawing losses.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number that is uniform in 0 to `bound`, both included.
    pub const fn up_to(&mut self, bound: u64) -> u64 {
        // The high half of the product: the bias is below bound / 2^64.
        ((self.next() as u128 * (bound as u128 + 1)) >> 64) as u64
    }

    /// Returns true with the given probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        // 53 bits, a double's precision; never true at 0, always at 1.
        ((self.next() >> 11) as f64) < probability * (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_reference() {
        // First outputs for seed 1234567 of the authors' C code.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn chance_hits_its_probability() {
        let mut random = Random::new(1);
        let hits = (0..1_000_000).filter(|_| random.chance(0.01)).count();
        assert!((9_500..10_500).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| !random.chance(0.0) && random.chance(1.0)));
    }

    #[test]
    fn up_to_reaches_both_ends_and_no_further() {
        let mut random = Random::new(2);
        let mut seen = [0; 4];
        (0..1000).for_each(|_| seen[random.up_to(3) as usize] += 1);
        assert!(seen.iter().all(|count| (200..300).contains(count)), "{seen:?}");
        assert_eq!(random.up_to(0), 0);
    }
}
