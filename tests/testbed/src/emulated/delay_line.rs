//! The way from the bottleneck to the far end: every packet takes the delay, and
//! some are overtaken. Times in nanoseconds, by the emulator's clock.

use std::collections::VecDeque;

use crate::random::Random;

/// Tells how long the way is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DelayLaw {
    pub delay_ns: u64,
    /// Delay of up to so much is added, uniformly; no packet overtakes another by it.
    pub jitter_ns: u64,
    /// The share of packets that are held back, 0 to 1.
    pub reorder_probability: f64,
    /// The time for which such packets are held back.
    pub reorder_ns: u64,
    /// The number of later packets that end it when they have overtaken such a packet.
    pub reorder_packets: Option<u32>,
}

/// Packets on their way, in order of arrival.
#[derive(Debug)]
pub struct DelayLine<T> {
    law: DelayLaw,
    random: Random,
    /// The next to arrive first.
    line: VecDeque<Entry<T>>,
    /// Packets that are not in order yet, the first to be let go first.
    held: VecDeque<Held<T>>,
    latest_ns: u64,
    held_back: u64,
}

#[derive(Debug)]
struct Held<T> {
    /// Packets that have still to overtake it, where that ends it.
    left: Option<u32>,
    /// The time when it arrives in any case.
    limit_ns: u64,
    item: T,
}

#[derive(Debug)]
struct Entry<T> {
    due_ns: u64,
    item: T,
}

impl<T> DelayLine<T> {
    #[must_use]
    pub fn new(law: DelayLaw, seed: u64) -> Self {
        Self {
            law,
            random: Random::new(seed),
            line: VecDeque::new(),
            held: VecDeque::new(),
            latest_ns: 0,
            held_back: 0,
        }
    }

    /// Makes the way another one for packets to come. They don't overtake those that
    /// are on it.
    pub const fn set_delay_ns(&mut self, delay_ns: u64) {
        self.law.delay_ns = delay_ns;
    }

    /// Takes in a packet that leaves the bottleneck.
    pub fn push(&mut self, leaves_ns: u64, item: T) {
        let mut due_ns = leaves_ns.saturating_add(self.law.delay_ns);
        if self.law.jitter_ns > 0 {
            due_ns = due_ns.saturating_add(self.random.up_to(self.law.jitter_ns));
        }
        // Jitter queues behind what is late; only reordering overtakes.
        due_ns = due_ns.max(self.latest_ns);
        self.latest_ns = due_ns;
        if self.law.reorder_probability > 0.0 && self.random.chance(self.law.reorder_probability) {
            let limit_ns = due_ns.saturating_add(self.law.reorder_ns);
            self.held.push_back(Held { left: self.law.reorder_packets, limit_ns, item });
            self.held_back += 1;
            return;
        }
        self.put_in_line(due_ns, item);
        for left in self.held.iter_mut().filter_map(|held| held.left.as_mut()) {
            *left = left.saturating_sub(1);
        }
        while let Some(held) = self.held.pop_front_if(|held| held.left == Some(0)) {
            self.put_in_line(due_ns.min(held.limit_ns), held.item);
        }
    }

    fn put_in_line(&mut self, due_ns: u64, item: T) {
        // At the end, but for what was held back until its limit.
        let later = self.line.iter().rev().take_while(|entry| entry.due_ns > due_ns).count();
        self.line.insert(self.line.len() - later, Entry { due_ns, item });
    }

    /// Returns when the next packet arrives.
    #[must_use]
    pub fn next_due_ns(&self) -> Option<u64> {
        let in_line = self.line.front().map(|entry| entry.due_ns);
        let held = self.held.front().map(|held| held.limit_ns);
        in_line.into_iter().chain(held).min()
    }

    /// Takes out the next packet, if it has arrived by now.
    pub fn pop(&mut self, now_ns: u64) -> Option<T> {
        let due_ns = self.next_due_ns().filter(|due_ns| *due_ns <= now_ns)?;
        match self.line.pop_front_if(|entry| entry.due_ns == due_ns) {
            Some(entry) => Some(entry.item),
            None => self.held.pop_front().map(|held| held.item),
        }
    }

    /// Returns how many packets have been held back so far.
    #[must_use]
    pub const fn held_back(&self) -> u64 {
        self.held_back
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn drain(line: &mut DelayLine<u64>) -> Vec<u64> {
        std::iter::from_fn(|| line.pop(u64::MAX)).collect()
    }

    #[test]
    fn takes_exactly_the_delay() {
        let mut line = DelayLine::new(DelayLaw { delay_ns: 35_000_000, ..DelayLaw::default() }, 0);
        line.push(1000, 'a');
        assert_eq!(line.next_due_ns(), Some(35_001_000));
        assert_eq!(line.pop(35_000_999), None);
        assert_eq!(line.pop(35_001_000), Some('a'));
    }

    const HELD_NS: u64 = 5_000_000;

    const fn reordering(reorder_probability: f64) -> DelayLaw {
        DelayLaw {
            delay_ns: 1000,
            jitter_ns: 0,
            reorder_probability,
            reorder_ns: HELD_NS,
            reorder_packets: Some(19),
        }
    }

    #[test]
    fn packets_held_back_for_a_time_are_overtaken() {
        let law = DelayLaw { reorder_ns: 500, reorder_packets: None, ..reordering(0.1) };
        let mut line = DelayLine::new(law, 3);
        (0..1000).for_each(|number| line.push(number * 100, number));
        let held_back = line.held_back();
        let order = drain(&mut line);
        let overtaken = order.windows(2).filter(|pair| pair[0] > pair[1]).count();
        assert!((60..140).contains(&held_back), "{held_back}");
        assert!(overtaken > 50, "{overtaken}");
        assert_eq!(order.len(), 1000);
    }

    #[test]
    fn a_held_packet_is_overtaken_by_so_many() {
        let mut line = DelayLine::new(reordering(0.02), 3);
        (0..5000).for_each(|number| line.push(number * 100, number));
        let held_back = line.held_back();
        // The last ones are overtaken, too.
        line.law.reorder_probability = 0.0;
        (5000..5100).for_each(|number| line.push(number * 100, number));
        let order = drain(&mut line);
        // By how many later ones each was overtaken: the others by none.
        let overtaken: Vec<usize> = order
            .iter()
            .enumerate()
            .map(|(at, number)| order[..at].iter().filter(|before| *before > number).count())
            .filter(|count| *count > 0)
            .collect();
        assert!((60..140).contains(&held_back), "{held_back}");
        assert_eq!(overtaken, vec![19; held_back as usize]);
    }

    #[test]
    fn a_packet_that_none_overtakes_is_not_held_for_ever() {
        let mut line = DelayLine::new(reordering(1.0), 0);
        line.push(0, 'a');
        assert_eq!(line.next_due_ns(), Some(1000 + HELD_NS));
        assert_eq!(line.pop(1000 + HELD_NS - 1), None);
        assert_eq!(line.pop(1000 + HELD_NS), Some('a'));
        // Those that come long after it do not hold it any longer either.
        let mut line = DelayLine::new(reordering(0.0), 0);
        line.held.push_back(Held { left: Some(1), limit_ns: 1000 + HELD_NS, item: 'a' });
        line.push(2 * HELD_NS, 'b');
        assert_eq!((line.next_due_ns(), line.pop(u64::MAX)), (Some(1000 + HELD_NS), Some('a')));
    }

    proptest! {
        #[test]
        fn reordering_loses_and_doubles_nothing(
            gaps in prop::collection::vec(0_u64..2_000_000, 1..200),
            probability in 0.0_f64..=1.0,
            seed: u64,
        ) {
            let mut line = DelayLine::new(reordering(probability), seed);
            let (mut now, mut order) = (0, Vec::new());
            for (number, gap) in (0_u64..).zip(&gaps) {
                now += gap;
                line.push(now, number);
                order.extend(std::iter::from_fn(|| line.pop(now)));
            }
            order.extend(drain(&mut line));
            order.sort_unstable();
            prop_assert_eq!(order, (0..gaps.len() as u64).collect::<Vec<_>>());
        }

        #[test]
        fn jitter_delays_but_keeps_the_order(
            gaps in prop::collection::vec(0_u64..10_000, 1..200), seed: u64,
        ) {
            let law = DelayLaw { delay_ns: 5000, jitter_ns: 3000, ..DelayLaw::default() };
            let mut line = DelayLine::new(law, seed);
            let mut now = 0;
            for (number, gap) in (0_u64..).zip(&gaps) {
                now += gap;
                line.push(now, number);
            }
            prop_assert!(line.next_due_ns().unwrap() >= gaps[0] + 5000);
            prop_assert!(line.pop(now + 8000 - 1).is_some() || line.next_due_ns() == Some(now + 8000));
            let order = drain(&mut line);
            prop_assert!(order.is_sorted());
        }
    }
}
