//! Differences of pairs of blocks, and which effects can be behind them.
//!
//! Each is what a metric was with tuning less what it was without, in logarithms. Were there no
//! effect, then a difference would have had the other sign had the coin fallen otherwise: as
//! the coin is fair, so is the sign, whatever happened before and however large the difference
//! is. Nothing else is taken for granted: neither that blocks are independent of each other
//! (load has its days and hours), nor how they are distributed, nor that there are many of them
//! (Fisher, The Design of Experiments, 1935, section 21; Bojinov, Simchi-Levi and Zhao, Design
//! and analysis of switchback experiments, 2023). With an effect that is the same in all pairs,
//! the same holds of what is left when it is taken away.
//!
//! So one bets on signs ([`Bets`]), and on how large differences are only as far as those
//! before let expect: a difference counts by its size up to a scale, and as the scale
//! above (Huber's score). The scale is twice the median step from one difference to the next,
//! of those before, and so known before the coin falls; the first differences count by their
//! signs alone.
//!
//! What was not taken: normal mixtures for means (Robbins 1970; Waudby-Smith et al., asymptotic
//! confidence sequences, 2024) hold only for many blocks, and a few that are far out make them
//! as wide as they are; empirical Bernstein bounds want bounded values, which logarithms of
//! rates are not.

use crate::bets::Bets;

/// Differences that are held at most.
pub const MOST: usize = 4_096;

/// From so many steps on there is a scale.
const LEAST_STEPS: usize = 4;

/// A scale has so many median steps. The step of normal differences has a median of 0.95
/// deviations: 1.9 deviations, where Huber's score has 99 % of what there is to know of those.
const STEPS_OF_SCALE: f64 = 2.0;

/// Halvings of what limits lie in: more change no bit that counts.
const HALVINGS: usize = 64;

/// Differences of pairs, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Differences {
    values: Vec<f64>,
    /// The scale of each, made of those before it.
    scales: Vec<f64>,
    /// How far each is from the one before, in order of size.
    steps: Vec<f64>,
}

/// A side of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Least,
    Most,
}

/// Returns how a difference counts: from -1 to 1, and by its sign alone without a scale.
pub fn score(difference: f64, scale: f64) -> f64 {
    if difference == 0.0 { 0.0 } else { (difference / scale).clamp(-1.0, 1.0) }
}

impl Differences {
    /// Makes differences of those that came before, in their order.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut differences = Self::default();
        values.into_iter().for_each(|value| differences.add(value));
        differences
    }

    /// Adds one, which is finite. Those beyond [`MOST`] are left out.
    pub fn add(&mut self, value: f64) {
        debug_assert!(value.is_finite());
        if self.values.len() >= MOST {
            return;
        }
        self.scales.push(self.next_scale());
        if let Some(before) = self.values.last() {
            let step = (value - before).abs();
            let place = self.steps.partition_point(|other| *other < step);
            self.steps.insert(place, step);
        }
        self.values.push(value);
    }

    pub fn values(&self) -> &[f64] {
        &self.values
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the scale of the difference that comes next.
    pub fn next_scale(&self) -> f64 {
        if self.steps.len() < LEAST_STEPS {
            return 0.0;
        }
        STEPS_OF_SCALE * self.steps[self.steps.len() / 2]
    }

    /// Returns the effect that leaves as much above it as below; None without differences.
    pub fn estimate(&self) -> Option<f64> {
        let (least, most) = self.range()?;
        let above = |effect: f64| self.scores(effect).sum::<f64>();
        // Signs alone leave it open between two of them.
        let from = border(least, most, |effect| above(effect) > 0.0);
        let to = border(least, most, |effect| above(effect) >= 0.0);
        Some((from + to) / 2.0)
    }

    /// Returns the limit of the effects that are not refuted at this `alpha`; None where there is
    /// none yet. All limits ever seen hold together with a probability of 1 - alpha.
    pub fn limit(&self, side: Side, alpha: f64) -> Option<f64> {
        let (least, most) = self.range()?;
        // The least limit of the differences that have been turned round is the greatest.
        let sign = if side == Side::Least { 1.0 } else { -1.0 };
        let widest = self.scales.iter().copied().fold(1.0, f64::max);
        let (from, to) = if sign > 0.0 { (least, most) } else { (-most, -least) };
        // The greater the effect, the smaller each score: what is refuted ends somewhere.
        let is_refuted = |effect: f64| {
            let mut bets = Bets::default();
            self.scores(sign * effect).for_each(|score| bets.take(sign * score));
            bets.are_against(alpha)
        };
        let lowest = from - widest;
        is_refuted(lowest).then(|| sign * border(lowest, to, is_refuted))
    }

    fn scores(&self, effect: f64) -> impl Iterator<Item = f64> {
        self.values
            .iter()
            .zip(&self.scales)
            .map(move |(value, scale)| score(value - effect, *scale))
    }

    fn range(&self) -> Option<(f64, f64)> {
        let (first, rest) = self.values.split_first()?;
        Some(
            rest.iter().fold((*first, *first), |(least, most), value| {
                (least.min(*value), most.max(*value))
            }),
        )
    }
}

/// Returns where something ends that is so from the left on.
fn border(mut left: f64, mut right: f64, is_so: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..HALVINGS {
        let middle = left + (right - left) / 2.0;
        if is_so(middle) {
            left = middle;
        } else {
            right = middle;
        }
    }
    right
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_says_nothing() {
        let none = Differences::default();
        assert_eq!(none.estimate(), None);
        assert_eq!(none.limit(Side::Least, 0.05), None);
    }

    #[test]
    fn few_have_no_limits_and_more_have() {
        let least = |pairs| Differences::of(vec![0.7; pairs]).limit(Side::Least, 0.025);
        assert_eq!(least(8), None);
        // All the same: what is less is refuted by their signs.
        let limit = least(9).unwrap();
        assert!((limit - 0.7).abs() < 1e-9, "{limit}");
    }

    #[test]
    fn the_estimate_is_the_middle_of_few() {
        assert_eq!(Differences::of([3.0]).estimate(), Some(3.0));
        let middle = Differences::of([1.0, 2.0, 100.0]).estimate().unwrap();
        assert!((middle - 2.0).abs() < 1e-9, "{middle}");
        let middle = Differences::of([1.0, 2.0, 3.0, -100.0]).estimate().unwrap();
        assert!((middle - 1.5).abs() < 1e-9, "{middle}");
    }

    #[test]
    fn one_that_is_far_out_moves_little() {
        let mut values: Vec<_> = (0..60).map(|n| 0.1 + 0.05 * f64::from(n % 5)).collect();
        let before = Differences::of(values.clone()).estimate().unwrap();
        values[33] = 1e6;
        let after = Differences::of(values).estimate().unwrap();
        assert!((after - before).abs() < 0.02, "{before} {after}");
    }

    fn finite() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(-5.0..5.0, 1..80)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_estimate_is_within_the_limits(values in finite()) {
            let differences = Differences::of(values);
            let estimate = differences.estimate().unwrap();
            if let Some(least) = differences.limit(Side::Least, 0.025) {
                prop_assert!(least <= estimate + 1e-9);
            }
            if let Some(most) = differences.limit(Side::Most, 0.025) {
                prop_assert!(estimate <= most + 1e-9);
            }
        }

        #[test]
        fn turned_round_all_is_turned_round(values in finite()) {
            let differences = Differences::of(values.iter().copied());
            let turned = Differences::of(values.iter().map(|value| -value));
            let (least, most) =
                (differences.limit(Side::Least, 0.1), turned.limit(Side::Most, 0.1));
            prop_assert_eq!(least.is_some(), most.is_some());
            if let (Some(least), Some(most)) = (least, most) {
                prop_assert!((least + most).abs() < 1e-9);
            }
        }

        #[test]
        fn less_alpha_has_wider_limits(values in finite()) {
            let differences = Differences::of(values);
            let wide = differences.limit(Side::Least, 0.01);
            let narrow = differences.limit(Side::Least, 0.1);
            if let Some(wide) = wide {
                prop_assert!(wide <= narrow.unwrap() + 1e-9);
            }
        }
    }
}
