//! Readings are made of what each flow has done since the last tick.

use std::{collections::BTreeMap, time::Duration};

use super::signal::{Network, Reading, Readings, Sample};

/// Says which part of a sample a flow is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Tuned,
    Untuned,
    Neighbours,
}

/// A step is what a flow has done since the last tick.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// The network at its other end.
    pub network: Network,
    pub bytes_acked: u64,
    /// All that it sent, what it sent again included.
    pub bytes_sent: u64,
    pub bytes_resent: u64,
    /// The smoothed RTT as it is now; 0 for none.
    pub srtt: Duration,
    /// The least RTT; 0 for none.
    pub min_rtt: Duration,
    /// The part of the time in which its application, or the other end's window, held it up, or
    /// in which it had nothing to send; 1 while it is so young that it has not found its rate.
    pub held_up: f64,
}

/// The part of the time that a flow may be held up and count as one that the network alone holds
/// up.
const MOST_HELD_UP: f64 = 0.1;

#[derive(Clone, Copy, Default)]
struct Sums {
    bytes_acked: u64,
    bytes_sent: u64,
    bytes_resent: u64,
    /// Flows that the network alone held up.
    free_flows: u32,
    free_rate_ln: f64,
    rtt_flows: u32,
    rtt_inflation_ln: f64,
}

impl Sums {
    fn add(&mut self, step: &Step, passed: Duration) {
        self.bytes_acked = self.bytes_acked.saturating_add(step.bytes_acked);
        self.bytes_sent = self.bytes_sent.saturating_add(step.bytes_sent);
        self.bytes_resent = self.bytes_resent.saturating_add(step.bytes_resent);
        if step.held_up <= MOST_HELD_UP && step.bytes_acked > 0 {
            self.free_flows += 1;
            self.free_rate_ln += (step.bytes_acked as f64 / passed.as_secs_f64()).ln();
        }
        // A flow that sends nothing has an RTT of earlier.
        if step.bytes_acked > 0 && !step.srtt.is_zero() && !step.min_rtt.is_zero() {
            let inflation = step.srtt.as_secs_f64() / step.min_rtt.as_secs_f64();
            self.rtt_flows += 1;
            self.rtt_inflation_ln += inflation.max(1.0).ln();
        }
    }

    fn reading(&self, passed: Duration) -> Reading {
        let is_free = self.free_flows > 0;
        let mean = |sum_ln: f64, flows: u32| (flows > 0).then(|| (sum_ln / f64::from(flows)).exp());
        Reading {
            goodput: is_free.then(|| self.bytes_acked as f64 / passed.as_secs_f64()),
            goodput_of_one: mean(self.free_rate_ln, self.free_flows),
            free_flows: self.free_flows,
            resent: (self.bytes_sent > 0)
                .then(|| self.bytes_resent as f64 / self.bytes_sent as f64),
            rtt_inflation: mean(self.rtt_inflation_ln, self.rtt_flows),
        }
    }
}

impl Sample {
    /// Returns what flows have shown together in the time that has passed.
    #[must_use]
    pub fn of(flows: impl IntoIterator<Item = (Part, Step)>, passed: Duration) -> Self {
        if passed.is_zero() {
            return Self::default();
        }
        let mut parts = <[(Sums, BTreeMap<Network, Sums>); 3]>::default();
        for (part, step) in flows {
            let (all, by_network) = &mut parts[part as usize];
            all.add(&step, passed);
            by_network.entry(step.network).or_default().add(&step, passed);
        }
        let [tuned, untuned, neighbours] = parts.map(|(all, by_network)| {
            let by_network = by_network.into_iter();
            Readings {
                all: all.reading(passed),
                by_network: by_network.map(|(of, sums)| (of, sums.reading(passed))).collect(),
            }
        });
        Self { tuned, untuned, neighbours }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSED: Duration = Duration::from_secs(5);

    fn step(bytes_acked: u64, held_up: f64) -> Step {
        Step {
            network: 7,
            bytes_acked,
            bytes_sent: bytes_acked,
            bytes_resent: bytes_acked / 100,
            srtt: Duration::from_millis(40),
            min_rtt: Duration::from_millis(20),
            held_up,
        }
    }

    #[test]
    fn flows_that_were_held_up_show_no_goodput_of_the_path() {
        let held_up = Sample::of([(Part::Tuned, step(5_000, 0.5))], PASSED).tuned.all;
        assert_eq!((held_up.goodput, held_up.goodput_of_one), (None, None));
        assert_eq!(held_up.resent, Some(0.01));
        // Beside one that was not, they are part of what the path carried.
        let both = [(Part::Tuned, step(5_000, 0.5)), (Part::Tuned, step(50_000, 0.0))];
        let both = Sample::of(both, PASSED).tuned.all;
        assert_eq!(both.goodput, Some(11_000.0));
        assert!((both.goodput_of_one.unwrap() - 10_000.0).abs() < 1e-6);
        assert!((both.rtt_inflation.unwrap() - 2.0).abs() < 1e-12);
    }

    #[test]
    fn networks_are_told_apart() {
        let there = Step { network: 8, ..step(5_000, 0.0) };
        let flows = [(Part::Tuned, step(50_000, 0.0)), (Part::Tuned, there)];
        let Readings { all, by_network } = Sample::of(flows, PASSED).tuned;
        assert_eq!(all.goodput, Some(11_000.0));
        let goodput: Vec<_> = by_network.iter().map(|(of, it)| (*of, it.goodput)).collect();
        assert_eq!(goodput, [(7, Some(10_000.0)), (8, Some(1_000.0))]);
    }

    #[test]
    fn each_part_has_its_own_and_nothing_is_not_known() {
        let sample = Sample::of([(Part::Neighbours, step(50_000, 0.0))], PASSED);
        assert_eq!((sample.tuned, sample.untuned), (Readings::default(), Readings::default()));
        assert_eq!(sample.neighbours.all.goodput, Some(10_000.0));
        assert_eq!(Sample::of([(Part::Tuned, step(1, 0.0))], Duration::ZERO), Sample::default());
        let idle = Sample::of([(Part::Tuned, step(0, 0.0))], PASSED).tuned.all;
        assert_eq!(idle, Reading::default());
    }
}
