//! Careful Resume: RFC 9959. A flow on a path whose capacity is known from before takes half
//! of it at once, paced, as soon as its first window has come back whole. Where that was too
//! much, it goes back below what was shown to fit.
//!
//! Volumes count segments. A place in what is sent is a count of what has been delivered
//! (`tp->delivered`), in order or not: of so many on their way, the last has arrived when so
//! many more were delivered. So is the PipeSize, which therefore nobody has to add up: it is what
//! was delivered but for what was sent again, which the jump has not shown to fit.

use super::{INITIAL_WINDOW_SEGMENTS, MIN_WINDOW_SEGMENTS};
use crate::record;

/// Less is not worth a jump: four initial windows (RFC 9959, Observing the Path Capacity).
pub const LEAST_KNOWN_SEGMENTS: u32 = 4 * INITIAL_WINDOW_SEGMENTS;

/// An RTT that is longer by this tells of a queue: the least bound of HyStart++
/// (`MIN_RTT_THRESH`, RFC 9406 section 4.2). Jitter may be taken for one: the window is what was
/// known then.
const QUEUE_US: u32 = 4_000;

const SECOND_US: u64 = 1_000_000;

/// Returns what a window shows of its path: half of it in slow start, whose last round has not
/// come back (RFC 9959, Observing the Path Capacity). A law of ours lets no window grow that its
/// flow does not use.
#[inline(always)]
#[must_use]
pub const fn shown_segments(cwnd_segments: u32, ssthresh_segments: u32) -> u32 {
    if cwnd_segments < ssthresh_segments { cwnd_segments / 2 } else { cwnd_segments }
}

/// It says what is known of a path's capacity: the saved congestion control parameters of the RFC.
/// Whether they are in use by another flow has been asked before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Segments that the path carried in an RTT (saved_cwnd).
    pub saved_cwnd_segments: u32,
    /// The least RTT of then (saved_rtt).
    pub saved_rtt_us: u32,
    /// It is too old from this second on, of the clock of the ACKs; [`NEVER`] for what the flow
    /// has found out itself.
    pub until_s: u32,
}

/// No second is it.
pub const NEVER: u32 = u32::MAX;

/// A phase of Careful Resume, by its name in the RFC, and one more.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Normal congestion control. Zero, as the kernel gives it to a flow.
    Normal = 0,
    /// The flow is as any other, and looks whether the path is the one that is known.
    Reconnaissance = 1,
    /// The window is the jump's; nothing of what it let out has come back.
    Unvalidated = 2,
    /// The jump's packets are coming back.
    Validating = 3,
    /// It was too much: nothing grows until all of it has left the path.
    SafeRetreat = 4,
    /// Slow start has come to the window that is known, waits until that has come back whole,
    /// and goes on by quarters. (To the RFC this is the Normal Phase.)
    Confirming = 5,
}

/// A flow's state.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resume {
    /// A [`Phase`].
    phase: u8,
    reserved: [u8; 3],
    /// In Reconnaissance the window to jump to (jump_cwnd); later the slow start threshold of
    /// before that.
    segments: u32,
    /// In Reconnaissance saved_rtt; later what was on its way at the jump, less what had been
    /// delivered by then, and with what had been sent again: with what is delivered, less what
    /// is sent again, the PipeSize. It wraps.
    base: u32,
    /// The least RTT of Reconnaissance; 0 for none.
    min_rtt_us: u32,
    /// In Reconnaissance knowledge is too old from this second on; in Safe Retreat no threshold is
    /// higher, unless the kernel takes its cut back.
    bound: u32,
    /// The Unvalidated Phase began then; it wraps.
    jumped_us: u32,
    /// So much has been delivered at the end of what this phase waits for. It wraps.
    end_delivered_segments: u32,
}
record!(Resume, size = 28);

/// A flow at an ACK that tells of no congestion, after it was counted and before anything is
/// sent for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// It came then, on a clock that does not go back.
    pub now_us: u64,
    /// The sample of the RTT that it gave, or the latest before it; 0 for none.
    pub latest_rtt_us: u32,
    /// Smoothed RTT.
    pub srtt_us: u32,
    /// Segments delivered so far; wraps.
    pub delivered_segments: u32,
    /// Segments retransmitted so far; wraps.
    pub retransmitted_segments: u32,
    /// Segments on their way.
    pub in_flight_segments: u32,
    /// Congestion window.
    pub cwnd_segments: u32,
    /// Slow start threshold.
    pub ssthresh_segments: u32,
    /// Whether there is more to send than the window lets out.
    pub is_cwnd_limited: bool,
    /// So many flows have come to the path since this one began, or went on, itself included.
    pub sharing_flows: u32,
}

/// A window and its threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Congestion window.
    pub cwnd_segments: u32,
    /// Slow start threshold.
    pub ssthresh_segments: u32,
}

/// A step says what an ACK asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The law goes on as always.
    Normal,
    /// These are to be, and the flow is to be paced. The threshold has the kernel spread the
    /// jump, and what its ACKs let out, over an RTT each: from half of it on the rate is 1.2
    /// windows in an RTT, below that twice as many (`tcp_update_pacing_rate()`), and twice the
    /// rate of the path would come of ACKs at that rate.
    Jump(Window),
    /// The window stays as it is.
    Hold,
    /// These are to be: what the flow made use of.
    Settle(Window),
}

impl Resume {
    /// A flow that nothing is known for. The kernel gives it these zeros.
    pub const NONE: Self = Self {
        phase: Phase::Normal as u8,
        reserved: [0; 3],
        segments: 0,
        base: 0,
        min_rtt_us: 0,
        bound: 0,
        jumped_us: 0,
        end_delivered_segments: 0,
    };

    /// A flow that begins on a path of which this is known, or goes on after a pause, with this
    /// window, of which the last has come back when so much has been delivered. It jumps to half
    /// of what is known, or to `max_jump_segments` if that is less.
    #[inline(always)]
    #[must_use]
    pub const fn begin(
        known: Known,
        max_jump_segments: u32,
        cwnd_segments: u32,
        end_delivered_segments: u32,
    ) -> Self {
        let half_segments = known.saved_cwnd_segments / 2;
        let jump_segments =
            if half_segments < max_jump_segments { half_segments } else { max_jump_segments };
        let is_worth_it = known.saved_cwnd_segments >= LEAST_KNOWN_SEGMENTS;
        if !is_worth_it || jump_segments <= cwnd_segments || known.saved_rtt_us == 0 {
            return Self::NONE;
        }
        Self {
            phase: Phase::Reconnaissance as u8,
            reserved: [0; 3],
            segments: jump_segments,
            base: known.saved_rtt_us,
            min_rtt_us: 0,
            bound: known.until_s,
            jumped_us: 0,
            end_delivered_segments,
        }
    }

    /// Returns where it is.
    #[inline(always)]
    #[must_use]
    pub const fn phase(&self) -> Phase {
        const fn is(number: u8, phase: Phase) -> bool {
            number == phase as u8
        }
        match self.phase {
            number if is(number, Phase::Reconnaissance) => Phase::Reconnaissance,
            number if is(number, Phase::Unvalidated) => Phase::Unvalidated,
            number if is(number, Phase::Validating) => Phase::Validating,
            number if is(number, Phase::SafeRetreat) => Phase::SafeRetreat,
            number if is(number, Phase::Confirming) => Phase::Confirming,
            _ => Phase::Normal,
        }
    }

    /// Returns what an ACK without congestion asks for.
    #[inline(always)]
    #[must_use]
    pub const fn on_ack(&mut self, ack: &Ack) -> Step {
        match self.phase() {
            Phase::Normal => Step::Normal,
            Phase::Reconnaissance => self.reconnoitre(ack),
            Phase::Unvalidated => self.await_proof(ack),
            Phase::Validating => {
                if !self.has_ended(ack) {
                    return Step::Normal;
                }
                self.phase = Phase::Confirming as u8;
                self.end_delivered_segments =
                    ack.delivered_segments.wrapping_add(ack.in_flight_segments);
                Step::Normal
            }
            Phase::Confirming => self.confirm(ack),
            Phase::SafeRetreat => self.leave_retreat(ack),
        }
    }

    /// Returns the threshold after congestion, or none where that is the law's to say: half of
    /// the PipeSize, which the kernel has the window follow as what is on its way goes
    /// down (RFC 6937). It sends for each delivered segment a part of one, the threshold
    /// by the window before: no more in all than the threshold.
    #[inline(always)]
    #[must_use]
    pub const fn on_congestion(
        &mut self,
        delivered_segments: u32,
        retransmitted_segments: u32,
    ) -> Option<u32> {
        match self.phase() {
            Phase::Normal => None,
            // What is known is not for this path now; or it has come back whole, and what is
            // lost is slow start's.
            Phase::Reconnaissance | Phase::Confirming => {
                *self = Self::NONE;
                None
            }
            Phase::Unvalidated | Phase::Validating | Phase::SafeRetreat => {
                self.phase = Phase::SafeRetreat as u8;
                let pipe_segments = self.pipe_segments(delivered_segments, retransmitted_segments);
                self.bound = at_least(MIN_WINDOW_SEGMENTS, pipe_segments / 2);
                Some(self.bound)
            }
        }
    }

    #[inline(always)]
    const fn reconnoitre(&mut self, ack: &Ack) -> Step {
        let rtt_us = ack.latest_rtt_us;
        if rtt_us != 0 && (self.min_rtt_us == 0 || rtt_us < self.min_rtt_us) {
            self.min_rtt_us = rtt_us;
        }
        let jump_segments = part(self.segments, ack.sharing_flows);
        let is_old = ack.now_us / SECOND_US >= self.bound as u64;
        if is_old || ack.cwnd_segments >= jump_segments {
            *self = Self::NONE;
            return Step::Normal;
        }
        // Not before all of the first window is back, and not for a flow that would not use it.
        if !self.has_ended(ack) || !ack.is_cwnd_limited || self.min_rtt_us == 0 {
            return Step::Normal;
        }
        let (saved_rtt_us, rtt_us) = (self.base as u64, self.min_rtt_us as u64);
        // Half of the window over half of the RTT would be all of the rate; ten times is
        // another path (RFC 9959, Confirming the Path).
        if 2 * rtt_us <= saved_rtt_us || rtt_us > 10 * saved_rtt_us {
            *self = Self::NONE;
            return Step::Normal;
        }
        self.phase = Phase::Unvalidated as u8;
        self.segments = ack.ssthresh_segments;
        self.base = ack
            .in_flight_segments
            .wrapping_sub(ack.delivered_segments)
            .wrapping_add(ack.retransmitted_segments);
        self.jumped_us = ack.now_us as u32;
        // The first that the jump lets out is behind what is on its way.
        self.end_delivered_segments =
            ack.delivered_segments.wrapping_add(ack.in_flight_segments).wrapping_add(1);
        let twice_segments = jump_segments.saturating_mul(2);
        let ssthresh_segments = at_most(twice_segments, ack.ssthresh_segments);
        Step::Jump(Window { cwnd_segments: jump_segments, ssthresh_segments })
    }

    #[inline(always)]
    const fn await_proof(&mut self, ack: &Ack) -> Step {
        let is_over = (ack.now_us as u32).wrapping_sub(self.jumped_us) > ack.srtt_us;
        let is_used = ack.in_flight_segments >= ack.cwnd_segments;
        if !is_over && !is_used && !self.has_ended(ack) {
            return Step::Hold;
        }
        let pipe_segments = self.pipe_segments(ack.delivered_segments, ack.retransmitted_segments);
        let flight_segments = ack.in_flight_segments;
        if flight_segments < INITIAL_WINDOW_SEGMENTS || flight_segments <= pipe_segments {
            let cwnd_segments = at_least(INITIAL_WINDOW_SEGMENTS, pipe_segments);
            let ssthresh_segments = self.segments;
            *self = Self::NONE;
            return Step::Settle(Window { cwnd_segments, ssthresh_segments });
        }
        self.phase = Phase::Validating as u8;
        self.end_delivered_segments = ack.delivered_segments.wrapping_add(flight_segments);
        let ssthresh_segments = ack.ssthresh_segments;
        Step::Settle(Window { cwnd_segments: flight_segments, ssthresh_segments })
    }

    /// Where a queue shows, the path is full, and losses would be heard of an RTT too late. A path
    /// that carries just what is known has none: what is tried beyond is a quarter for each RTT
    /// (Conservative Slow Start, RFC 9406 section 4.2).
    #[inline(always)]
    const fn confirm(&mut self, ack: &Ack) -> Step {
        let has_queue = ack.latest_rtt_us >= self.min_rtt_us.saturating_add(QUEUE_US);
        if !has_queue && !self.has_ended(ack) {
            return Step::Normal;
        }
        let Ack { cwnd_segments, ssthresh_segments, .. } = *ack;
        let before_segments = self.segments;
        let more_segments = cwnd_segments.saturating_add(cwnd_segments / 4);
        if has_queue || more_segments >= before_segments {
            *self = Self::NONE;
            let ssthresh_segments = if has_queue { ssthresh_segments } else { before_segments };
            return Step::Settle(Window { cwnd_segments, ssthresh_segments });
        }
        self.end_delivered_segments = ack.delivered_segments.wrapping_add(ack.in_flight_segments);
        let ssthresh_segments = at_least(more_segments, ssthresh_segments);
        Step::Settle(Window { cwnd_segments, ssthresh_segments })
    }

    /// The kernel asks a law about no window before its recovery is over, which is when all
    /// that had been sent by then is acknowledged.
    #[inline(always)]
    const fn leave_retreat(&mut self, ack: &Ack) -> Step {
        let pipe_segments = self.pipe_segments(ack.delivered_segments, ack.retransmitted_segments);
        let Self { segments: before_segments, bound: most_ssthresh_segments, .. } = *self;
        *self = Self::NONE;
        let ssthresh_segments = if ack.ssthresh_segments > most_ssthresh_segments {
            // The kernel has found out that nothing was lost, and taken all of it back
            // (`tcp_undo_cwnd_reduction()`).
            before_segments
        } else {
            at_least(MIN_WINDOW_SEGMENTS, pipe_segments / 2)
        };
        Step::Settle(Window { cwnd_segments: ack.cwnd_segments, ssthresh_segments })
    }

    /// The capacity that ACKs have shown (PipeSize): what was on its way at the jump, and
    /// what has been delivered since. None where more was sent again than has come.
    #[inline(always)]
    const fn pipe_segments(&self, delivered_segments: u32, retransmitted_segments: u32) -> u32 {
        let segments = self.base.wrapping_add(delivered_segments);
        let segments = segments.wrapping_sub(retransmitted_segments);
        if (segments as i32) < 0 { 0 } else { segments }
    }

    #[inline(always)]
    const fn has_ended(&self, ack: &Ack) -> bool {
        ack.delivered_segments.wrapping_sub(self.end_delivered_segments) as i32 >= 0
    }
}

/// Returns how far one of so many flows jumps, together no further than to all of what is known: to
/// half of that alone.
#[inline(always)]
const fn part(half_segments: u32, flows: u32) -> u32 {
    if flows > 2 { half_segments.saturating_mul(2) / flows } else { half_segments }
}

#[inline(always)]
const fn at_least(least: u32, segments: u32) -> u32 {
    if segments < least { least } else { segments }
}

#[inline(always)]
const fn at_most(most: u32, segments: u32) -> u32 {
    if segments > most { most } else { segments }
}

#[cfg(test)]
mod tests;
