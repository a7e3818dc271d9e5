//! A policer is a token bucket that drops what it has no tokens for: nothing waits. Times in
//! nanoseconds since the emulator's start.

const PS_PER_NS: u64 = 1_000;
const PS_PER_SECOND_OF_BYTES: u64 = 8 * 1_000_000_000_000;

/// Tells what a policer lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicerLaw {
    pub rate_bits_per_second: u64,
    /// The bytes of a burst, headers included, that are let through at any rate.
    pub burst_bytes: u64,
}

/// A bucket, in virtual time: it is known by when it will be full.
#[derive(Clone, Debug)]
pub struct Policer {
    law: PolicerLaw,
    full_ps: u64,
}

impl Policer {
    /// Begins with a full bucket.
    #[must_use]
    pub const fn new(law: PolicerLaw) -> Self {
        Self { law, full_ps: 0 }
    }

    /// Says whether a packet that comes may pass.
    pub fn passes(&mut self, now_ns: u64, wire_bytes: u32) -> bool {
        let now_ps = now_ns.saturating_mul(PS_PER_NS);
        let full_ps = self.full_ps.max(now_ps).saturating_add(self.ps(wire_bytes.into()));
        let passes = full_ps - now_ps <= self.ps(self.law.burst_bytes);
        if passes {
            self.full_ps = full_ps;
        }
        passes
    }

    /// Returns the time in which tokens for so many bytes come.
    fn ps(&self, bytes: u64) -> u64 {
        let product = u128::from(bytes) * u128::from(PS_PER_SECOND_OF_BYTES);
        u64::try_from(product / u128::from(self.law.rate_bits_per_second)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        // 1 byte a microsecond.
        let law = PolicerLaw { rate_bits_per_second: 8_000_000, burst_bytes: 4_500 };
        let mut policer = Policer::new(law);
        let at_once: Vec<_> = (0..5).map(|_| policer.passes(0, 1_500)).collect();
        assert_eq!(at_once, [true, true, true, false, false]);
        assert!(!policer.passes(1_499_999, 1_500));
        assert!(policer.passes(1_500_000, 1_500));
        // An idle one has room for a burst again, and for no more.
        let later: Vec<_> = (0..4).map(|_| policer.passes(1_000_000_000, 1_500)).collect();
        assert_eq!(later, [true, true, true, false]);
    }

    proptest! {
        #[test]
        fn lets_no_more_through_than_a_burst_and_the_rate(
            gaps in prop::collection::vec((0_u64..300_000, 40_u32..9_000), 1..300),
            rate in 1_000_000_u64..10_000_000_000,
            burst in 9_000_u64..1_000_000,
        ) {
            let law = PolicerLaw { rate_bits_per_second: rate, burst_bytes: burst };
            let mut policer = Policer::new(law);
            let (mut now, mut passed) = (0, 0_u128);
            for (gap, bytes) in gaps {
                now += gap;
                let came = u128::from(now) * u128::from(rate) / 8_000_000_000;
                if policer.passes(now, bytes) {
                    passed += u128::from(bytes);
                    // Rounding is in favour of those that come, by less than a byte each.
                    prop_assert!(passed <= u128::from(burst) + came + 300);
                } else {
                    // So much had it no tokens for.
                    prop_assert!(passed > 0);
                }
            }
        }
    }
}
