//! Metrics: what is compared, of whom, and by which amounts.

use std::{fmt, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    plan::{Arm, Moment},
    verdict::Question,
};

/// Says whose flows a metric is of.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Whose {
    /// The path's own, which are tuned in some blocks.
    Own,
    /// Others on the same way, which never are.
    Neighbours,
}

/// Says what is measured. Each is compared by its logarithm, so as a ratio.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Octets acknowledged in a second in which there were any to send, of flows that are long
    /// enough to show it and that the other end's window did not hold up (Schlinker et al., Internet performance from
    /// Facebook's edge, IMC 2019, section 3.2).
    Goodput,
    /// Octets sent again, of all that were sent.
    Resent,
    /// The smoothed RTT over the least one: what waits in queues.
    RttInflation,
    /// The time that a flow took to carry what it had, of all flows.
    Completion,
}

/// A metric of an experiment.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct Metric {
    pub whose: Whose,
    pub measure: Measure,
}

/// A row says how a metric is judged.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub metric: Metric,
    /// Its part of the experiment's alpha.
    alpha_share: f64,
    /// Ratios up to this either way count as none.
    margin: f64,
}

/// The metrics of an experiment. The first is what it is about, and has half of alpha; the other
/// half is divided among the others. All verdicts of an experiment are right together with a
/// probability of 1 - alpha (Bonferroni), however they depend on each other.
pub const METRICS: [Row; 8] = [
    row(Whose::Own, Measure::Goodput, 0.5, 1.05),
    row(Whose::Own, Measure::Resent, REST, 1.25),
    row(Whose::Own, Measure::RttInflation, REST, 1.1),
    row(Whose::Own, Measure::Completion, REST, 1.05),
    row(Whose::Neighbours, Measure::Goodput, REST, 1.05),
    row(Whose::Neighbours, Measure::Resent, REST, 1.25),
    row(Whose::Neighbours, Measure::RttInflation, REST, 1.1),
    row(Whose::Neighbours, Measure::Completion, REST, 1.05),
];

const REST: f64 = 0.5 / 7.0;

const fn row(whose: Whose, measure: Measure, alpha_share: f64, margin: f64) -> Row {
    Row { metric: Metric { whose, measure }, alpha_share, margin }
}

impl Row {
    /// Returns the question that is asked of it in an experiment of this alpha.
    #[must_use]
    pub fn question(&self, alpha: f64) -> Question {
        Question { alpha: alpha * self.alpha_share, margin_ln: self.margin.ln() }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = if self.whose == Whose::Own { "" } else { "neighbours' " };
        write!(f, "{whose}{}", self.measure.words())
    }
}

impl Measure {
    /// Returns what it is called.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Goodput => "goodput",
            Self::Resent => "octets sent again",
            Self::RttInflation => "RTT over the least RTT",
            Self::Completion => "time to carry what there was",
        }
    }

    /// Says whether more of it is better.
    #[must_use]
    pub const fn is_gain(self) -> bool {
        matches!(self, Self::Goodput)
    }
}

/// The sizes of flows that are compared with each other alone: each class begins with so many
/// octets, and the last has no end.
pub const CLASSES: [u64; 6] = [0, 16 << 10, 128 << 10, 1 << 20, 16 << 20, 256 << 20];

/// Returns the class of a flow that carried so much.
#[must_use]
pub fn class(bytes: u64) -> usize {
    // The first begins with 0.
    CLASSES.partition_point(|from| *from <= bytes) - 1
}

/// Says what kind of flow it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is the path's, and got this.
    Own(Arm),
    Neighbour,
}

/// A flow that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowEnd {
    pub kind: Kind,
    /// It was made then: what it gets was settled.
    pub began: Moment,
    /// It ended then.
    pub ended: Moment,
    pub bytes_acked: u64,
    /// All that it sent, what it sent again included.
    pub bytes_sent: u64,
    pub bytes_resent: u64,
    /// The time in which it had octets that were not acknowledged: without that in which its
    /// application had nothing to send.
    pub active: Duration,
    pub srtt: Duration,
    pub min_rtt: Duration,
    /// The part of that time in which the other end's window held it up. A send buffer that is
    /// full is none of it: it may be what tuning mends.
    pub held_up: f64,
    pub mss_bytes: u32,
}

/// The part of its time that a flow may be held up and still show goodput.
const MOST_HELD_UP: f64 = 0.1;

/// A flow shows goodput from so many segments on, which are ten standard initial windows (RFC
/// 6928): what is less is over before there is a rate. It is the same whatever window a flow had:
/// else those that count would not be alike.
const LEAST_SEGMENTS: u64 = 10 * 10;

impl FlowEnd {
    #[must_use]
    pub const fn whose(&self) -> Whose {
        match self.kind {
            Kind::Own(_) => Whose::Own,
            Kind::Neighbour => Whose::Neighbours,
        }
    }

    /// Returns its goodput, in octets in a second; None where it shows none.
    #[must_use]
    pub fn goodput(&self) -> Option<f64> {
        (self.is_long() && !self.is_held_up() && !self.active.is_zero())
            .then(|| self.bytes_acked as f64 / self.active.as_secs_f64())
    }

    fn is_long(&self) -> bool {
        self.bytes_acked >= (u64::from(self.mss_bytes) * LEAST_SEGMENTS).max(1)
    }

    /// Says whether it shows no goodput only because the other end held it up.
    #[must_use]
    pub fn is_held_up(&self) -> bool {
        self.is_long() && self.held_up > MOST_HELD_UP
    }

    /// Returns how long it took, in seconds; None where it carried nothing.
    #[must_use]
    pub fn completion(&self) -> Option<f64> {
        (self.bytes_acked > 0 && !self.active.is_zero()).then_some(self.active.as_secs_f64())
    }

    /// Returns its RTT over the least one; None where there was no sample.
    #[must_use]
    pub fn rtt_inflation(&self) -> Option<f64> {
        // The smoothed one may be the least one and have been rounded down.
        (!self.min_rtt.is_zero() && !self.srtt.is_zero())
            .then(|| (self.srtt.as_secs_f64() / self.min_rtt.as_secs_f64()).max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alpha_is_spent_once() {
        let all: f64 = METRICS.iter().map(|row| row.question(0.05).alpha).sum();
        assert!((all - 0.05).abs() < 1e-12);
    }

    #[test]
    fn classes_have_borders() {
        let classes = [0, 16_383, 16_384, 131_072, 1 << 20, 1 << 28, u64::MAX].map(class);
        assert_eq!(classes, [0, 0, 1, 2, 3, 5, 5]);
    }

    #[test]
    fn goodput_is_of_flows_that_show_it() {
        let flow = FlowEnd {
            kind: Kind::Neighbour,
            began: Duration::ZERO,
            ended: Duration::from_secs(2),
            bytes_acked: 2_000_000,
            bytes_sent: 2_000_000,
            bytes_resent: 0,
            active: Duration::from_secs(2),
            srtt: Duration::from_millis(30),
            min_rtt: Duration::from_millis(20),
            held_up: 0.05,
            mss_bytes: 1_448,
        };
        assert_eq!(flow.goodput(), Some(1e6));
        let held_up = FlowEnd { held_up: 0.2, ..flow };
        assert_eq!((held_up.goodput(), held_up.is_held_up()), (None, true));
        assert!(!FlowEnd { bytes_acked: 1_000, ..held_up }.is_held_up(), "too short anyway");
        assert_eq!(FlowEnd { bytes_acked: 144_799, ..flow }.goodput(), None);
        assert_eq!(FlowEnd { active: Duration::ZERO, ..flow }.goodput(), None);
        assert!((flow.rtt_inflation().unwrap() - 1.5).abs() < 1e-12);
        assert_eq!(FlowEnd { min_rtt: Duration::ZERO, ..flow }.rtt_inflation(), None);
        assert_eq!(FlowEnd { bytes_acked: 0, ..flow }.completion(), None);
    }
}
