//! Control by delay: a flow keeps a small standing queue at the bottleneck, and
//! no more.
//!
//! FAST TCP (Wei, Jin, Low, Hegde, IEEE/ACM ToN 14(6), 2006), which is TCP Vegas
//! for large windows. A flow's share of the queue is what its window exceeds
//! `base RTT / RTT` of it by; once in an RTT the window goes part of the way to
//! where that share is the one wanted:
//!
//! ```text
//! w <- (1 - g) w + g (base / RTT w + queue) = w + g (queue - w (RTT - base) / RTT)
//! ```
//!
//! Departures from the paper:
//!
//! * The window moves with each ACK by its part of an RTT's step, not in one go
//!   every other RTT. `g` is a half.
//! * Where hardly a queue shows, each RTT adds twice what the last one did, up to
//!   a sixteenth of the window: by `g` times the queue wanted alone, a large
//!   window would be back from a halving in hundreds of RTTs, and by a sixteenth
//!   at once it would overshoot a small queue again and again.
//! * The base RTT is sought anew from time to time (`base`), because routes
//!   change, and because a flow that comes late knows others' queue only.
//! * Slow start doubles to 100 segments, then in two RTTs, as Vegas' does, which
//!   leaves the queue of an RTT's overshoot at a fifth of the path.
//!
//! A loss or a mark is congestion as for any other flow: half the window
//! (RFC 5681, RFC 3168). Beside flows that fill the queue until it overflows,
//! this one gets little: it is for paths that it does not share with them.

use super::{
    MAX_LAW_INCREASE_Q16, MIN_WINDOW_SEGMENTS, Sample, ShownPhase, Window,
    aimd::ONE_Q16,
    rtt::{Floor, Rounds},
    slow_start,
};
use crate::record;

mod base;
mod queue;
#[cfg(test)]
mod tests;

use base::Base;
pub use queue::FEW_SEGMENTS as LEAST_QUEUE_SEGMENTS;

/// `g` is a half: a shift.
const STEP_SHIFT: u32 = 1;
/// With less than a quarter of the queue wanted, the window grows by a sixteenth
/// in an RTT at most, with less than half of it by a 64th: shifts.
const EMPTY_GROWTH_SHIFT: u32 = 4;
const LOW_GROWTH_SHIFT: u32 = 6;
/// Segments that an ACK counts for at most; 64 kB are 45 of them.
const COUNTED_SEGMENTS: u32 = 1 << 14;
/// From here on slow start takes two RTTs to double: RFC 3742's recommended
/// `max_ssthresh`.
const GENTLE_SEGMENTS: u32 = 100;
/// The square root of two, less one: growth of an RTT that is half a doubling.
const GENTLE_Q16: u32 = 27_146;

/// The law's state of a flow.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Change earned but not yet made, as [`Window::credit_q16`]; negative for a
    /// decrease. While the window is reduced, segments that may be sent.
    credit_q16: i64,
    /// Change of the window in this RTT, segments.
    step_q16: i64,
    base: Base,
    floor: Floor,
    rounds: Rounds,
    /// Segments to keep queued.
    queue_segments: u32,
    /// A [`Phase`].
    phase: u32,
    /// The window as the law left it: of a drain or a reduction.
    left_segments: u32,
    /// The window before a drain, or the threshold of a reduction.
    full_segments: u32,
    /// An RTT adds this where no queue shows; it doubles with each such RTT.
    growth_segments: u32,
    /// Floors of this round that showed no queue, less those that did.
    empty_floors: i32,
}
record!(Delay, size = 64);

/// A phase says what the law does with an ACK.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The window follows the queue; in slow start it grows until one shows.
    Follow = 0,
    /// The ACKs are of a window that was another one: nothing follows from them,
    /// for a round.
    Settle = 1,
    /// Less is sent for a round, so that the queue runs empty.
    Drain = 2,
    /// The ACKs of that round come in, and tell the base RTT.
    Refill = 3,
    /// The window goes down to the threshold that the kernel has reduced.
    Reduce = 4,
}

impl Phase {
    const ALL: [Self; 5] = [Self::Follow, Self::Settle, Self::Drain, Self::Refill, Self::Reduce];

    fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| *phase as u32 == number)
    }

    /// Whether an edge leads to `next`.
    const fn leads_to(self, next: Self) -> bool {
        match next {
            // Each ends there; so does what congestion interrupts, this one, too.
            Self::Follow => true,
            // A queue showed in slow start, or a drained window is another one.
            Self::Settle => matches!(self, Self::Follow | Self::Drain),
            Self::Drain => matches!(self, Self::Follow),
            Self::Refill => matches!(self, Self::Drain),
            // Whatever the law does, but not twice.
            Self::Reduce => !matches!(self, Self::Reduce),
        }
    }
}

impl Delay {
    /// Returns the state of a flow that begins, or is taken over after so many segments were
    /// delivered.
    #[must_use]
    pub const fn start(delivered_segments: u32) -> Self {
        Self {
            credit_q16: 0,
            step_q16: 0,
            base: Base::UNKNOWN,
            floor: Floor::EMPTY,
            rounds: Rounds::first(delivered_segments),
            queue_segments: 0,
            phase: Phase::Follow as u32,
            left_segments: 0,
            full_segments: 0,
            growth_segments: 0,
            empty_floors: 0,
        }
    }

    /// The window after an ACK, its threshold included. `queue_segments` is what
    /// to keep queued; 0 leaves it to the law.
    #[inline(always)]
    #[must_use]
    pub fn on_ack(&mut self, window: Window, sample: &Sample, queue_segments: u32) -> Window {
        let round_ends = self.rounds.ends(sample);
        if round_ends || self.queue_segments == 0 {
            self.queue_segments = match queue_segments {
                0 => {
                    let rtt_us = sample.rtt_us.unwrap_or(self.base.rtt_us());
                    queue::of_window(window.cwnd_segments, rtt_us)
                }
                segments => segments,
            };
        }
        let floor_us = self.floor.add(sample, window.cwnd_segments, round_ends);
        if let Some(floor_us) = floor_us {
            self.base.see(floor_us, sample.now_us);
        }
        let mut window = window.at_most_clamped(window.cwnd_segments);
        if sample.is_reducing {
            return self.reduce(window, sample);
        }
        window = self.take_up(window);
        if let Some(floor_us) = floor_us
            && self.is(Phase::Follow)
        {
            window = self.follow(window, sample, floor_us);
        }
        if round_ends {
            window = self.next_phase(window, sample);
        }
        if self.is(Phase::Follow) { self.step(window, sample) } else { window }
    }

    /// The slow start threshold after a loss or a mark: half of the window, as
    /// RFC 5681 and RFC 3168 have it.
    #[inline(always)]
    #[must_use]
    pub fn on_congestion(&mut self, cwnd_segments: u32) -> u32 {
        let is_drained = self.is(Phase::Drain) && self.left_segments == cwnd_segments;
        let full_segments = if is_drained { self.full_segments } else { cwnd_segments };
        let ssthresh_segments = (full_segments / 2).max(MIN_WINDOW_SEGMENTS);
        self.transition_to(Phase::Follow);
        self.begin_reduction(cwnd_segments, ssthresh_segments);
        ssthresh_segments
    }

    /// Whether the window is to double: for the pacing rate.
    #[inline(always)]
    #[must_use]
    pub const fn is_starting(&self, window: &Window) -> bool {
        self.is(Phase::Follow) && window.in_slow_start()
    }

    /// Returns where the law is with a flow of this window.
    #[inline(always)]
    #[must_use]
    pub const fn phase(&self, window: &Window) -> ShownPhase {
        if self.is(Phase::Follow) {
            ShownPhase::of_growing(window)
        } else if self.is(Phase::Settle) {
            ShownPhase::Settle
        } else if self.is(Phase::Drain) {
            ShownPhase::Drain
        } else if self.is(Phase::Refill) {
            ShownPhase::Refill
        } else {
            ShownPhase::Recovery
        }
    }

    /// Goes down to the threshold, sending one segment for two that arrive: RFC
    /// 6937's proportional rate reduction, for a half.
    #[inline(always)]
    fn reduce(&mut self, window: Window, sample: &Sample) -> Window {
        if !self.is(Phase::Reduce) {
            self.begin_reduction(window.cwnd_segments, window.ssthresh_segments);
        }
        let credit_q16 = self.credit_q16 as u64 + (u64::from(sample.acked_segments) << 15);
        self.credit_q16 = (credit_q16 & u64::from(ONE_Q16 - 1)) as i64;
        let room_segments = (credit_q16 >> 16) as u32;
        let most_segments = sample.in_flight_segments.saturating_add(room_segments);
        let cwnd_segments = window.cwnd_segments.min(most_segments.max(window.ssthresh_segments));
        self.left_segments = cwnd_segments;
        Window { cwnd_segments, ..window }
    }

    #[inline(always)]
    fn begin_reduction(&mut self, cwnd_segments: u32, ssthresh_segments: u32) {
        self.transition_to(Phase::Reduce);
        // The first segment found lost goes out at once (RFC 6675 section 5).
        self.credit_q16 = ONE_Q16.into();
        self.left_segments = cwnd_segments;
        self.full_segments = ssthresh_segments;
    }

    /// Takes into account what the kernel did since the last ACK. It may have begun a reduction and
    /// ended it, as for a loss that a probe has repaired (`tcp_process_tlp_ack()`).
    #[inline(always)]
    fn take_up(&mut self, window: Window) -> Window {
        if self.is(Phase::Reduce) {
            self.transition_to(Phase::Follow);
            // Larger than it was left, or with another threshold: the reduction was undone.
            let is_smaller = window.cwnd_segments <= self.left_segments;
            if is_smaller && window.ssthresh_segments <= self.full_segments {
                let kept_segments = window.cwnd_segments.min(window.ssthresh_segments);
                return window.at_most_clamped(kept_segments);
            }
        } else if self.is(Phase::Drain) && window.cwnd_segments != self.left_segments {
            // The window is not what it was drained from.
            self.transition_to(Phase::Settle);
        }
        window
    }

    /// Takes what a floor says about the queue: the step of the next RTT, or the end
    /// of slow start.
    #[inline(always)]
    fn follow(&mut self, window: Window, sample: &Sample, floor_us: u32) -> Window {
        let wanted_q16 = i64::from(self.queue_segments) << 16;
        let queued_q16 = self.base.queued_q16(window.cwnd_segments, floor_us) as i64;
        if window.in_slow_start() {
            if queued_q16 < wanted_q16 {
                return window;
            }
            // The ACKs of the next round are of what was sent too fast, the first
            // of all before anything was known of it.
            self.transition_to(Phase::Settle);
            self.rounds.begin(sample);
            return Window { ssthresh_segments: window.cwnd_segments, ..window };
        }
        self.step_q16 = (wanted_q16 - queued_q16) >> STEP_SHIFT;
        if queued_q16 >= wanted_q16 / 2 {
            self.empty_floors = self.empty_floors.saturating_sub(1);
            return window;
        }
        self.empty_floors = self.empty_floors.saturating_add(1);
        let is_empty = queued_q16 < wanted_q16 / 4;
        if is_empty {
            // As good as the base RTT: no need to seek it.
            self.base.confirm(sample.now_us);
        }
        let most_shift = if is_empty { EMPTY_GROWTH_SHIFT } else { LOW_GROWTH_SHIFT };
        let growth_segments = self.growth_segments.min(window.cwnd_segments >> most_shift);
        self.step_q16 = self.step_q16.max(i64::from(growth_segments) << 16);
        window
    }

    /// A round has ended.
    #[inline(always)]
    fn next_phase(&mut self, window: Window, sample: &Sample) -> Window {
        if self.is(Phase::Settle) {
            self.transition_to(Phase::Follow);
        } else if self.is(Phase::Drain) {
            self.transition_to(Phase::Refill);
            return window.at_most_clamped(self.full_segments);
        } else if self.is(Phase::Refill) {
            self.base.renew(sample.now_us);
            self.transition_to(Phase::Follow);
        } else if !window.in_slow_start() {
            return self.next_round(window, sample);
        }
        window
    }

    /// A round of following the queue has ended.
    #[inline(always)]
    fn next_round(&mut self, window: Window, sample: &Sample) -> Window {
        if self.base.is_old(sample.now_us) {
            self.transition_to(Phase::Drain);
            self.base.seek();
            self.full_segments = window.cwnd_segments;
            self.left_segments = base::drained_segments(window.cwnd_segments, self.queue_segments);
            return Window { cwnd_segments: self.left_segments, ..window };
        }
        // What the host sends at once may look like a queue: most floors decide.
        let is_empty = self.empty_floors > 0;
        self.empty_floors = 0;
        self.growth_segments = if is_empty {
            let doubled_segments = self.growth_segments.saturating_mul(2);
            let least_segments = self.queue_segments / 2;
            let most_segments = window.cwnd_segments >> EMPTY_GROWTH_SHIFT;
            doubled_segments.max(least_segments).min(most_segments)
        } else {
            0
        };
        window
    }

    /// The part of an RTT's step that this ACK stands for, or slow start's.
    #[inline(always)]
    fn step(&mut self, window: Window, sample: &Sample) -> Window {
        let entitled_segments = sample.entitled_segments.min(window.clamp_segments);
        let is_entitled = window.cwnd_segments < entitled_segments;
        if window.in_slow_start() {
            if !is_entitled {
                return window;
            }
            let bounded = Window { clamp_segments: entitled_segments, ..window };
            let grown = self.start_up(bounded, sample.acked_segments);
            return Window { clamp_segments: window.clamp_segments, ..grown };
        }
        if !is_entitled {
            // Growth that was earned while it was is given up.
            self.credit_q16 = self.credit_q16.min(0);
            if self.step_q16 >= 0 {
                return window;
            }
        }
        // Fits: a step is below 2^47, being half of a window or of a queue,
        // and the credit below 2^48.
        let acked_segments = sample.acked_segments.min(COUNTED_SEGMENTS);
        let credit_q16 = self.credit_q16 + i64::from(acked_segments) * self.step_q16;
        let window_q16 = window.cwnd_q16().max(ONE_Q16.into());
        let earned_q16 = credit_q16.unsigned_abs();
        if earned_q16 < window_q16 {
            self.credit_q16 = credit_q16;
            return window;
        }
        let earned_segments = earned_q16 / window_q16;
        let left_q16 = (earned_q16 - earned_segments * window_q16) as i64;
        // What is beyond slow start's growth is given up, not saved.
        let earned_segments = earned_segments.min(acked_segments.into()) as u32;
        if credit_q16 > 0 {
            self.credit_q16 = left_q16;
            let grown_segments = window.cwnd_segments.saturating_add(earned_segments);
            return window.at_most_clamped(grown_segments.min(entitled_segments));
        }
        self.credit_q16 = -left_q16;
        let kept_segments = window.cwnd_segments.saturating_sub(earned_segments);
        let cwnd_segments = kept_segments.max(MIN_WINDOW_SEGMENTS.min(window.cwnd_segments));
        // It shrinks by delay: no slow start leads back.
        let ssthresh_segments = window.ssthresh_segments.min(cwnd_segments);
        Window { cwnd_segments, ssthresh_segments, ..window }
    }

    /// Slow start: as limited by the path, else double, later in two RTTs.
    #[inline(always)]
    fn start_up(&mut self, window: Window, acked_segments: u32) -> Window {
        let window = Window { credit_q16: self.credit_q16.max(0) as u64, ..window };
        let is_limited = window.max_ssthresh_segments != u32::MAX;
        let grown = if is_limited || window.cwnd_segments < GENTLE_SEGMENTS {
            slow_start::on_ack(window, acked_segments).0
        } else {
            let increase_q16 = u64::from(window.cwnd_segments) * u64::from(GENTLE_Q16);
            let increase_q16 = increase_q16.min(MAX_LAW_INCREASE_Q16.into()) as u32;
            let (earned_segments, credit_q16) = window.earn(increase_q16, acked_segments);
            let grown_segments = window.cwnd_segments.saturating_add(earned_segments);
            let grown_segments = grown_segments.min(window.ssthresh_segments);
            Window { credit_q16, ..window.at_most_clamped(grown_segments) }
        };
        // Fits: `earn()` leaves less than a window, 2^48.
        self.credit_q16 = grown.credit_q16 as i64;
        grown
    }

    #[inline(always)]
    const fn is(&self, phase: Phase) -> bool {
        self.phase == phase as u32
    }

    /// The only way from one phase to another. What was earned in the one counts no
    /// more in the other.
    #[inline(always)]
    fn transition_to(&mut self, next: Phase) {
        debug_assert!(
            Phase::from_number(self.phase).is_some_and(|phase| phase.leads_to(next)),
            "no edge leads from {:?} to {next:?}",
            Phase::from_number(self.phase),
        );
        self.phase = next as u32;
        self.step_q16 = 0;
        self.credit_q16 = 0;
        self.growth_segments = 0;
        self.empty_floors = 0;
        self.floor = Floor::EMPTY;
    }
}
