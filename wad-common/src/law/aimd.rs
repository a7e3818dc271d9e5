//! AIMD(b, a): `a` segments more for each RTT, the fraction `b` less on a
//! congestion event.
//!
//! RFC 5681 is AIMD(0.5, 1). The papers' "virtual MSS" is a larger `a`.

use super::{MIN_WINDOW_SEGMENTS, Window, slow_start};
use crate::record;

/// Parameters of the law.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aimd {
    /// Additive increase `a`, segments for each RTT, in 1/65536.
    pub increase_q16: u32,
    /// What a decrease leaves, `1 - b`, in 1/65536.
    pub keep_q16: u32,
}
record!(Aimd, size = 8);

/// One segment, or the whole of a window, in fixed point.
pub const ONE_Q16: u32 = 1 << 16;

/// Least additive increase: 1/16 of a segment for each RTT.
pub const MIN_INCREASE_Q16: u32 = ONE_Q16 / 16;
/// Greatest additive increase: 4096 segments for each RTT.
pub const MAX_INCREASE_Q16: u32 = 4096 * ONE_Q16;
/// Least part that a decrease leaves: b = 0.9.
pub const MIN_KEEP_Q16: u32 = ONE_Q16 - 58_982;
/// Greatest part that a decrease leaves: b = 0.01.
pub const MAX_KEEP_Q16: u32 = ONE_Q16 - 655;

impl Aimd {
    /// RFC 5681: one segment for each RTT, half on a congestion event.
    pub const STANDARD: Self = Self { increase_q16: ONE_Q16, keep_q16: ONE_Q16 / 2 };

    /// The parameters, if both are within their ranges.
    #[must_use]
    pub const fn try_new(increase_q16: u32, keep_q16: u32) -> Option<Self> {
        if MIN_INCREASE_Q16 <= increase_q16
            && increase_q16 <= MAX_INCREASE_Q16
            && MIN_KEEP_Q16 <= keep_q16
            && keep_q16 <= MAX_KEEP_Q16
        {
            Some(Self { increase_q16, keep_q16 })
        } else {
            None
        }
    }

    /// The window after an ACK for `acked_segments` of a flow that the window
    /// held back. A flow that it does not hold back must not call this: what
    /// its window could carry has not been tried (RFC 9293 3.8.6, RFC 7661).
    #[inline(always)]
    #[must_use]
    pub const fn on_ack(&self, window: Window, acked_segments: u32) -> Window {
        if window.in_slow_start() {
            let (window, left) = slow_start::standard(window, acked_segments);
            if left == 0 { window } else { self.avoid_congestion(window, left) }
        } else {
            self.avoid_congestion(window, acked_segments)
        }
    }

    /// Congestion avoidance, RFC 5681 section 3.1, with `a` for one segment and
    /// counting what each ACK covers (RFC 3465). Never faster than slow start:
    /// where `a` exceeds the window, the window doubles in an RTT.
    #[inline(always)]
    const fn avoid_congestion(&self, window: Window, acked_segments: u32) -> Window {
        let mut cwnd_segments = window.cwnd_segments;
        // The products fit: 32 bits by 32 bits, and the credit carried over is
        // below one window's worth, 2^48.
        let window_q16 = (cwnd_segments as u64) << 16;
        let mut credit_q16 =
            window.credit_q16.saturating_add(acked_segments as u64 * self.increase_q16 as u64);
        if credit_q16 >= window_q16 && window_q16 > 0 {
            let segments = credit_q16 / window_q16;
            credit_q16 -= segments * window_q16;
            let segments =
                if segments < acked_segments as u64 { segments as u32 } else { acked_segments };
            cwnd_segments = cwnd_segments.saturating_add(segments);
        }
        if cwnd_segments > window.clamp_segments {
            cwnd_segments = window.clamp_segments;
        }
        Window { cwnd_segments, credit_q16, ..window }
    }

    /// The slow start threshold after a congestion event: RFC 5681 section 3.1
    /// equation (4), with `1 - b` for one half.
    #[inline(always)]
    #[must_use]
    pub const fn on_congestion(&self, cwnd_segments: u32) -> u32 {
        let kept = ((cwnd_segments as u64 * self.keep_q16 as u64) >> 16) as u32;
        if kept > MIN_WINDOW_SEGMENTS { kept } else { MIN_WINDOW_SEGMENTS }
    }

    /// The window after a decrease turned out to be spurious: what it was
    /// before, unless it has grown past that since (`tcp_reno_undo_cwnd()`).
    #[inline(always)]
    #[must_use]
    pub const fn on_undo(cwnd_segments: u32, prior_cwnd_segments: u32) -> u32 {
        if cwnd_segments > prior_cwnd_segments { cwnd_segments } else { prior_cwnd_segments }
    }
}

impl Default for Aimd {
    fn default() -> Self {
        Self::STANDARD
    }
}
