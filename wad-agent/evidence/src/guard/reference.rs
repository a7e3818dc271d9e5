//! References: what signals were when all of a path's flows were at the defaults, or at first.
//!
//! Flows of a path differ: by where they go, and how many there are. So nothing counts as worse
//! that is so only because others than before are there now. Of flows that go to networks of which
//! something is known, each of these has to be worse: what all carry together, what those to
//! each network carry together, and what one of them does.

mod networks;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use self::networks::Networks;
use super::signal::{Measured, Reading, Readings};
use crate::metric::Whose;

/// The newest values are kept, so many of each.
const MOST: usize = 60;

/// From so many on their median is a reference.
const LEAST: usize = 6;

/// So many ticks after a path's flows went back do not count: queues have to drain first.
const SETTLING_TICKS: u32 = 3;

const MEASURED: [Measured; 3] = [Measured::Goodput, Measured::Resent, Measured::RttInflation];

/// The newest values of a path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct References {
    own: OfPart,
    neighbours: OfPart,
    unsettled_ticks: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfPart {
    all: [Values; MEASURED.len()],
    networks: Networks,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "VecDeque<f64>", into = "VecDeque<f64>")]
struct Values(VecDeque<f64>);

impl References {
    /// Flows have just gone back to the defaults: what is learned now soon takes the place of
    /// what was.
    pub fn settle(&mut self) {
        self.unsettled_ticks = SETTLING_TICKS;
        for part in [&mut self.own, &mut self.neighbours] {
            part.all.iter_mut().for_each(Values::fade);
            part.networks.fade();
        }
    }

    /// Takes what flows have shown. Says whether the path's own showed anything.
    pub fn learn(&mut self, own: &Readings, neighbours: &Readings) -> bool {
        if self.unsettled_ticks > 0 {
            self.unsettled_ticks -= 1;
            return false;
        }
        for (part, readings) in [(&mut self.own, own), (&mut self.neighbours, neighbours)] {
            for (values, measured) in part.all.iter_mut().zip(MEASURED) {
                readings.all.of(measured).into_iter().for_each(|value| values.add(value));
            }
            readings.by_network.iter().for_each(|(of, reading)| part.networks.learn(*of, reading));
        }
        is_any(&own.all)
    }

    /// Takes what flows show to networks of which nothing is known, while the policy is in force.
    pub fn meet(&mut self, own: &Readings, neighbours: &Readings) {
        for (part, readings) in [(&mut self.own, own), (&mut self.neighbours, neighbours)] {
            readings.by_network.iter().for_each(|(of, reading)| part.networks.meet(*of, reading));
        }
    }

    /// Returns how much worse flows are than they were, as a logarithm; None where too little is
    /// known.
    pub fn worse_ln(&self, whose: Whose, measured: Measured, now: &Readings) -> Option<f64> {
        let part = match whose {
            Whose::Own => &self.own,
            Whose::Neighbours => &self.neighbours,
        };
        let before = part.all[measured as usize].median()?;
        let all_ln = measured.worse_ln(now.all.of(measured)?.ln(), before.ln());
        Some(all_ln.min(part.networks.worse_ln(measured, &now.by_network)?))
    }
}

fn is_any(reading: &Reading) -> bool {
    MEASURED.iter().any(|measured| reading.of(*measured).is_some())
}

impl Values {
    fn add(&mut self, value: f64) {
        let Self(values) = self;
        if values.len() == MOST {
            values.pop_front();
        }
        values.push_back(value);
    }

    /// Leaves the newest: as many as come hereafter outvote them.
    fn fade(&mut self) {
        let Self(values) = self;
        values.drain(..values.len().saturating_sub(LEAST));
    }

    fn median(&self) -> Option<f64> {
        let Self(values) = self;
        let mut sorted: Vec<_> = values.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        (sorted.len() >= LEAST).then(|| sorted[sorted.len() / 2])
    }
}

impl From<Values> for VecDeque<f64> {
    fn from(Values(values): Values) -> Self {
        values
    }
}

impl TryFrom<VecDeque<f64>> for Values {
    type Error = &'static str;

    fn try_from(values: VecDeque<f64>) -> Result<Self, Self::Error> {
        let is_valid = values.iter().all(|value| *value > 0.0 && value.is_finite());
        let is_kept = values.len() <= MOST && is_valid;
        is_kept.then_some(Self(values)).ok_or("no such values are kept as a reference")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(goodput: f64) -> Reading {
        let goodput = Some(goodput);
        Reading { goodput, goodput_of_one: goodput, ..Reading::default() }
    }

    /// Returns how many times worse the goodput is than before.
    fn worse(references: &References, now: &Readings) -> Option<f64> {
        let worse_ln = references.worse_ln(Whose::Own, Measured::Goodput, now);
        worse_ln.map(|worse_ln| (worse_ln.exp() * 1e3).round() / 1e3)
    }

    fn learn(references: &mut References, readings: &Readings, ticks: usize) {
        (0..ticks).for_each(|_| _ = references.learn(readings, &Readings::default()));
    }

    #[test]
    fn the_newest_count_once_there_are_enough() {
        let mut references = References::default();
        let now = Readings::from(reading(5e5));
        for n in 0..5 {
            assert!(references.learn(&reading(1e6).into(), &Readings::default()));
            assert_eq!(worse(&references, &now), None, "{n}");
        }
        learn(&mut references, &reading(1e6).into(), 1);
        assert_eq!(worse(&references, &now), Some(2.0));
        let neighbours = references.worse_ln(Whose::Neighbours, Measured::Goodput, &now);
        assert_eq!(neighbours, None);
        learn(&mut references, &reading(2e6).into(), 200);
        assert_eq!(worse(&references, &now), Some(4.0));
        // What is learned after a return soon outvotes what was.
        references.settle();
        learn(&mut references, &reading(5e5).into(), 3 + 60);
        assert_eq!(worse(&references, &now), Some(1.0));
    }

    #[test]
    fn queues_drain_first() {
        let mut references = References::default();
        references.settle();
        let slow = Readings::from(reading(1.0));
        (0..3).for_each(|_| assert!(!references.learn(&slow, &slow)));
        let fast = Readings::from(reading(1e6));
        assert!(references.learn(&fast, &fast));
    }

    #[test]
    fn other_flows_than_before_are_not_worse_ones() {
        let of = |networks: &[(u64, f64, f64)]| Readings {
            all: reading(networks.iter().map(|(_, all, _)| all).sum()),
            by_network: networks
                .iter()
                .map(|(of, all, one)| {
                    (*of, Reading { goodput_of_one: Some(*one), ..reading(*all) })
                })
                .collect(),
        };
        let mut references = References::default();
        learn(&mut references, &of(&[(1, 1e8, 1e7)]), 30);
        learn(&mut references, &of(&[(1, 9e7, 9e6), (2, 1e6, 1e6)]), 30);
        let tenth = worse(&references, &of(&[(1, 1e7, 1e6)])).unwrap();
        assert!((9.0..10.0).contains(&tenth), "{tenth}");
        // A slow network alone, one that nobody knows, fewer flows, and many beside each other.
        assert_eq!(worse(&references, &of(&[(2, 1e6, 1e6)])), Some(1.0));
        assert_eq!(worse(&references, &of(&[(3, 1e5, 1e5)])), None);
        assert!(worse(&references, &of(&[(1, 1e7, 1e7)])).unwrap() < 1.1);
        assert!(worse(&references, &of(&[(1, 1e7, 1e6), (3, 9e7, 9e6)])).unwrap() < 1.1);
        // What is new is known after a while.
        (0..30).for_each(|_| references.meet(&of(&[(3, 1e5, 1e5)]), &Readings::default()));
        assert_eq!(worse(&references, &of(&[(3, 1e4, 1e4)])), Some(10.0));
    }
}
