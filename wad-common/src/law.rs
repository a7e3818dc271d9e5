//! The control laws: pure functions from a window and a sample to a window.
//!
//! Windows count segments, as the kernel's do (`tp->snd_cwnd`). Numbers with
//! `_q16` are fixed point with 16 binary places.

pub mod aimd;
pub mod slow_start;

pub use aimd::Aimd;

/// Least window after a decrease: RFC 5681 section 3.1, equation (4).
pub const MIN_WINDOW_SEGMENTS: u32 = 2;

/// A flow's congestion window, as a law sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Congestion window (`snd_cwnd`).
    pub cwnd_segments: u32,
    /// Slow start threshold (`snd_ssthresh`).
    pub ssthresh_segments: u32,
    /// Upper bound of the window (`snd_cwnd_clamp`).
    pub clamp_segments: u32,
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
}
