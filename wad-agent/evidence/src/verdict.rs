//! Verdicts on the differences of pairs, which hold whenever they are looked at.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    bets::Bets,
    differences::{Differences, Side, score},
};

/// A question that is asked of a metric. It is fixed before there is an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// The probability, at most, of a verdict that is wrong at any look: 0 to 1. Each side of the
    /// interval has half of it.
    pub alpha: f64,
    /// Effects of no more than this either way count as none; a natural logarithm.
    pub margin_ln: f64,
}

/// A verdict says what tuning does to a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is better with it.
    Better,
    /// The difference is within the margin, whichever way.
    Equal,
    /// It is worse with it.
    Worse,
    /// Too little was seen to decide it, yet.
    GoOn,
    /// Too little was seen to decide it, and no more comes.
    Inconclusive,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Better => "better",
            Self::Equal => "equal",
            Self::Worse => "worse",
            Self::GoOn => "go on",
            Self::Inconclusive => "inconclusive",
        })
    }
}

/// An effect, as a ratio: so many times better is a metric with tuning than without, be that more
/// of it or less. Less than 1 is worse.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    pub ratio: f64,
    /// The ratios from here on are possible; None where nothing small is refuted.
    pub least: Option<f64>,
    /// The ratios up to here are possible; None where nothing great is refuted.
    pub most: Option<f64>,
}

/// A finding says what was found out, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// None where there is nothing to judge by.
    pub verdict: Option<Verdict>,
    /// The verdict stands since there were so many pairs; None where it does not.
    pub since_pairs: Option<usize>,
    pub effect: Option<Effect>,
    pub pairs: usize,
    /// So many more pairs will decide it, if they are as those seen; None where it is decided, or
    /// where nothing can be said.
    pub more_pairs: Option<u64>,
}

/// A series is the differences of a metric's pairs, with what they decide. A difference is
/// positive where tuning is better.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    question: Question,
    differences: Differences,
    /// Bets on effects that are greater than none, and less.
    up: Bets,
    down: Bets,
    /// Bets on effects above the lower end of the margin, and below the upper one.
    above: Bets,
    below: Bets,
    settled: Option<Settled>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Settled {
    verdict: Verdict,
    pairs: usize,
}

impl Series {
    pub fn new(question: Question) -> Self {
        let none = Bets::default();
        Self {
            question,
            differences: Differences::default(),
            up: none,
            down: none,
            above: none,
            below: none,
            settled: None,
        }
    }

    pub const fn question(&self) -> Question {
        self.question
    }

    pub fn differences(&self) -> &Differences {
        &self.differences
    }

    /// Adds the difference of a pair. Says which verdict stands from now on, if it is the first.
    pub fn add(&mut self, difference: f64) -> Option<Verdict> {
        let (scale, margin) = (self.differences.next_scale(), self.question.margin_ln);
        self.differences.add(difference);
        self.up.take(score(difference, scale));
        self.down.take(-score(difference, scale));
        self.above.take(score(difference + margin, scale));
        self.below.take(-score(difference - margin, scale));
        if self.settled.is_none() {
            let pairs = self.differences.len();
            self.settled = self.decided().map(|verdict| Settled { verdict, pairs });
            return self.settled.map(|settled| settled.verdict);
        }
        None
    }

    fn decided(&self) -> Option<Verdict> {
        let are_against = |bets: &Bets| bets.are_against(self.side_alpha());
        if are_against(&self.above) && are_against(&self.below) {
            Some(Verdict::Equal)
        } else if are_against(&self.up) {
            Some(Verdict::Better)
        } else if are_against(&self.down) {
            Some(Verdict::Worse)
        } else {
            None
        }
    }

    fn side_alpha(&self) -> f64 {
        self.question.alpha / 2.0
    }

    /// Returns the verdict that stands: the first one that was reached.
    pub fn settled(&self) -> Option<Verdict> {
        self.settled.map(|settled| settled.verdict)
    }

    /// Returns what is found out so far, or at the end.
    pub fn finding(&self, is_over: bool) -> Finding {
        let open = if is_over { Verdict::Inconclusive } else { Verdict::GoOn };
        let is_there = !self.differences.is_empty();
        let limit = |side| self.differences.limit(side, self.side_alpha());
        let (least, most) = (limit(Side::Least), limit(Side::Most));
        let estimate = self.differences.estimate();
        Finding {
            verdict: is_there.then(|| self.settled().unwrap_or(open)),
            since_pairs: self.settled.map(|settled| settled.pairs),
            effect: estimate.map(|estimate| Effect {
                ratio: estimate.exp(),
                least: least.map(f64::exp),
                most: most.map(f64::exp),
            }),
            pairs: self.differences.len(),
            more_pairs: match (self.settled, estimate, least, most) {
                (None, Some(estimate), Some(least), Some(most)) => {
                    self.more_pairs(estimate, least, most)
                }
                _ => None,
            },
        }
    }

    /// Says how many more pairs decide it if the effect is the one that is estimated: limits come
    /// nearer to it with the square root of the number of pairs.
    fn more_pairs(&self, estimate: f64, least: f64, most: f64) -> Option<u64> {
        let half = (most - least) / 2.0;
        // For a difference the interval has to end before 0; for none, within the margin.
        let room = estimate.abs().max(self.question.margin_ln - estimate.abs());
        let pairs = self.differences.len() as f64 * ((half / room).powi(2) - 1.0);
        pairs.is_finite().then(|| pairs.ceil().max(1.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: Question = Question { alpha: 0.05, margin_ln: 0.05 };

    fn series(differences: impl IntoIterator<Item = f64>) -> Series {
        let mut series = Series::new(QUESTION);
        differences.into_iter().for_each(|difference| {
            series.add(difference);
        });
        series
    }

    /// Differences around this, as far from it as 0.1.
    fn around(middle: f64, pairs: u32) -> impl Iterator<Item = f64> {
        (0..pairs).map(move |n| middle + 0.1 * (f64::from(n * 7 % 11) / 5.0 - 1.0))
    }

    #[test]
    fn no_data_is_no_verdict() {
        for is_over in [false, true] {
            let finding = series([]).finding(is_over);
            assert_eq!((finding.verdict, finding.effect, finding.pairs), (None, None, 0));
        }
    }

    #[test]
    fn each_verdict_is_reached() {
        let verdict =
            |middle, pairs, is_over| series(around(middle, pairs)).finding(is_over).verdict;
        assert_eq!(verdict(0.5, 20, false), Some(Verdict::Better));
        assert_eq!(verdict(-0.5, 20, false), Some(Verdict::Worse));
        assert_eq!(verdict(0.0, 200, false), Some(Verdict::Equal));
        assert_eq!(verdict(0.0, 9, false), Some(Verdict::GoOn));
        assert_eq!(verdict(0.0, 9, true), Some(Verdict::Inconclusive));
    }

    #[test]
    fn the_first_verdict_stands() {
        let series = series([0.5; 20].into_iter().chain([-0.5; 40]));
        let finding = series.finding(false);
        assert_eq!((finding.verdict, finding.since_pairs), (Some(Verdict::Better), Some(9)));
    }

    #[test]
    fn limits_and_verdict_are_of_one_mind() {
        let mut series = Series::new(QUESTION);
        for difference in around(0.08, 100) {
            series.add(difference);
            let finding = series.finding(false);
            let least = finding.effect.and_then(|effect| effect.least);
            let is_better = least.is_some_and(|least| least > 1.0);
            if finding.since_pairs.is_none_or(|since| since == finding.pairs) {
                assert_eq!(finding.verdict == Some(Verdict::Better), is_better, "{finding:?}");
            }
        }
        assert_eq!(series.settled(), Some(Verdict::Better));
    }

    #[test]
    fn how_much_more_it_needs_is_near_what_it_needs() {
        let settled = (1..500).find(|pairs| series(around(0.03, *pairs)).settled().is_some());
        let settled = f64::from(settled.unwrap());
        let at = (settled / 2.0) as u32;
        let more = series(around(0.03, at)).finding(false).more_pairs.unwrap() as f64;
        assert!((0.5..2.0).contains(&((f64::from(at) + more) / settled)), "{settled} {more}");
    }
}
