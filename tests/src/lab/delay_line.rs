//! The way from the bottleneck to the far end: every packet takes the delay,
//! some of them longer. Times in nanoseconds, by the emulator's clock.

use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
};

use super::random::Random;

/// How long the way is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DelayLaw {
    pub delay_ns: u64,
    /// Up to so much is added, uniformly; no packet overtakes another by it.
    pub jitter_ns: u64,
    /// Share of packets that are held back and so may be overtaken, 0 to 1.
    pub reorder_probability: f64,
    /// For how long they are held back.
    pub reorder_ns: u64,
}

/// Packets on their way, in order of arrival.
#[derive(Debug)]
pub struct DelayLine<T> {
    law: DelayLaw,
    random: Random,
    heap: BinaryHeap<Reverse<Entry<T>>>,
    count: u64,
    latest_ns: u64,
    held_back: u64,
}

#[derive(Debug)]
struct Entry<T> {
    due_ns: u64,
    /// Keeps packets due at the same time in order.
    number: u64,
    item: T,
}

impl<T> DelayLine<T> {
    #[must_use]
    pub fn new(law: DelayLaw, seed: u64) -> Self {
        let heap = BinaryHeap::new();
        Self { law, random: Random::new(seed), heap, count: 0, latest_ns: 0, held_back: 0 }
    }

    /// The way becomes another one for packets to come. They don't overtake those
    /// that are on it.
    pub const fn set_delay_ns(&mut self, delay_ns: u64) {
        self.law.delay_ns = delay_ns;
    }

    /// A packet leaves the bottleneck.
    pub fn push(&mut self, leaves_ns: u64, item: T) {
        let mut due_ns = leaves_ns.saturating_add(self.law.delay_ns);
        if self.law.jitter_ns > 0 {
            due_ns = due_ns.saturating_add(self.random.up_to(self.law.jitter_ns));
        }
        // Jitter queues behind what is late; only reordering overtakes.
        due_ns = due_ns.max(self.latest_ns);
        self.latest_ns = due_ns;
        if self.law.reorder_probability > 0.0 && self.random.chance(self.law.reorder_probability) {
            due_ns = due_ns.saturating_add(self.law.reorder_ns);
            self.held_back += 1;
        }
        self.heap.push(Reverse(Entry { due_ns, number: self.count, item }));
        self.count += 1;
    }

    /// When the next packet arrives.
    #[must_use]
    pub fn next_due_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(entry)| entry.due_ns)
    }

    /// The next packet, if it has arrived by now.
    pub fn pop(&mut self, now_ns: u64) -> Option<T> {
        if self.next_due_ns()? > now_ns {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry.item)
    }

    /// How many packets have been held back so far.
    #[must_use]
    pub const fn held_back(&self) -> u64 {
        self.held_back
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due_ns, self.number).cmp(&(other.due_ns, other.number))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}

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

    #[test]
    fn held_back_packets_are_overtaken() {
        let law = DelayLaw {
            delay_ns: 1000,
            reorder_probability: 0.1,
            reorder_ns: 500,
            ..DelayLaw::default()
        };
        let mut line = DelayLine::new(law, 3);
        (0..1000).for_each(|number| line.push(number * 100, number));
        let held_back = line.held_back();
        let order = drain(&mut line);
        let overtaken = order.windows(2).filter(|pair| pair[0] > pair[1]).count();
        assert!((60..140).contains(&held_back), "{held_back}");
        assert!(overtaken > 50, "{overtaken}");
        assert_eq!(order.len(), 1000);
    }

    proptest! {
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
