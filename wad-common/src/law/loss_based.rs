//! The laws that answer to losses have this in common: what they do when the kernel,
//! which does the recovery, asks for a threshold or has changed its state. Such a law
//! is a response, from a window to an [`Aimd`].
//!
//! How a flow grows between congestion events says [`Aimd::on_ack`].

use super::{
    Aimd, INFINITE_SSTHRESH, MIN_WINDOW_SEGMENTS,
    idle::Open,
    resume::Resume,
    skipped::is_unanswered,
    stall::{Signs, Stall},
};
use crate::record;

mod phase;

use phase::Cause;
pub use phase::{Course, Phase};

/// The state of a flow under such a law. The kernel gives it these zeros.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossBased {
    /// The window to give back after idle time. It is the first, as it may be forgotten: see
    /// `parameters.rs` of the BPF side.
    pub open: Open,
    /// It is as [`Window::credit_q16`](super::Window::credit_q16).
    pub credit_q16: u64,
    /// Where it is in Careful Resume.
    pub resume: Resume,
    /// The last local stall.
    pub stall: Stall,
}
record!(LossBased, size = 56);

/// A flow at a moment at which the kernel asks, or has changed its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The latest packet came or went then, on a clock that does not go back.
    pub now_us: u64,
    /// Smoothed RTT.
    pub srtt_us: u32,
    /// Congestion window (`snd_cwnd`).
    pub cwnd_segments: u32,
    /// Slow start threshold (`snd_ssthresh`).
    pub ssthresh_segments: u32,
    /// The window when the kernel last asked (`prior_cwnd`).
    pub prior_cwnd_segments: u32,
    /// Segments on their way.
    pub in_flight_segments: u32,
    /// Segments delivered so far; wraps.
    pub delivered_segments: u32,
    /// Segments retransmitted so far; wraps.
    pub retransmitted_segments: u32,
    /// The latest sample of the delivery rate.
    pub delivery: Delivery,
    /// These tell congestion from a full queue of this host.
    pub signs: Signs,
    /// The path wants no answer to a full queue of this host.
    pub ignores_stalls: bool,
}

/// A sample of the rate at which segments are delivered (`tcp_rate_gen()`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Segments delivered...
    pub segments: u32,
    /// ...in this time; 0 before the first sample.
    pub interval_us: u32,
}

/// A change is of the kernel's state (`enum tcp_ca_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// An answer to a full queue of this host or to a mark is over (`TCP_CA_CWR`).
    CwrEnds,
    /// A loss was found (`TCP_CA_Recovery`, `TCP_CA_Loss`).
    LossFound,
    /// Both: the one while the kernel answered to the other.
    LossFoundInCwr,
    /// Anything else.
    Other,
}

/// The answer to the kernel's question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The threshold that it asks for.
    pub ssthresh_segments: u32,
    /// The one that it has now is none: [`INFINITE_SSTHRESH`] is to take its place.
    pub had_none: bool,
}

/// Returns the window after a late decrease of the threshold: at most the threshold, and the threshold
/// itself where the kernel has reduced the window to 0.
#[inline(always)]
#[must_use]
pub const fn reduced_segments(cwnd_segments: u32, ssthresh_segments: u32) -> u32 {
    if cwnd_segments == 0 || cwnd_segments > ssthresh_segments {
        ssthresh_segments
    } else {
        cwnd_segments
    }
}

impl LossBased {
    /// A flow that begins.
    pub const START: Self =
        Self { open: Open::UNKNOWN, credit_q16: 0, resume: Resume::NONE, stall: Stall::NONE };

    /// The threshold, when the kernel asks for one.
    #[inline(always)]
    #[must_use]
    pub fn on_asked(
        &mut self,
        course: &mut Course,
        moment: &Moment,
        response: impl FnOnce(u32) -> Aimd,
    ) -> Answer {
        let had_none = is_unanswered(moment.ssthresh_segments);
        let (cwnd_segments, ssthresh_segments) = if had_none {
            // The window has followed it: what is on its way is all that is known.
            (moment.in_flight_segments.max(MIN_WINDOW_SEGMENTS), INFINITE_SSTHRESH)
        } else {
            (moment.cwnd_segments, moment.ssthresh_segments)
        };
        let ssthresh_segments = if moment.ignores_stalls && self.stall.shows_in(&moment.signs) {
            self.stall.begin(ssthresh_segments, moment.now_us);
            course.transition_to(Cause::Asked, Phase::LocalStall);
            // What the kernel's recovery steers to, and ends at.
            cwnd_segments
        } else {
            self.decrease(course, moment, cwnd_segments, response)
        };
        Answer { ssthresh_segments, had_none }
    }

    /// Whether a change of the kernel's state can ask anything of a law: most of them are
    /// ends, and a flow that loses nothing sees no other.
    #[inline(always)]
    #[must_use]
    pub const fn heeds(change: Change, ssthresh_segments: u32) -> bool {
        matches!(change, Change::LossFound | Change::LossFoundInCwr)
            || is_unanswered(ssthresh_segments)
    }

    /// The threshold and the most window that a flow is to have after the kernel has
    /// changed its state; None where it has them, as after all that it does not
    /// [heed](Self::heeds).
    ///
    /// A loss while the kernel answers to a local stall is part of that answer for it:
    /// it does not ask for a threshold again.
    #[inline(always)]
    #[must_use]
    pub fn on_change(
        &mut self,
        course: &mut Course,
        moment: &Moment,
        change: Change,
        response: impl FnOnce(u32) -> Aimd,
    ) -> Option<u32> {
        if is_unanswered(moment.ssthresh_segments) {
            return Some(self.answer_unasked(course, moment, change, response));
        }
        let is_of_loss = matches!(change, Change::LossFound | Change::LossFoundInCwr);
        if is_of_loss && self.stall.is_on() {
            return Some(self.answer_late(course, moment, response));
        }
        None
    }

    /// The threshold and the most window after an ACK told that what was taken for a
    /// local stall alone was congestion, too: the answer to the window of then.
    #[inline(always)]
    #[must_use]
    pub fn answer_late(
        &mut self,
        course: &mut Course,
        moment: &Moment,
        response: impl FnOnce(u32) -> Aimd,
    ) -> u32 {
        self.decrease(course, moment, moment.prior_cwnd_segments, response)
    }

    /// The answer that no program gave when the kernel asked, to the window of then.
    #[inline(always)]
    fn answer_unasked(
        &mut self,
        course: &mut Course,
        moment: &Moment,
        change: Change,
        response: impl FnOnce(u32) -> Aimd,
    ) -> u32 {
        let cwnd_segments = moment.prior_cwnd_segments;
        let is_of_cwr = matches!(change, Change::CwrEnds | Change::LossFoundInCwr);
        if moment.ignores_stalls && is_of_cwr && self.stall.shows_in(&moment.signs) {
            course.transition_to(Cause::Asked, Phase::LocalStall);
            return cwnd_segments.max(MIN_WINDOW_SEGMENTS);
        }
        self.decrease(course, moment, cwnd_segments, response)
    }

    /// The threshold after a congestion event at this window.
    #[inline(always)]
    fn decrease(
        &mut self,
        course: &mut Course,
        moment: &Moment,
        cwnd_segments: u32,
        response: impl FnOnce(u32) -> Aimd,
    ) -> u32 {
        // To lower what it can't use would lower nothing (RFC 5681 equation 4).
        let is_held = moment.ignores_stalls && self.stall.holds_back(moment.now_us, moment.srtt_us);
        let used_segments = if is_held {
            cwnd_segments.min(moment.delivery.in_rtt(moment.srtt_us))
        } else {
            cwnd_segments
        };
        self.stall.forget();
        self.open.forget();
        self.credit_q16 = 0;
        course.reduce();
        let ssthresh_segments = response(used_segments).on_congestion(used_segments);
        match self.resume.on_congestion(moment.delivered_segments, moment.retransmitted_segments) {
            Some(retreat_segments) => ssthresh_segments.min(retreat_segments),
            None => ssthresh_segments,
        }
    }
}

impl Delivery {
    /// The segments that are on their way on average: those of an RTT. Unbounded
    /// before the first sample.
    #[inline(always)]
    #[must_use]
    pub const fn in_rtt(self, srtt_us: u32) -> u32 {
        if self.interval_us == 0 {
            return u32::MAX;
        }
        (self.segments as u64 * srtt_us as u64 / self.interval_us as u64) as u32
    }
}

#[cfg(test)]
mod tests;
