//! A tally is what the flows of one block have shown.

use serde::{Deserialize, Serialize};

use crate::metric::{CLASSES, FlowEnd, Measure, Metric, Whose, class};

/// Less than this part sent again makes no difference: a ratio of two parts that are nearly
/// nothing says nothing.
pub const LEAST_RESENT: f64 = 1e-4;

/// No logarithm of what was measured is farther from 0, nor is a difference of two: what it is of
/// is a number.
pub const MOST_LN: f64 = 700.0;

/// A mean of logarithms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mean {
    flows: u64,
    sum_ln: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.flows = self.flows.saturating_add(1);
        self.sum_ln += value.ln();
    }

    fn mean(&self) -> f64 {
        self.sum_ln / self.flows as f64
    }
}

/// A tally of some flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Flows {
    flows: u64,
    /// So many of them show no goodput, as the other end's window held them up.
    held_up: u64,
    goodput: [Mean; CLASSES.len()],
    completion: [Mean; CLASSES.len()],
    rtt_inflation: Mean,
    bytes_sent: u64,
    bytes_resent: u64,
}

/// A tally of a block: its flows, by whose they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    own: Flows,
    neighbours: Flows,
}

/// The flows of a class, compared: what is shown beside a metric, and not judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// The logarithm of the ratio with tuning to without.
    pub difference: f64,
    /// It counts for so much beside others.
    pub weight: f64,
}

impl Tally {
    /// Adds a flow.
    pub fn add(&mut self, flow: &FlowEnd) {
        let of = match flow.whose() {
            Whose::Own => &mut self.own,
            Whose::Neighbours => &mut self.neighbours,
        };
        let class = class(flow.bytes_acked);
        of.flows = of.flows.saturating_add(1);
        of.held_up = of.held_up.saturating_add(flow.is_held_up().into());
        if let Some(goodput) = flow.goodput() {
            of.goodput[class].add(goodput);
        }
        if let Some(completion) = flow.completion() {
            of.completion[class].add(completion);
        }
        if let Some(rtt_inflation) = flow.rtt_inflation() {
            of.rtt_inflation.add(rtt_inflation);
        }
        of.bytes_sent = of.bytes_sent.saturating_add(flow.bytes_sent);
        of.bytes_resent = of.bytes_resent.saturating_add(flow.bytes_resent.min(flow.bytes_sent));
    }

    /// Returns how many flows it has, of whomever.
    #[must_use]
    pub const fn flows(&self) -> u64 {
        self.own.flows.saturating_add(self.neighbours.flows)
    }

    /// Returns how many of the path's own show no goodput, as the other end held them up.
    #[must_use]
    pub const fn held_up(&self) -> u64 {
        self.own.held_up
    }

    /// Returns how many flows of these it has.
    #[must_use]
    pub const fn flows_of(&self, whose: Whose) -> u64 {
        self.of(whose).flows
    }

    const fn of(&self, whose: Whose) -> &Flows {
        match whose {
            Whose::Own => &self.own,
            Whose::Neighbours => &self.neighbours,
        }
    }

    /// Says whether all that it holds can be.
    pub(crate) fn is_valid(&self) -> bool {
        let means = |flows: &Flows| {
            let all = flows.goodput.into_iter().chain(flows.completion);
            let can_be = |mean: Mean| mean.sum_ln.abs() <= mean.flows as f64 * MOST_LN;
            all.chain([flows.rtt_inflation]).all(can_be)
        };
        means(&self.own) && means(&self.neighbours)
    }
}

/// Returns what tuning makes better in this metric, as a logarithm; None where one of both
/// shows nothing of it.
#[must_use]
pub fn difference(metric: Metric, tuned: &Tally, default: &Tally) -> Option<f64> {
    let (with, without) = (tuned.of(metric.whose), default.of(metric.whose));
    let greater = match metric.measure {
        Measure::Goodput => of_classes(&with.goodput, &without.goodput),
        Measure::Completion => of_classes(&with.completion, &without.completion),
        Measure::RttInflation => of_classes(&[with.rtt_inflation], &[without.rtt_inflation]),
        Measure::Resent => {
            resent_ln(with).zip(resent_ln(without)).map(|(with, without)| with - without)
        }
    };
    greater.map(|greater| if metric.measure.is_gain() { greater } else { -greater })
}

/// Returns the difference of each class of sizes; None where one of both has no flow in it.
#[must_use]
pub fn by_class(
    metric: Metric,
    tuned: &Tally,
    default: &Tally,
) -> Option<[Option<Compared>; CLASSES.len()]> {
    let (with, without) = (tuned.of(metric.whose), default.of(metric.whose));
    let (with, without) = match metric.measure {
        Measure::Goodput => (with.goodput, without.goodput),
        Measure::Completion => (with.completion, without.completion),
        Measure::RttInflation | Measure::Resent => return None,
    };
    Some(std::array::from_fn(|class| compared(&with[class], &without[class])))
}

/// Returns the mean of the differences of all classes: flows are held against those of their
/// size alone, so that it makes no difference which sizes a block happened to have. Exchanged,
/// both change the sign and nothing else.
fn of_classes(with: &[Mean], without: &[Mean]) -> Option<f64> {
    let classes = with.iter().zip(without).filter_map(|(with, without)| compared(with, without));
    let (sum, weights) = classes.fold((0.0, 0.0), |(sum, weights), class| {
        (sum + class.weight * class.difference, weights + class.weight)
    });
    (weights > 0.0).then(|| sum / weights)
}

fn compared(with: &Mean, without: &Mean) -> Option<Compared> {
    let flows = (with.flows as f64, without.flows as f64);
    // The inverse of the variance of a difference of means of so many.
    let weight = flows.0 * flows.1 / (flows.0 + flows.1);
    (with.flows > 0 && without.flows > 0)
        .then(|| Compared { difference: with.mean() - without.mean(), weight })
}

fn resent_ln(flows: &Flows) -> Option<f64> {
    let part = flows.bytes_resent as f64 / flows.bytes_sent as f64;
    (flows.bytes_sent > 0).then(|| (part + LEAST_RESENT).ln())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{metric::Kind, plan::Arm};

    fn flow(bytes: u64, seconds: f64) -> FlowEnd {
        FlowEnd {
            kind: Kind::Own(Arm::Tuned),
            began: Duration::ZERO,
            ended: Duration::ZERO,
            bytes_acked: bytes,
            bytes_sent: bytes,
            bytes_resent: 0,
            active: Duration::from_secs_f64(seconds),
            srtt: Duration::from_millis(20),
            min_rtt: Duration::from_millis(20),
            held_up: 0.0,
            mss_bytes: 1_448,
        }
    }

    fn tally(flows: &[FlowEnd]) -> Tally {
        let mut tally = Tally::default();
        flows.iter().for_each(|flow| tally.add(flow));
        tally
    }

    const fn own(measure: Measure) -> Metric {
        Metric { whose: Whose::Own, measure }
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn sizes_are_held_against_their_like() {
        // Twice as fast in each class, though most of the second block's are long, and fast.
        let tuned = tally(&[flow(MIB, 1.0), flow(MIB, 1.0), flow(MIB, 1.0), flow(64 * MIB, 8.0)]);
        let default = tally(&[flow(MIB, 2.0), flow(64 * MIB, 16.0), flow(64 * MIB, 16.0)]);
        let goodput = difference(own(Measure::Goodput), &tuned, &default).unwrap();
        assert!((goodput - 2_f64.ln()).abs() < 1e-12);
        let completion = difference(own(Measure::Completion), &tuned, &default).unwrap();
        assert!((completion - 2_f64.ln()).abs() < 1e-12, "less is better");
        let turned = difference(own(Measure::Goodput), &default, &tuned).unwrap();
        assert!((goodput + turned).abs() < 1e-12);
        let classes = by_class(own(Measure::Goodput), &tuned, &default).unwrap();
        assert!(classes[0].is_none() && classes[3].is_some() && classes[4].is_some());
    }

    #[test]
    fn nothing_in_common_is_no_difference() {
        let (one, other) = (tally(&[flow(MIB, 1.0)]), tally(&[flow(64 * MIB, 8.0)]));
        assert_eq!(difference(own(Measure::Goodput), &one, &other), None);
        let of_neighbours = Metric { whose: Whose::Neighbours, measure: Measure::Resent };
        assert_eq!(difference(of_neighbours, &one, &other), None);
    }

    #[test]
    fn nearly_nothing_sent_again_is_nothing() {
        let resent = |bytes_resent| tally(&[FlowEnd { bytes_resent, ..flow(1_000 * MIB, 9.0) }]);
        let metric = own(Measure::Resent);
        let little = difference(metric, &resent(0), &resent(10_000)).unwrap();
        assert!(little > 0.0 && little < 0.1, "{little}");
        let much = difference(metric, &resent(0), &resent(10 * MIB)).unwrap();
        assert!((much - 101_f64.ln()).abs() < 0.01, "{much}");
    }
}
