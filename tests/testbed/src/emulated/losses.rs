//! Losses decide which segments are lost or marked on the way: at random, or by plan.
//! Times in nanoseconds, by the emulator's clock.

use crate::random::Random;

/// Tells what is to be lost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LossLaw {
    /// The probability of a loss of any segment, from 0 to 1.
    pub probability: f64,
    /// Segments with data, counted from 1, retransmissions included.
    pub data_packets: Vec<u64>,
    /// The first segment with data so long after the very first one.
    pub after_ns: Vec<u64>,
    /// The first one then that may be marked is: "congestion experienced".
    pub mark_after_ns: Vec<u64>,
}

/// Tells what befalls a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    LostAtRandom,
    LostByPlan,
    Marked,
}

/// Holds what counts of a segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passing {
    pub carries_data: bool,
    /// Tells whether its sender understands marks (ECT, RFC 3168).
    pub markable: bool,
}

/// A law of losses at work.
#[derive(Clone, Debug)]
pub struct Losses {
    probability: f64,
    random: Random,
    /// Next one last.
    data_packets: Vec<u64>,
    after_ns: Vec<u64>,
    mark_after_ns: Vec<u64>,
    data_seen: u64,
    first_data_ns: u64,
}

impl Losses {
    #[must_use]
    pub fn new(law: LossLaw, seed: u64) -> Self {
        Self {
            probability: law.probability,
            random: Random::new(seed),
            data_packets: next_last(law.data_packets),
            after_ns: next_last(law.after_ns),
            mark_after_ns: next_last(law.mark_after_ns),
            data_seen: 0,
            first_data_ns: 0,
        }
    }

    /// Loses any segment with this probability from now on.
    pub const fn set_probability(&mut self, probability: f64) {
        self.probability = probability;
    }

    /// Judges a segment that comes; returns what befalls it, if anything.
    pub fn judge(&mut self, now_ns: u64, passing: Passing) -> Option<Fate> {
        let planned = if passing.carries_data { self.planned(now_ns, passing) } else { None };
        planned.or_else(|| {
            let lost = self.probability > 0.0 && self.random.chance(self.probability);
            lost.then_some(Fate::LostAtRandom)
        })
    }

    fn planned(&mut self, now_ns: u64, passing: Passing) -> Option<Fate> {
        if self.data_seen == 0 {
            self.first_data_ns = now_ns;
        }
        self.data_seen += 1;
        let since_ns = now_ns.saturating_sub(self.first_data_ns);
        let by_number = self.data_packets.pop_if(|number| *number <= self.data_seen);
        if by_number.is_some() || self.after_ns.pop_if(|after| *after <= since_ns).is_some() {
            return Some(Fate::LostByPlan);
        }
        let marked = self.mark_after_ns.pop_if(|after| passing.markable && *after <= since_ns);
        marked.map(|_| Fate::Marked)
    }
}

fn next_last(mut values: Vec<u64>) -> Vec<u64> {
    values.sort_unstable_by(|one, other| other.cmp(one));
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: Passing = Passing { carries_data: true, markable: false };

    fn lost(losses: &mut Losses, segments: u64) -> Vec<u64> {
        (1..=segments).filter(|number| losses.judge(number * 1000, DATA).is_some()).collect()
    }

    #[test]
    fn drops_the_numbered_data_packets_only() {
        let law = LossLaw { data_packets: vec![7, 3], ..LossLaw::default() };
        let mut losses = Losses::new(law, 0);
        assert_eq!(losses.judge(0, Passing::default()), None, "an ACK does not count");
        assert_eq!(lost(&mut losses, 20), [3, 7]);
    }

    #[test]
    fn drops_once_at_each_time() {
        let law = LossLaw { after_ns: vec![4500, 9000], ..LossLaw::default() };
        // The first comes at 1000: 5500 and 10,000 are due.
        assert_eq!(lost(&mut Losses::new(law, 0), 20), [6, 10]);
    }

    #[test]
    fn marks_the_first_that_may_be() {
        let law = LossLaw { mark_after_ns: vec![3000], ..LossLaw::default() };
        let mut losses = Losses::new(law, 0);
        let markable = Passing { markable: true, ..DATA };
        assert_eq!(losses.judge(1000, markable), None, "too early");
        assert_eq!(losses.judge(5000, DATA), None, "not by its sender");
        assert_eq!(losses.judge(6000, markable), Some(Fate::Marked));
        assert_eq!(losses.judge(7000, markable), None, "once");
    }

    #[test]
    fn random_loss_repeats_with_its_seed() {
        let law = LossLaw { probability: 0.1, ..LossLaw::default() };
        let drops = |seed| lost(&mut Losses::new(law.clone(), seed), 1000);
        assert_eq!(drops(5), drops(5));
        assert_ne!(drops(5), drops(6));
        assert!((70..130).contains(&drops(5).len()));
    }
}
