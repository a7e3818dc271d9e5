//! Signals: what of a path may be worse, and than what.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::metric::{Measure, Whose};

/// Says what is measured at each tick.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Measured {
    Goodput,
    Resent,
    RttInflation,
}

/// Says what a signal is held against.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Against {
    /// As it was before: at the defaults, or at first.
    Before,
    /// The path's flows that are left at the defaults, at the same time.
    Beside,
}

/// A signal of harm.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct Signal {
    pub whose: Whose,
    pub measured: Measured,
    pub against: Against,
}

/// A reading is what some flows have shown since the last tick. None where it is not known, as
/// where there were no such flows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// Octets acknowledged in a second, of all flows together, in ticks in which one of them at
    /// least was held up by the network alone: how many share it makes no difference then.
    pub goodput: Option<f64>,
    /// The same of one flow, in the mean of those that the network alone held up: it is what flows
    /// at the same time are compared by.
    pub goodput_of_one: Option<f64>,
    /// So many flows the network alone held up.
    pub free_flows: u32,
    /// Octets sent again, as a part of all that were sent.
    pub resent: Option<f64>,
    /// The smoothed RTT over the least one, in the mean.
    pub rtt_inflation: Option<f64>,
}

/// A network at the other end of flows, by a number that others have not.
pub type Network = u64;

/// The readings of a part of the flows: all together, and by the networks at their other ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings {
    pub all: Reading,
    /// No network is there twice.
    pub by_network: Vec<(Network, Reading)>,
}

impl From<Reading> for Readings {
    /// Returns those of flows that have one network at their other ends.
    fn from(all: Reading) -> Self {
        Self { all, by_network: vec![(0, all)] }
    }
}

/// A sample is what flows have shown since the last tick, by what they got.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// The path's own that the policy is for.
    pub tuned: Readings,
    /// The path's own that are at the defaults.
    pub untuned: Readings,
    pub neighbours: Readings,
}

/// A row is a signal, and what of it is no harm yet.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub signal: Signal,
    /// Up to this ratio, in the mean, it is none.
    pub margin: f64,
}

/// The signals of a guard. Against what was before, margins are wide, as load has its hours;
/// against flows beside, both have the same.
pub const SIGNALS: [Row; 9] = [
    row(Whose::Own, Measured::Goodput, Against::Before, 3.0),
    row(Whose::Own, Measured::Resent, Against::Before, 4.0),
    row(Whose::Own, Measured::RttInflation, Against::Before, 2.0),
    row(Whose::Own, Measured::Goodput, Against::Beside, 1.5),
    row(Whose::Own, Measured::Resent, Against::Beside, 4.0),
    row(Whose::Own, Measured::RttInflation, Against::Beside, 2.0),
    row(Whose::Neighbours, Measured::Goodput, Against::Before, 3.0),
    row(Whose::Neighbours, Measured::Resent, Against::Before, 4.0),
    row(Whose::Neighbours, Measured::RttInflation, Against::Before, 2.0),
];

const fn row(whose: Whose, measured: Measured, against: Against, margin: f64) -> Row {
    Row { signal: Signal { whose, measured, against }, margin }
}

/// So many flows at least are compared with so many others by what one of them gets.
const LEAST_FLOWS: u32 = 4;

/// Less than this part sent again is none: a thousandth does no harm, whatever it was before.
pub const LEAST_RESENT: f64 = 1e-3;

impl Reading {
    /// Returns what it is of a measure; None where it is no number that could be.
    pub(super) fn of(&self, measured: Measured) -> Option<f64> {
        let value = match measured {
            Measured::Goodput => self.goodput,
            Measured::Resent => self.resent.map(|part| part.min(1.0) + LEAST_RESENT),
            Measured::RttInflation => self.rtt_inflation,
        };
        value.filter(|value| *value > 0.0 && value.is_finite())
    }

    pub(super) fn of_one(&self, measured: Measured) -> Option<f64> {
        match measured {
            Measured::Goodput => {
                self.goodput_of_one.filter(|value| *value > 0.0 && value.is_finite())
            }
            _ => self.of(measured),
        }
    }
}

impl Measured {
    /// Returns how much worse a value is than another, as a logarithm.
    pub(super) fn worse_ln(self, value_ln: f64, reference_ln: f64) -> f64 {
        match self {
            Self::Goodput => reference_ln - value_ln,
            Self::Resent | Self::RttInflation => value_ln - reference_ln,
        }
    }

    /// Returns what it is called, as in experiments.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Goodput => Measure::Goodput,
            Self::Resent => Measure::Resent,
            Self::RttInflation => Measure::RttInflation,
        }
        .words()
    }
}

impl Signal {
    pub(super) const fn is_own(&self) -> bool {
        matches!(self.whose, Whose::Own)
    }

    /// Returns how much worse it is than what it is held against, as a logarithm; None where one
    /// of both is not known.
    pub(super) fn worse_ln(
        &self,
        sample: &Sample,
        before: impl Fn(Whose, Measured, &Readings) -> Option<f64>,
    ) -> Option<f64> {
        let readings = match self.whose {
            Whose::Own => &sample.tuned,
            Whose::Neighbours => &sample.neighbours,
        };
        let worse_ln = match self.against {
            Against::Before => before(self.whose, self.measured, readings),
            // Few flows at the same time differ by chance.
            Against::Beside
                if self.measured == Measured::Goodput
                    && readings.all.free_flows.min(sample.untuned.all.free_flows) < LEAST_FLOWS =>
            {
                None
            }
            Against::Beside => {
                let value = readings.all.of_one(self.measured)?;
                let reference = sample.untuned.all.of_one(self.measured)?;
                Some(self.measured.worse_ln(value.ln(), reference.ln()))
            }
        };
        worse_ln.filter(|worse_ln| worse_ln.is_finite())
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = if self.whose == Whose::Own { "" } else { "neighbours' " };
        let against = match self.against {
            Against::Before => "than before",
            Against::Beside => "than of connections at the defaults beside",
        };
        write!(f, "{whose}{} is worse {against}", self.measured.words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(goodput: f64, resent: f64) -> Reading {
        Reading {
            goodput: Some(goodput),
            goodput_of_one: Some(goodput),
            free_flows: LEAST_FLOWS,
            resent: Some(resent),
            rtt_inflation: None,
        }
    }

    #[test]
    fn each_is_held_against_its_own() {
        let (fast, slow) = (reading(1e6, 0.0), reading(5e5, 1e-3));
        let sample =
            Sample { tuned: slow.into(), untuned: fast.into(), neighbours: Readings::default() };
        let worse = |signal: &Signal| {
            let before = |whose, _, now: &Readings| {
                (whose == Whose::Own && *now == sample.tuned).then_some(0.25)
            };
            signal.worse_ln(&sample, before).map(f64::exp)
        };
        for signal in SIGNALS.map(|row| row.signal) {
            let ratio = match (signal.whose, signal.measured, signal.against) {
                (Whose::Own, _, Against::Before) => Some(0.25_f64.exp()),
                (Whose::Own, Measured::Goodput | Measured::Resent, _) => Some(2.0),
                _ => None,
            };
            let is = worse(&signal).zip(ratio).map(|(is, ratio)| (is - ratio).abs() < 1e-9);
            assert_eq!(is, ratio.map(|_| true), "{signal:?}");
        }
    }

    #[test]
    fn few_flows_beside_each_other_say_nothing() {
        let few = Reading { free_flows: LEAST_FLOWS - 1, ..reading(1e6, 0.0) };
        let (some, few) = (Readings::from(reading(5e5, 1e-3)), Readings::from(few));
        let sample = Sample { tuned: some, untuned: few, neighbours: Readings::default() };
        let known: Vec<_> = SIGNALS
            .iter()
            .filter(|row| row.signal.worse_ln(&sample, |_, _, _| None).is_some())
            .map(|row| row.signal.measured)
            .collect();
        assert_eq!(known, [Measured::Resent]);
    }

    #[test]
    fn what_is_no_number_is_not_known() {
        for value in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
            let reading = Reading { goodput: Some(value), ..Reading::default() };
            assert_eq!(reading.of(Measured::Goodput), None);
        }
    }
}
