//! A train of echoes leaves, and some of it comes back.

use std::time::Duration;

use crate::measurement::{RoundTrips, Share};

/// A train is numbered echoes, which come back in any order, or not at all.
#[derive(Debug, Default)]
pub struct Train {
    /// Since its beginning, by number.
    sent: Vec<Duration>,
    round_trips: Vec<Option<Duration>>,
    came: u64,
    reordered: u64,
    /// The number after the greatest that came (`NextExp` of RFC 4737, 3.3).
    next_expected: usize,
}

impl Train {
    /// Notes that the next one leaves.
    pub fn sent(&mut self, at: Duration) {
        self.sent.push(at);
        self.round_trips.push(None);
    }

    /// Notes that one came. What came already, or was never sent, is none.
    pub fn came(&mut self, number: u64, at: Duration) {
        let Ok(number) = usize::try_from(number) else { return };
        let Some(round_trip @ None) = self.round_trips.get_mut(number) else { return };
        *round_trip = Some(at.saturating_sub(self.sent[number]));
        self.came += 1;
        if number < self.next_expected {
            self.reordered += 1;
        } else {
            self.next_expected = number + 1;
        }
    }

    #[must_use]
    pub fn are_all_back(&self) -> bool {
        self.came == self.sent.len() as u64
    }

    /// Returns the number of those that came.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.came
    }

    #[must_use]
    pub fn round_trips(&self) -> Option<RoundTrips> {
        let seconds = self.round_trips.iter().flatten().map(Duration::as_secs_f64);
        RoundTrips::of(seconds.collect())
    }

    #[must_use]
    pub fn loss(&self) -> Share {
        let whole = self.sent.len() as u64;
        Share { part: whole - self.came, whole }
    }

    #[must_use]
    pub const fn reordering(&self) -> Share {
        Share { part: self.reordered, whole: self.came }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn train(numbers: &[u64]) -> Train {
        let mut train = Train::default();
        (0..5).for_each(|number| train.sent(ms(10 * number)));
        for (place, number) in numbers.iter().enumerate() {
            train.came(*number, ms(50 + place as u64));
        }
        train
    }

    #[test]
    fn the_example_of_rfc_4737_counts_what_comes_after_a_later_one() {
        // Section 3.4's table 2: 4 comes late.
        assert_eq!(train(&[0, 1, 3, 4, 2]).reordering(), Share { part: 1, whole: 5 });
        // Its table 3: one comes early, and all that it has overtaken are late.
        assert_eq!(train(&[0, 4, 1, 2, 3]).reordering(), Share { part: 3, whole: 5 });
        // A loss is no reordering.
        assert_eq!(train(&[0, 2, 3, 4]).reordering(), Share { part: 0, whole: 4 });
    }

    #[test]
    fn losses_are_those_that_never_came() {
        assert_eq!(train(&[0, 2]).loss(), Share { part: 3, whole: 5 });
        assert_eq!(train(&[]).round_trips(), None);
        let all = train(&[0, 1, 2, 3, 4]);
        assert!(all.are_all_back() && all.loss().part == 0);
        let round_trips = all.round_trips().unwrap();
        let seconds =
            [round_trips.min_seconds, round_trips.median_seconds, round_trips.max_seconds];
        assert_eq!((round_trips.samples, seconds), (5, [0.014, 0.032, 0.05]));
    }

    #[test]
    fn what_comes_twice_or_was_never_sent_counts_for_nothing() {
        let train = train(&[0, 0, 1, 7, u64::MAX, 0]);
        assert_eq!((train.loss().part, train.reordering()), (3, Share { part: 0, whole: 2 }));
    }
}
