//! Bets on scores that, as a claim has it, are not positive in the mean.
//!
//! Who has 1 at first and puts a fixed part of it on each score has, if the claim is true, no
//! more than 1 in the mean at any time; that it ever comes to 1/α has a probability of α at most
//! (Ville, Étude critique de la notion de collectif, 1939; Waudby-Smith and Ramdas, Estimating
//! means of bounded random variables by betting, JRSS B 2024, section 4). So it may be looked
//! at as often as one likes. Which part is best depends on how wrong the claim is, which nobody
//! knows before: several parts are played at once, each with its share of the 1 (the mean of
//! such games is one, too).

use serde::{Deserialize, Serialize};

/// The parts of what one has that are put on each score. A score that is its greatest each time
/// is found with the first after few scores; one whose mean is a tenth of its deviation, with
/// the fourth or fifth.
pub const STAKES: [f64; 6] = [0.9, 0.45, 0.225, 0.1125, 0.056_25, 0.028_125];

/// The greatest logarithm that a gain is let grow to: there is no doubt long before.
const MOST_LN: f64 = 600.0;

/// Bets hold what each stake has made of 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bets {
    /// Natural logarithms.
    gains_ln: [f64; STAKES.len()],
}

impl Bets {
    /// Takes the next score, which is from -1 to 1; positive is against the claim.
    pub fn take(&mut self, score: f64) {
        let score = score.clamp(-1.0, 1.0);
        for (gain_ln, stake) in self.gains_ln.iter_mut().zip(STAKES) {
            *gain_ln = (*gain_ln + (stake * score).ln_1p()).min(MOST_LN);
        }
    }

    /// Takes the next score as one that the claim may have become wrong with: each stake begins
    /// again with 1 where it has less. How long the claim was right before makes no difference
    /// then; for that, the gain comes to A within N scores with a probability of N/A at most,
    /// while the claim is true (an e-detector of CUSUM form: Shin, Ramdas and Rinaldo,
    /// E-detectors, NEJSDS 2024, definition 2.6; it is no greater than that of Shiryaev and
    /// Roberts, whose mean at the N-th score is N).
    pub fn take_anew(&mut self, score: f64) {
        self.gains_ln.iter_mut().for_each(|gain_ln| *gain_ln = gain_ln.max(0.0));
        self.take(score);
    }

    /// Returns the natural logarithm of what the stakes together have made of 1.
    pub fn gain_ln(&self) -> f64 {
        let most = self.gains_ln.into_iter().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = self.gains_ln.iter().map(|gain_ln| (gain_ln - most).exp()).sum();
        most + (sum / STAKES.len() as f64).ln()
    }

    /// Says whether chance has such a gain with a probability of `alpha` at most.
    pub fn are_against(&self, alpha: f64) -> bool {
        self.gain_ln() >= -alpha.ln()
    }

    /// Says whether all that it holds can be.
    pub(crate) fn is_valid(&self) -> bool {
        self.gains_ln.iter().all(|gain_ln| gain_ln.is_finite() && *gain_ln <= MOST_LN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gain(scores: &[f64]) -> f64 {
        let mut bets = Bets::default();
        scores.iter().for_each(|score| bets.take(*score));
        bets.gain_ln().exp()
    }

    #[test]
    fn gains_are_the_mean_of_all_stakes() {
        assert!((gain(&[]) - 1.0).abs() < 1e-12);
        let mean = STAKES.iter().sum::<f64>() / 6.0;
        assert!((gain(&[1.0]) - 1.0 - mean).abs() < 1e-12);
        assert!((gain(&[-0.5]) - 1.0 + mean / 2.0).abs() < 1e-12);
    }

    /// All sequences of so many fair coins together leave what was there at first.
    #[test]
    fn a_fair_coin_has_nothing_to_give() {
        let coins = 12;
        let scores =
            |throw: u32| (0..coins).map(move |n| if throw >> n & 1 == 1 { 0.7 } else { -0.7 });
        let sum: f64 = (0..1 << coins).map(|throw| gain(&scores(throw).collect::<Vec<_>>())).sum();
        assert!((sum / f64::from(1 << coins) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn ten_of_ten_are_hardly_chance() {
        let mut bets = Bets::default();
        let mut scores = 0;
        while !bets.are_against(0.0125) {
            bets.take(1.0);
            scores += 1;
        }
        assert_eq!(scores, 10);
    }

    #[test]
    fn what_was_right_for_long_is_wrong_as_soon_as_anything_else() {
        let scores_until = |before: u32| {
            let mut bets = Bets::default();
            (0..before).for_each(|_| bets.take_anew(-1.0));
            (1..).find(|_| {
                bets.take_anew(1.0);
                bets.are_against(1e-6)
            })
        };
        assert_eq!(scores_until(0), Some(25));
        assert_eq!(scores_until(100_000), Some(25));
    }

    #[test]
    fn a_gain_without_end_stays_a_number() {
        let mut bets = Bets::default();
        (0..1_000_000).for_each(|_| bets.take(1.0));
        assert!(bets.is_valid() && bets.gain_ln() > 500.0);
    }
}
