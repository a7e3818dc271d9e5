//! The laws that look at delay make this of RTT samples.
//!
//! A single sample tells little: a receiver waits before it acknowledges, a
//! driver gathers packets, a scheduler is late. All of these only add, so the
//! least of a few consecutive samples, the floor, tells what the queue does, and
//! it tells it within the RTT: a minimum for each round comes one RTT late.

use super::Sample;
use crate::record;

/// Samples that make a floor; HyStart takes 8.
const SAMPLES: u16 = 16;
/// Segments that they are of, at least: what a host sends at once, 64 kB, queues
/// by itself, and only the first of it finds the queue as it is. A quarter of a
/// small window will do.
const SEGMENTS: u32 = 64;
/// Samples that do where a round has no more.
const SAMPLES_OF_A_ROUND: u16 = 4;

/// The least of the consecutive samples gathered so far.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    least_us: u32,
    samples: u16,
    segments: u16,
}
record!(Floor, size = 8);

impl Floor {
    /// The floor has no sample yet.
    pub const EMPTY: Self = Self { least_us: u32::MAX, samples: 0, segments: 0 };

    /// Takes the RTT sample of an ACK; the floor, if it is the last one for it.
    #[inline(always)]
    pub fn add(&mut self, sample: &Sample, cwnd_segments: u32, ends_round: bool) -> Option<u32> {
        let rtt_us = sample.rtt_us?;
        self.least_us = self.least_us.min(rtt_us);
        self.samples = self.samples.saturating_add(1);
        let acked_segments = sample.acked_segments.min(SEGMENTS) as u16;
        self.segments = self.segments.saturating_add(acked_segments);
        let enough_segments = (cwnd_segments / 4).min(SEGMENTS) as u16;
        let is_full = self.samples >= SAMPLES && self.segments >= enough_segments;
        let is_round = ends_round && self.samples >= SAMPLES_OF_A_ROUND;
        if !is_full && !is_round {
            return None;
        }
        let floor_us = self.least_us;
        *self = Self::EMPTY;
        Some(floor_us)
    }
}

/// The rounds of a flow: each ends when a segment that was sent after its begin
/// is acknowledged.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounds {
    /// Segments delivered at the end of this one; wraps around.
    end_segments: u32,
}
record!(Rounds, size = 4);

impl Rounds {
    /// Returns the first round, which the first ACK ends, of a flow that has had so many segments
    /// delivered.
    #[must_use]
    pub const fn first(delivered_segments: u32) -> Self {
        Self { end_segments: delivered_segments }
    }

    /// A round begins now.
    #[inline(always)]
    pub fn begin(&mut self, sample: &Sample) {
        self.end_segments = sample.delivered_segments.wrapping_add(sample.in_flight_segments);
    }

    /// Whether this ACK ends a round; then the next one begins.
    #[inline(always)]
    pub fn ends(&mut self, sample: &Sample) -> bool {
        // Of numbers that wrap around, the one that is less than half a circle
        // behind is the earlier.
        let ends = sample.delivered_segments.wrapping_sub(self.end_segments) < 1 << 31;
        if ends {
            self.begin(sample);
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::{Floor, Rounds, SAMPLES, SAMPLES_OF_A_ROUND, SEGMENTS, Sample};

    const fn sample(delivered_segments: u32, in_flight_segments: u32) -> Sample {
        Sample {
            now_us: 0,
            rtt_us: None,
            acked_segments: 1,
            delivered_segments,
            in_flight_segments,
            entitled_segments: u32::MAX,
            is_reducing: false,
        }
    }

    const fn ack(rtt_us: u32, acked_segments: u32) -> Sample {
        Sample { rtt_us: Some(rtt_us), acked_segments, ..sample(0, 0) }
    }

    #[test]
    fn a_floor_is_the_least_of_its_samples() {
        let mut floor = Floor::EMPTY;
        for n in 1..u32::from(SAMPLES) {
            assert_eq!(floor.add(&ack(1000 - n, 45), 10_000, false), None);
        }
        assert_eq!(floor.add(&ack(2000, 45), 10_000, false), Some(1001 - u32::from(SAMPLES)));
        assert_eq!(floor, Floor::EMPTY);
    }

    #[test]
    fn a_floor_spans_more_than_a_burst() {
        let mut floor = Floor::EMPTY;
        for _ in 1..SEGMENTS {
            assert_eq!(floor.add(&ack(2000, 1), 10_000, false), None);
        }
        assert_eq!(floor.add(&ack(1000, 1), 10_000, false), Some(1000));
        for _ in 1..SAMPLES {
            assert_eq!(floor.add(&ack(2000, 1), 40, false), None);
        }
        assert_eq!(floor.add(&ack(1000, 1), 40, false), Some(1000));
    }

    #[test]
    fn a_short_round_makes_a_floor_of_few_samples_but_not_of_one() {
        let mut floor = Floor::EMPTY;
        assert_eq!(floor.add(&ack(1000, 1), 8, true), None);
        for _ in 2..SAMPLES_OF_A_ROUND {
            assert_eq!(floor.add(&ack(2000, 1), 8, false), None);
        }
        assert_eq!(floor.add(&ack(3000, 1), 8, true), Some(1000));
    }

    #[test]
    fn an_ack_without_a_sample_adds_nothing() {
        let mut floor = Floor::EMPTY;
        for _ in 0..100 {
            assert_eq!(floor.add(&sample(0, 0), 8, true), None);
        }
        assert_eq!(floor, Floor::EMPTY);
    }

    #[test]
    fn rounds_end_with_what_was_in_flight_and_survive_the_wrap() {
        // Of a flow that is taken over late, too.
        assert!(Rounds::first(3 << 30).ends(&sample(3 << 30, 0)));
        let mut rounds = Rounds::first(0);
        rounds.begin(&sample(u32::MAX - 4, 10));
        assert!(!rounds.ends(&sample(u32::MAX, 10)));
        assert!(!rounds.ends(&sample(4, 10)));
        assert!(rounds.ends(&sample(5, 20)));
        assert!(!rounds.ends(&sample(24, 20)));
        assert!(rounds.ends(&sample(25, 20)));
    }
}
