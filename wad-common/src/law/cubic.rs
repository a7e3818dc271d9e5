//! CUBIC, RFC 9438: after a loss the window goes back to where that was on a curve of the time
//! that has passed, not of the round trips, and is careful there.
//!
//! What Linux, Windows and macOS send by; against a flow of it other laws are judged. `wad_cubic`
//! differs from Linux's `tcp_cubic.c` in that it is to the RFC:
//!
//! - W_est counts in fractions of a segment, and its growth is that of a Reno flow, one segment for
//!   each RTT, once it has got to the window of the last event (section 4.3).
//! - Time in which the window could not grow is not counted, whether the flow was idle or the
//!   application had less to send (section 5.8).
//!
//! And it does not take back what it knows of W_max where a decrease was for nothing (section 4.9):
//! the window is back at it then, as the kernel takes that back.
//!
//! As `equivalent_streams = k` it is k such flows in one: each loss takes the k-th part of their
//! 0.3, and the window is back k times as soon.

use core::hint::black_box;

use super::{
    Aimd, MAX_LAW_INCREASE_Q16, MAX_WINDOW_SEGMENTS,
    aimd::ONE_Q16,
    curve::{Curve, KEEP_Q10},
    hystart::is_marked,
};
use crate::record;

/// The part that a decrease of one flow takes, `1 - beta`, in 1/65536.
const LOSS_Q16: u64 = ((1024 - KEEP_Q10) << 16) / 1024;
/// Segments for each RTT that make a flow which keeps 0.7 as fast as a standard one: 3 (1 - beta) /
/// (1 + beta), in 1/65536 (RFC 9438 section 4.3).
pub const LEAST_INCREASE_Q16: i64 = ALPHA_OF_ONE_Q16 as i64;
/// Without a W_max, which is before the first loss and after a time-out, K is 0 and the window grows by
/// at least this part of itself in each RTT: slow start may have ended too early. As Linux does
/// (`bictcp_update()`); the RFC says nothing of it.
const UNKNOWN_PLATEAU_DIVISOR: u32 = 20;
/// In [`Cubic::reno`]: no W_max was known when this epoch began. No window reaches this bit.
const UNKNOWN_PLATEAU: u32 = 1 << 30;

/// The law's state of a flow.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cubic {
    curve: Curve,
    /// `W_est`, the window of a Reno flow that loses at the same time, in segments, and
    /// [`UNKNOWN_PLATEAU`]; 0 where the curve begins with the next growth.
    reno: u32,
}
record!(Cubic, size = 16);

/// An ACK in congestion avoidance, for a flow that its window held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// It came then, on a clock that does not go back.
    pub now_us: u64,
    /// Smoothed RTT.
    pub srtt_us: u32,
    /// Segments that it acknowledges.
    pub acked_segments: u32,
    /// The window before the last congestion event (`prior_cwnd`); 0 before the first.
    pub prior_segments: u32,
    /// The fraction of a segment that W_est has beyond whole ones, in 2^-32: the flow keeps it, and
    /// it is zero after a decrease (`snd_cwnd_cnt`).
    pub fraction_q32: u32,
}

impl Cubic {
    /// A flow that begins. The kernel gives it these zeros.
    pub const START: Self = Self { curve: Curve::NONE, reno: 0 };

    /// Returns what this window grows by in an RTT, as that of so many flows, in 1/65536 of a
    /// segment; and the new fraction of W_est. The three steps below.
    #[inline(always)]
    #[must_use]
    pub fn grow(&mut self, cwnd_segments: u32, ack: &Ack, flows: u32) -> (u32, u32) {
        self.begin_epoch(cwnd_segments, ack, flows);
        let fraction_q32 = self.grow_reno(cwnd_segments, ack, flows);
        (self.increase_q16(cwnd_segments, ack, flows), fraction_q32)
    }

    /// First step: an epoch begins with the first growth after a decrease, or after slow start.
    #[inline(always)]
    pub fn begin_epoch(&mut self, cwnd_segments: u32, ack: &Ack, flows: u32) {
        self.begin();
        if self.reno == 0 {
            let unknown = unknown_plateau(self.curve.plateau_segments());
            // Slow start may have gone beyond it, or ended without a loss (section 4.10).
            let plateau_segments = self.curve.plateau_segments().max(cwnd_segments);
            self.curve.rise(ack.now_us, cwnd_segments, plateau_segments, flows);
            self.reno = cwnd_segments.clamp(1, MAX_WINDOW_SEGMENTS) | unknown;
        }
    }

    /// Second step: W_est grows by what an ACK is worth (section 4.3, figure 4). Returns its
    /// fraction.
    #[inline(always)]
    #[must_use]
    pub fn grow_reno(&mut self, cwnd_segments: u32, ack: &Ack, flows: u32) -> u32 {
        let reno_segments = self.reno_segments();
        let alpha_q16 =
            if reno_segments < ack.prior_segments { alpha_q16(flows) } else { flows << 16 };
        // Fits: 2^16 times less than 2^22, moved by 16.
        let acked_segments = u64::from(ack.acked_segments.min(u16::MAX.into()));
        let grown_q32 = divide((acked_segments * u64::from(alpha_q16)) << 16, cwnd_segments);
        let reno_q32 = u64::from(ack.fraction_q32) + grown_q32;
        let reno_segments = reno_segments.saturating_add((reno_q32 >> 32) as u32);
        self.reno = reno_segments.min(MAX_WINDOW_SEGMENTS) | self.reno & UNKNOWN_PLATEAU;
        reno_q32 as u32
    }

    /// Third step: to where the curve is an RTT later, or to W_est where that is ahead.
    #[inline(always)]
    #[must_use]
    pub fn increase_q16(&mut self, cwnd_segments: u32, ack: &Ack, flows: u32) -> u32 {
        let curve_q16 = self.curve.growth_q16(cwnd_segments, ack.now_us, ack.srtt_us, flows);
        let behind_segments = self.reno_segments().saturating_sub(cwnd_segments);
        let reno_q16 = i64::from(behind_segments.min(cwnd_segments / 2 + 1)) << 16;
        // All ones where W_max is unknown, without a branch.
        let mask = i64::from((black_box(self.reno << 1) as i32) >> 31);
        let part_q16 = (i64::from(cwnd_segments) << 16) / i64::from(UNKNOWN_PLATEAU_DIVISOR);
        let least_q16 = part_q16 & mask;
        let most_q16 = i64::from(MAX_LAW_INCREASE_Q16);
        curve_q16.max(reno_q16).max(least_q16).min(most_q16) as u32
    }

    /// `W_est`, in segments.
    #[inline(always)]
    const fn reno_segments(&self) -> u32 {
        self.reno & !UNKNOWN_PLATEAU
    }

    /// Begins where slow start has ended: what is here was its state.
    #[inline(always)]
    const fn begin(&mut self) {
        if is_marked(self.reno) {
            *self = Self::START;
        }
    }

    /// Returns what a congestion event at this window leaves of it, as so many flows, and takes
    /// note of where the window is to grow again (sections 4.6 and 4.7).
    #[inline(always)]
    #[must_use]
    pub fn shrink(&mut self, cwnd_segments: u32, flows: u32) -> Aimd {
        self.begin();
        let keep_q16 = keep_q16(flows);
        self.curve.lead_to(self.curve.converged(cwnd_segments, u64::from(keep_q16 >> 6)));
        self.reno = 0;
        Aimd { increase_q16: ONE_Q16, keep_q16 }
    }

    /// A time-out has taken all that was on its way for lost: W_max is unknown from now on
    /// (section 4.8).
    #[inline(always)]
    pub const fn time_out(&mut self) {
        *self = Self::START;
    }
}

/// Returns [`UNKNOWN_PLATEAU`] if W_max is 0. It has no branch: the verifier would follow both sides of it
/// through the cube root.
#[inline(always)]
fn unknown_plateau(plateau_segments: u32) -> u32 {
    black_box(plateau_segments.wrapping_sub(1) >> 31) * UNKNOWN_PLATEAU
}

/// Returns as how many flows one behaves whose path has this pair: those of `equivalent_streams`
/// add a segment each.
#[inline(always)]
#[must_use]
pub const fn flows(aimd: Aimd) -> u32 {
    aimd.increase_q16 / ONE_Q16
}

/// The law of so many flows in its Reno-friendly region (section 4.3).
#[must_use]
pub const fn reno_friendly(flows: u32) -> Aimd {
    Aimd { increase_q16: alpha_q16(flows), keep_q16: keep_q16(flows) }
}

/// The part of the window that so many flows keep when one of them loses, in 1/65536.
#[inline(always)]
const fn keep_q16(flows: u32) -> u32 {
    ONE_Q16 - divide(LOSS_Q16, flows) as u32
}

/// Segments for each RTT with which so many flows that keep 0.7 have the windows of standard ones,
/// in 1/65536: `k^2 3 b / (2 - b)` where a loss takes `b = 0.3 / k`.
#[inline(always)]
const fn alpha_q16(flows: u32) -> u32 {
    // The usual case takes no division.
    if flows == 1 { ALPHA_OF_ONE_Q16 } else { alpha_of_q16(flows) }
}

const ALPHA_OF_ONE_Q16: u32 = alpha_of_q16(1);

#[inline(always)]
const fn alpha_of_q16(flows: u32) -> u32 {
    let loss_q16 = divide(LOSS_Q16, flows);
    // Fits: flows are 50 at most.
    let most_q16 = 2 * ONE_Q16 as u64 - loss_q16;
    match ((3 * LOSS_Q16 * flows as u64) << 16).checked_div(most_q16) {
        Some(alpha_q16) => alpha_q16 as u32,
        None => ONE_Q16,
    }
}

/// The quotient. A division by zero, which there is none of, would be a panic that the compiler
/// cannot rule out and the verifier does not take.
#[inline(always)]
const fn divide(number: u64, by: u32) -> u64 {
    match number.checked_div(by as u64) {
        Some(quotient) => quotient,
        None => 0,
    }
}

#[cfg(test)]
mod tests;
