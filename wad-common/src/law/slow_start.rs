//! Slow start: RFC 5681 section 3.1, with the byte counting of RFC 3465.

use super::Window;

/// Grows the window by the segments acknowledged, up to ssthresh, and returns
/// the acknowledged segments left over for congestion avoidance, as
/// `tcp_slow_start()` does.
#[inline(always)]
#[must_use]
pub const fn standard(window: Window, acked_segments: u32) -> (Window, u32) {
    let Window { cwnd_segments, ssthresh_segments, clamp_segments, .. } = window;
    // Saturating: a window near 2^32 stays there.
    let grown = cwnd_segments.saturating_add(acked_segments);
    let grown = if grown < ssthresh_segments { grown } else { ssthresh_segments };
    let used = grown.saturating_sub(cwnd_segments);
    let cwnd_segments = if grown < clamp_segments { grown } else { clamp_segments };
    (Window { cwnd_segments, ..window }, acked_segments.saturating_sub(used))
}
