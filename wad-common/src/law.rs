//! The control laws: pure functions from a window and a sample to a window.
//!
//! A loss-based law is a pair of functions of the window: `a`, the segments that
//! it adds for each RTT, and `b`, the part that a congestion event takes. Here
//! it is a function from the window to an [`Aimd`], which says what an ACK and a
//! congestion event do: `highspeed::response(cwnd).on_ack(window, acked)`.
//!
//! Windows count segments, as the kernel's do (`tp->snd_cwnd`). Numbers with
//! `_q16` are fixed point with 16 binary places.

pub mod aimd;
pub mod binomial;
pub mod cubic;
pub mod curve;
pub mod dedicated;
pub mod delay;
pub mod highspeed;
pub mod hystart;
pub mod idle;
pub mod leaky;
pub mod loss_based;
pub mod pacing;
pub mod phase;
pub mod resume;
pub mod rtt;
mod sample;
pub mod scalable;
pub mod skipped;
pub mod slow_start;
pub mod stall;

pub use aimd::Aimd;
pub use binomial::Binomial;
pub use phase::ShownPhase;
pub use sample::Sample;

/// Least window after a decrease: RFC 5681 section 3.1, equation (4).
pub const MIN_WINDOW_SEGMENTS: u32 = 2;

/// No flow has a larger window: receive windows end at 1 GiB (RFC 7323 section 2.3).
const MAX_WINDOW_SEGMENTS: u32 = 1 << 28;

/// Window that a flow begins with: RFC 6928 section 2, `TCP_INIT_CWND` (include/net/tcp.h).
pub const INITIAL_WINDOW_SEGMENTS: u32 = 10;

/// Greatest increase of any law, 65,534 segments for each RTT: with more, an ACK
/// for 2^32 segments would overflow the credit.
pub const MAX_LAW_INCREASE_Q16: u32 = 65_534 * aimd::ONE_Q16;

/// A threshold that is none: `TCP_INFINITE_SSTHRESH` (include/net/tcp.h).
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// A flow's congestion window, as a law sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Congestion window (`snd_cwnd`).
    pub cwnd_segments: u32,
    /// Slow start threshold (`snd_ssthresh`).
    pub ssthresh_segments: u32,
    /// Upper bound of the window (`snd_cwnd_clamp`).
    pub clamp_segments: u32,
    /// Window above which slow start is limited (`max_ssthresh` of RFC 3742), 2
    /// or more; `u32::MAX` where it is not.
    pub max_ssthresh_segments: u32,
    /// Growth earned but not yet granted: acknowledged segments times the
    /// increase, in 1/65536; one window's worth of it is one segment.
    pub credit_q16: u64,
}

impl Window {
    /// Slow start or congestion avoidance, as `tcp_in_slow_start()`.
    #[inline(always)]
    #[must_use]
    pub const fn in_slow_start(&self) -> bool {
        self.cwnd_segments < self.ssthresh_segments
    }

    /// Whether slow start, where the window is in it, is limited (RFC 3742).
    #[inline(always)]
    #[must_use]
    pub const fn is_limited(&self) -> bool {
        self.ssthresh_segments > self.max_ssthresh_segments
            && self.cwnd_segments >= self.max_ssthresh_segments
    }

    /// The segments of growth that an ACK earns at this increase for each RTT,
    /// no more than it acknowledges, and the credit that is left: RFC 5681
    /// section 3.1, counting what each ACK covers (RFC 3465), as
    /// `tcp_cong_avoid_ai()` does for one segment for each RTT.
    #[inline(always)]
    const fn earn(&self, increase_q16: u32, acked_segments: u32) -> (u32, u64) {
        let window_q16 = self.cwnd_q16();
        let mut credit_q16 = self.credit_q16;
        let mut earned_segments = 0;
        // Earned at a larger window, before a decrease: all of it is worth one
        // segment now, or the window would jump on the first ACK.
        if credit_q16 >= window_q16 {
            credit_q16 = 0;
            earned_segments = 1;
        }
        // Fits: the credit is below 2^48 now, the product at most 2^64 - 2^49
        // by MAX_LAW_INCREASE_Q16.
        credit_q16 += acked_segments as u64 * increase_q16 as u64;
        if credit_q16 >= window_q16 && window_q16 > 0 {
            let segments = credit_q16 / window_q16;
            credit_q16 -= segments * window_q16;
            earned_segments += segments;
        }
        // What is beyond slow start's growth is given up, not saved.
        let earned_segments = if earned_segments < acked_segments as u64 {
            earned_segments as u32
        } else {
            acked_segments
        };
        (earned_segments, credit_q16)
    }

    #[inline(always)]
    const fn cwnd_q16(&self) -> u64 {
        (self.cwnd_segments as u64) << 16
    }

    /// Returns it with this congestion window, or what the clamp leaves of that.
    #[inline(always)]
    const fn at_most_clamped(self, cwnd_segments: u32) -> Self {
        let clamp = self.clamp_segments;
        Self { cwnd_segments: if cwnd_segments < clamp { cwnd_segments } else { clamp }, ..self }
    }
}
