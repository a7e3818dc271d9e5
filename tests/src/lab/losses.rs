//! Which segments are lost on the way: at random, or by plan. Times in
//! nanoseconds, by the emulator's clock.

use super::random::Random;

/// What is to be lost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LossLaw {
    /// Of any segment, from 0 to 1.
    pub probability: f64,
    /// Segments with data, counted from 1, retransmissions included.
    pub data_packets: Vec<u64>,
    /// The first segment with data so long after the very first one.
    pub after_ns: Vec<u64>,
}

/// Why a segment is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    Random,
    Planned,
}

/// The law at work.
#[derive(Clone, Debug)]
pub struct Losses {
    probability: f64,
    random: Random,
    /// Next one last.
    data_packets: Vec<u64>,
    after_ns: Vec<u64>,
    data_seen: u64,
    first_data_ns: u64,
}

impl Losses {
    #[must_use]
    pub fn new(law: LossLaw, seed: u64) -> Self {
        let LossLaw { probability, mut data_packets, mut after_ns } = law;
        data_packets.sort_unstable_by(|one, other| other.cmp(one));
        after_ns.sort_unstable_by(|one, other| other.cmp(one));
        Self {
            probability,
            random: Random::new(seed),
            data_packets,
            after_ns,
            data_seen: 0,
            first_data_ns: 0,
        }
    }

    /// A segment comes: whether, and why, it is lost.
    pub fn judge(&mut self, now_ns: u64, carries_data: bool) -> Option<Loss> {
        if carries_data && self.is_planned(now_ns) {
            return Some(Loss::Planned);
        }
        (self.probability > 0.0 && self.random.chance(self.probability)).then_some(Loss::Random)
    }

    fn is_planned(&mut self, now_ns: u64) -> bool {
        if self.data_seen == 0 {
            self.first_data_ns = now_ns;
        }
        self.data_seen += 1;
        let since_ns = now_ns.saturating_sub(self.first_data_ns);
        let by_number = self.data_packets.pop_if(|number| *number <= self.data_seen);
        by_number.is_some() || self.after_ns.pop_if(|after| *after <= since_ns).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(losses: &mut Losses, segments: u64) -> Vec<u64> {
        (1..=segments).filter(|number| losses.judge(number * 1000, true).is_some()).collect()
    }

    #[test]
    fn drops_the_numbered_data_packets_only() {
        let law = LossLaw { data_packets: vec![7, 3], ..LossLaw::default() };
        let mut losses = Losses::new(law, 0);
        assert_eq!(losses.judge(0, false), None, "an ACK does not count");
        assert_eq!(lost(&mut losses, 20), [3, 7]);
    }

    #[test]
    fn drops_once_at_each_time() {
        let law = LossLaw { after_ns: vec![4500, 9000], ..LossLaw::default() };
        // The first comes at 1000: 5500 and 10,000 are due.
        assert_eq!(lost(&mut Losses::new(law, 0), 20), [6, 10]);
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
