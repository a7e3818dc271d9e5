//! Experiments with an effect that is known, looked at after every pair of blocks.
//!
//! An effect that is added to all differences moves the limits by as much, and nothing else: so
//! how often limits miss the effect is how often there is a false verdict without any.

use std::time::Duration;

use wad_evidence::{
    plan::{Arm, MOST_BLOCKS, Plan},
    verdict::{Question, Series, Verdict},
};

use crate::noise::{KINDS, Kind, Noise};

const ALPHA: f64 = 0.05;
const QUESTION: Question = Question { alpha: ALPHA, margin_ln: 0.03 };

/// An experiment: blocks whose logarithms deviate by so much, with this effect.
#[derive(Clone, Copy)]
struct Setup {
    kind: Kind,
    deviation: f64,
    effect_ln: f64,
}

impl Setup {
    /// Returns the differences of the pairs, in the order of the plan that the seed decides.
    fn differences(self, seed: u64) -> impl Iterator<Item = f64> {
        let lengths = (Duration::from_secs(300), Duration::from_secs(10));
        let plan = Plan::new(seed, Duration::ZERO, lengths, MOST_BLOCKS).unwrap();
        let mut noise = Noise::new(self.kind, seed);
        (0..MOST_BLOCKS / 2).map(move |pair| {
            let blocks = [2 * pair, 2 * pair + 1].map(|number| {
                let arm = plan.block(number).unwrap().arm;
                let effect = if arm == Arm::Tuned { self.effect_ln } else { 0.0 };
                (arm, effect + self.deviation * noise.next())
            });
            let [(first, one), (_, other)] = blocks;
            if first == Arm::Tuned { one - other } else { other - one }
        })
    }

    /// Returns the verdict, and after how many pairs it was there.
    fn verdict(self, seed: u64, most_pairs: usize) -> Option<(Verdict, usize)> {
        let mut series = Series::new(QUESTION);
        let mut pairs = self.differences(seed).take(most_pairs).enumerate();
        pairs.find_map(|(pair, difference)| series.add(difference).map(|it| (it, pair + 1)))
    }

    /// Returns the part of experiments with a verdict of such a kind.
    fn part(self, of: (u64, usize), is_such: impl Fn(Verdict) -> bool) -> f64 {
        let (experiments, pairs) = of;
        let such = (0..experiments)
            .filter(|seed| self.verdict(*seed, pairs).is_some_and(|(verdict, _)| is_such(verdict)));
        such.count() as f64 / experiments as f64
    }

    fn false_verdicts(self, of: (u64, usize)) -> f64 {
        self.part(of, |verdict| matches!(verdict, Verdict::Better | Verdict::Worse))
    }
}

/// Without an effect. The deviation is large beside the margin, so that no verdict of equality
/// ends an experiment before it can be wrong.
const fn without_effect(kind: Kind) -> Setup {
    Setup { kind, deviation: 1.0, effect_ln: 0.0 }
}

#[test]
fn chance_is_taken_for_an_effect_no_more_often_than_is_said() {
    for kind in KINDS {
        let part = without_effect(kind).false_verdicts((400, 100));
        // Three deviations more than alpha: of 400, that is 0.033.
        assert!(part <= ALPHA + 0.033, "{kind:?}: {part}");
    }
}

#[test]
fn effects_outside_the_margin_are_not_said_to_be_none() {
    let setup = Setup { kind: Kind::Correlated, deviation: 0.1, effect_ln: QUESTION.margin_ln };
    let part = setup.part((400, 400), |verdict| verdict == Verdict::Equal);
    assert!(part <= ALPHA / 2.0 + 0.024, "{part}");
}

#[test]
fn large_effects_are_found_soon_whatever_the_noise() {
    for kind in KINDS {
        let setup = Setup { kind, deviation: 0.2, effect_ln: 2_f64.ln() };
        let verdicts: Vec<_> = (0..100).map(|seed| setup.verdict(seed, 60)).collect();
        let better = |it: &&Option<(Verdict, usize)>| matches!(it, Some((Verdict::Better, _)));
        let found = verdicts.iter().filter(better).count();
        assert!(found >= 97, "{kind:?}: {found}");
    }
}

#[test]
fn no_effect_is_found_to_be_none() {
    let setup = Setup { kind: Kind::Correlated, deviation: 0.1, effect_ln: 0.0 };
    let found = setup.part((100, 600), |verdict| verdict == Verdict::Equal);
    assert!(found >= 0.9, "{found}");
}

/// The asymptotic confidence sequence (Waudby-Smith et al., Time-uniform central limit theory and
/// asymptotic confidence sequences, 2024, theorem 2.2), tightest at 50 pairs, and looked at from
/// the tenth on, as the first at which there may be a verdict here: what was not taken. Says whether it
/// ever leaves out 0.
fn asymptotic_is_false(differences: impl Iterator<Item = f64>) -> bool {
    let ratio = (-2.0 * ALPHA.ln() + (-2.0 * ALPHA.ln() + 1.0).ln()) / 50.0;
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    { differences }.any(|difference| {
        count += 1.0;
        sum += difference;
        squares += difference * difference;
        let mean: f64 = sum / count;
        let variance: f64 = squares / count - mean * mean;
        let wide = count * ratio + 1.0;
        let half =
            (variance * 2.0 * wide / (count * count * ratio) * (wide.sqrt() / ALPHA).ln()).sqrt();
        count >= 10.0 && mean.abs() > half
    })
}

#[test]
#[ignore = "takes a minute: 10,000 experiments of 500 pairs for each kind of noise"]
fn false_verdicts_of_ten_thousand_experiments() {
    println!("noise         false verdicts   of the asymptotic sequence");
    for kind in KINDS {
        let setup = without_effect(kind);
        let part = setup.false_verdicts((10_000, 500));
        let asymptotic =
            (0..10_000).filter(|seed| asymptotic_is_false(setup.differences(*seed).take(500)));
        println!(
            "{:<14}{:>14.2}%{:>28.2}%",
            format!("{kind:?}"),
            100.0 * part,
            asymptotic.count() as f64 / 100.0
        );
        assert!(part <= ALPHA, "{kind:?}: {part}");
    }
}

#[test]
#[ignore = "takes two minutes: after how many pairs effects are found"]
fn pairs_until_effects_are_found() {
    println!("noise         deviation  effect     pairs: half, nine in ten   found   wrong");
    for kind in KINDS {
        for deviation in [0.1, 0.3] {
            for effect in [1.0, 1.05, 1.2, 2.0_f64] {
                let setup = Setup { kind, deviation, effect_ln: effect.ln() };
                let verdicts = (0..400).map(|seed| setup.verdict(seed, usize::MAX));
                let mut pairs = Vec::new();
                let mut wrong = 0;
                for (verdict, after) in verdicts.flatten() {
                    // An effect at the margin may be called none, or better.
                    let is_right = match verdict {
                        Verdict::Better => effect > 1.0,
                        Verdict::Equal => effect.ln() <= QUESTION.margin_ln,
                        _ => false,
                    };
                    wrong += u32::from(!is_right);
                    pairs.push(after);
                }
                pairs.sort_unstable();
                let at = |part: usize| {
                    pairs.get(400 * part / 10).map_or("-".to_owned(), ToString::to_string)
                };
                println!(
                    "{:<14}{deviation:>9}{:>7.0}%{:>16}{:>12}{:>12}%{wrong:>8}",
                    format!("{kind:?}"),
                    100.0 * (effect - 1.0),
                    at(5),
                    at(9),
                    pairs.len() / 4
                );
                assert!(f64::from(wrong) <= 400.0 * ALPHA, "{wrong}");
            }
        }
    }
}
