//! Slow start ends before the path's queue overflows: HyStart++, RFC 9406, with RTTs that tell of
//! the queue sooner.
//!
//! A rise of the RTT by the RFC's threshold begins Conservative Slow Start (CSS), in which the window
//! grows by a quarter in a round. Where the RTT comes down again the rise was chance, and slow start
//! goes on; where it rises as much again, slow start is over.
//!
//! The RFC takes the least RTT of a round, which comes a round late: a window that doubles has
//! overrun a queue of less than what the path holds by then. And it stays five rounds in CSS, in
//! which the window triples. Here it is the least of the latest samples, and the end is where the
//! queue is seen to grow: a 200 Mbit/s path of 60 ms whose queue holds as much as that loses 101
//! segments, with the RFC's rounds 518 (simulated; Linux's cubic 101). A lower threshold loses less
//! where the queue is shorter, and takes the noise of a real path for a queue: a 32nd of 60 ms left
//! half of the window after 6 MB.
//!
//! Before that comes rapid start (after SUSS, Arghavani et al., SIGCOMM 2024): the window of a paced
//! flow triples in each round instead of doubling, and the flow is paced at
//! [three windows per RTT](super::pacing::rapid_bytes_per_second). It reaches the path's rate with a
//! window of a third of the BDP, so ACKs report the queue before the window is far beyond the path.
//! Rapid start ends when the RTT has risen by a 16th of the RFC's threshold, in fewer samples. Where
//! jitter looks like that rise, the window doubles from then on. Over 60 simulated paths (50 Mbit/s to
//! 3 Gbit/s, 10 to 250 ms, queues of 0.1 to 1 BDP) 1 MB took 0.76 of the time that it takes with a
//! window that doubles and is paced at two windows per RTT, and 0.9 as many segments were lost; with
//! queues of 0.005 to 0.05 BDP, 0.83 and 1.13. Paced at four windows per RTT, fewer are lost, but on such
//! short queues so early that the rate falls to 0.95 of that; at two, 1.5 times as many are lost.
//!
//! A flow keeps this state in the 16 bytes that hold [`Cubic`](super::cubic::Cubic) once slow start
//! has ended. Each of the two tells its own state from the other's.

use super::{INFINITE_SSTHRESH, MAX_LAW_INCREASE_Q16, Window, aimd::ONE_Q16};
use crate::record;

// RFC 9406 section 4.3.
const MIN_RTT_THRESH_US: u32 = 4_000;
const MAX_RTT_THRESH_US: u32 = 16_000;
const MIN_RTT_DIVISOR: u32 = 8;
const N_RTT_SAMPLE: u8 = 8;
const CSS_GROWTH_DIVISOR: u32 = 4;
/// Rapid start ends when the least RTT of this many samples, of at least this many segments, has risen
/// by this part of the threshold.
const RAPID_EXIT_DIVISOR: u32 = 16;
const RAPID_SAMPLES: u8 = 4;
const RAPID_SEGMENTS: u8 = 8;
/// Segments by which the window grows for each segment acknowledged in rapid start.
const RAPID_GROWTH: u32 = 2;
/// The samples are of so many segments at least: what a host sends at once waits for itself, and
/// only the first of it finds the queue as it is.
const SEGMENTS: u8 = 32;

/// It is where CUBIC has the highest byte of a window, and no window is that large.
const MARK: u8 = 0xff;

/// The phases of a flow.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    SlowStart = 1,
    /// Conservative Slow Start.
    Conservative = 2,
    /// The RTT has not risen so far.
    Rapid = 3,
}

/// The state of a flow in slow start that has no threshold.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HyStart {
    /// The least RTT of the flow so far; 0 for none.
    base_rtt_us: u32,
    /// The least RTT of the samples gathered so far; 0 for none.
    least_rtt_us: u32,
    /// It is there for the mark to be where CUBIC has that byte.
    reserved: u32,
    /// A [`Phase`].
    phase: u8,
    /// Samples gathered so far.
    samples: u8,
    /// Segments that these are of.
    segments: u8,
    /// [`MARK`], where all of this is of slow start.
    mark: u8,
}
record!(HyStart, size = 16);

/// An ACK in slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The latest RTT sample: the one of this ACK, or of an ACK before it; 0 before the first.
    pub latest_rtt_us: u32,
    /// Segments that it acknowledges.
    pub acked_segments: u32,
    /// Whether slow start may begin with rapid start: the flow is paced and has met no congestion.
    pub rapid_start_allowed: bool,
}

impl HyStart {
    /// A flow that begins. The kernel gives it these zeros.
    pub const START: Self = Self {
        base_rtt_us: 0,
        least_rtt_us: 0,
        reserved: 0,
        phase: 0,
        samples: 0,
        segments: 0,
        mark: 0,
    };

    /// A flow that resumes a window of earlier flows. It has no rapid start.
    pub const RESUMED: Self = Self { phase: Phase::SlowStart as u8, mark: MARK, ..Self::START };

    /// Whether slow start of this window is to end by itself: it has no threshold.
    #[inline(always)]
    #[must_use]
    pub const fn is_for(ssthresh_segments: u32) -> bool {
        ssthresh_segments >= INFINITE_SSTHRESH
    }

    /// Sees an ACK. Returns whether slow start is over: the window is its threshold then.
    #[inline(always)]
    #[must_use]
    pub const fn ends_with(&mut self, ack: &Ack) -> bool {
        if self.mark != MARK {
            let phase = if ack.rapid_start_allowed { Phase::Rapid } else { Phase::SlowStart };
            *self = Self { phase: phase as u8, ..Self::RESUMED };
        }
        let rtt_us = ack.latest_rtt_us;
        if rtt_us == 0 {
            return false;
        }
        if self.base_rtt_us == 0 || rtt_us < self.base_rtt_us {
            self.base_rtt_us = rtt_us;
        }
        if self.least_rtt_us == 0 || rtt_us < self.least_rtt_us {
            self.least_rtt_us = rtt_us;
        }
        self.samples = self.samples.saturating_add(1);
        let segments =
            if ack.acked_segments < SEGMENTS as u32 { ack.acked_segments as u8 } else { SEGMENTS };
        self.segments = self.segments.saturating_add(segments);
        let (samples, segments) = if self.is_rapid() {
            (RAPID_SAMPLES, RAPID_SEGMENTS)
        } else {
            (N_RTT_SAMPLE, SEGMENTS)
        };
        if self.samples < samples || self.segments < segments {
            return false;
        }
        let queue_us = self.least_rtt_us - self.base_rtt_us;
        self.least_rtt_us = 0;
        self.samples = 0;
        self.segments = 0;
        let was_conservative = self.is_conservative();
        let threshold_us = threshold_us(self.base_rtt_us);
        let has_small_rise = queue_us >= threshold_us / RAPID_EXIT_DIVISOR;
        let has_queue = queue_us >= threshold_us || has_small_rise && self.is_rapid();
        if has_queue {
            self.phase = Phase::Conservative as u8;
        } else if was_conservative {
            self.phase = Phase::SlowStart as u8;
        }
        was_conservative && queue_us >= 2 * threshold_us
    }

    /// Whether the flow is in CSS.
    #[inline(always)]
    #[must_use]
    pub const fn is_conservative(&self) -> bool {
        self.mark == MARK && self.phase == Phase::Conservative as u8
    }

    /// Whether the window grows as in CSS, by a quarter in a round. Limited Slow Start (RFC 3742) goes on
    /// as it is.
    #[inline(always)]
    #[must_use]
    pub const fn grows_conservatively(&self, window: &Window) -> bool {
        self.is_conservative() && !window.is_limited()
    }

    /// Whether the window triples in a round.
    #[inline(always)]
    #[must_use]
    pub const fn is_rapid(&self) -> bool {
        self.mark == MARK && self.phase == Phase::Rapid as u8
    }

    /// Segments by which slow start grows the window for an ACK. Limited Slow Start (RFC 3742) is never
    /// rapid.
    #[inline(always)]
    #[must_use]
    pub const fn growth_segments(&self, window: &Window, acked_segments: u32) -> u32 {
        if self.is_rapid() && !window.is_limited() {
            acked_segments.saturating_mul(RAPID_GROWTH)
        } else {
            acked_segments
        }
    }
}

/// The window after an ACK in CSS.
#[inline(always)]
#[must_use]
pub const fn grow(window: Window, acked_segments: u32) -> Window {
    const MOST: u32 = MAX_LAW_INCREASE_Q16 / ONE_Q16;
    let quarter = window.cwnd_segments / CSS_GROWTH_DIVISOR;
    let segments = if quarter < MOST { quarter } else { MOST };
    let increase_q16 = if segments == 0 { ONE_Q16 } else { segments * ONE_Q16 };
    let (earned_segments, credit_q16) = window.earn(increase_q16, acked_segments);
    let cwnd_segments = window.cwnd_segments.saturating_add(earned_segments);
    Window { credit_q16, ..window.at_most_clamped(cwnd_segments) }
}

/// The rise of the RTT that tells of a queue (`RttThresh`).
#[inline(always)]
const fn threshold_us(rtt_us: u32) -> u32 {
    match rtt_us / MIN_RTT_DIVISOR {
        part if part < MIN_RTT_THRESH_US => MIN_RTT_THRESH_US,
        part if part > MAX_RTT_THRESH_US => MAX_RTT_THRESH_US,
        part => part,
    }
}

/// Whether a number that is where the mark is belongs to slow start still.
#[inline(always)]
pub(super) const fn is_marked(number: u32) -> bool {
    number >> 24 == MARK as u32
}

#[cfg(test)]
mod tests;
