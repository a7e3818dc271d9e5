//! Decides whether a value that a source gives of a path counts: a monitor may be
//! wrong by a unit, a clock or a glitch, and the path's flows would pay for it.
//!
//! What the file itself says of the path is the operator's word. A measurement counts
//! within a band around it; where the file says nothing there is none. A value that
//! is far from the one that holds is a jump, and counts when a second measurement
//! agrees: a change of the route shows in the next one, too, a glitch does not.

/// More than twice or less than half of the value that holds is a jump. Within that,
/// tests of throughput and pings scatter on a path that is as it was.
const JUMP: f64 = 2.0;

/// The part of a ratio that comes from rounding.
const ROUNDING: f64 = 1e-9;

/// A reason not to count a value. The set is closed: it labels a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is outside the band around the file's own value.
    Band,
    /// It is far from the value that holds, and no second one agreed yet.
    Jump,
    /// It was measured in the future.
    Future,
}

impl Refusal {
    pub const ALL: [Self; 3] = [Self::Band, Self::Jump, Self::Future];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Band => "band",
            Self::Jump => "jump",
            Self::Future => "future",
        }
    }
}

/// The file expects this of a metric of a path, and lets a measurement be so far from it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Expected {
    /// The file's own value, if it has one.
    pub own: Option<f64>,
    /// A value counts from a band-th of the file's to so many times that, both ends
    /// left out.
    pub band: f64,
}

impl Expected {
    /// Whether a value is not too far from what the file says.
    pub fn allows(&self, value: f64) -> bool {
        let Some(own) = self.own else { return true };
        ratio(own, value) < self.band * (1.0 - ROUNDING)
    }

    /// Says whether a value counts. `held` is what counted last, `doubted` the
    /// measurement before this one, if that was a jump.
    pub fn judge(
        &self,
        value: f64,
        held: Option<f64>,
        doubted: Option<f64>,
    ) -> Result<(), Refusal> {
        if !self.allows(value) {
            return Err(Refusal::Band);
        }
        let is_near = |other: f64| ratio(other, value) <= JUMP;
        match held.or(self.own) {
            Some(holds) if !is_near(holds) && !doubted.is_some_and(is_near) => Err(Refusal::Jump),
            _ => Ok(()),
        }
    }
}

/// How many times the smaller the larger of two values is.
fn ratio(a: f64, b: f64) -> f64 {
    (a / b).max(b / a)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OWN: Expected = Expected { own: Some(622e6), band: 10.0 };
    const NOTHING: Expected = Expected { own: None, band: 10.0 };

    #[test]
    fn a_value_far_from_the_files_never_counts() {
        for exponent in (1..=6).flat_map(|exponent| [-exponent, exponent]) {
            let value = 622e6 * 10_f64.powi(exponent);
            assert_eq!(OWN.judge(value, None, Some(value)), Err(Refusal::Band), "{exponent}");
            // The file says nothing: it counts when it is confirmed.
            assert_eq!(NOTHING.judge(value, Some(622e6), None), Err(Refusal::Jump), "{exponent}");
            assert_eq!(NOTHING.judge(value, Some(622e6), Some(value)), Ok(()), "{exponent}");
        }
    }

    #[test]
    fn a_jump_is_from_what_holds_and_that_is_the_files_at_first() {
        assert_eq!(OWN.judge(100e6, None, None), Err(Refusal::Jump));
        assert_eq!(OWN.judge(400e6, None, None), Ok(()));
        assert_eq!(OWN.judge(100e6, Some(120e6), None), Ok(()));
        assert_eq!(OWN.judge(400e6, Some(120e6), None), Err(Refusal::Jump));
        assert_eq!(OWN.judge(400e6, Some(120e6), Some(2000e6)), Err(Refusal::Jump));
        assert_eq!(OWN.judge(400e6, Some(120e6), Some(500e6)), Ok(()));
        // Nothing is known: there is nothing to jump from.
        assert_eq!(NOTHING.judge(100e6, None, None), Ok(()));
    }

    /// Runs measurements through the rules, as a source's store does.
    fn counted(expected: Expected, values: &[f64]) -> Vec<Option<f64>> {
        let (mut held, mut doubted) = (None, None);
        let each = |&value: &f64| {
            (held, doubted) = match expected.judge(value, held, doubted) {
                Ok(()) => (Some(value), None),
                Err(Refusal::Jump) => (held, Some(value)),
                Err(_) => (held, None),
            };
            held
        };
        values.iter().map(each).collect()
    }

    proptest! {
        #[test]
        fn what_counts_is_within_the_band(
            own in 1e3_f64..1e13,
            band in 2.0_f64..1e6,
            factors in prop::collection::vec(-8.0_f64..8.0, 1..50),
        ) {
            let expected = Expected { own: Some(own), band };
            let values: Vec<_> = factors.iter().map(|factor| own * 10_f64.powf(*factor)).collect();
            for counts in counted(expected, &values).into_iter().flatten() {
                prop_assert!(counts > own / band && counts < own * band);
            }
        }

        /// Among measurements of one value, any other that is alone counts for nothing.
        #[test]
        fn a_glitch_never_counts(
            truth in 1e3_f64..1e13,
            has_own in any::<bool>(),
            glitches in prop::collection::vec((0.31_f64..8.0, any::<bool>()), 1..50),
        ) {
            let expected = Expected { own: has_own.then_some(truth), band: 10.0 };
            let values = glitches.iter().flat_map(|&(factor, is_above)| {
                let factor = 10_f64.powf(if is_above { factor } else { -factor });
                [truth, truth * factor]
            });
            let values: Vec<_> = values.collect();
            for counts in counted(expected, &values) {
                prop_assert_eq!(counts, Some(truth));
            }
        }

        /// A lasting change within the band counts with its second measurement.
        #[test]
        fn what_lasts_counts_with_the_second(truth in 1e3_f64..1e13, factor in 0.11_f64..9.9) {
            let expected = Expected { own: Some(truth), band: 10.0 };
            let to = truth * factor;
            prop_assert_eq!(counted(expected, &[truth, to, to])[2], Some(to));
        }
    }
}
