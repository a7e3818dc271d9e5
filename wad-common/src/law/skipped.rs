//! Garbage in place of a result, where the kernel skipped the BPF program that returns it.
//!
//! Some kernels run no BPF program while init (PID 1) has the processor (seen on Linux 6.18 of a cloud's
//! virtual machines, where `__bpf_prog_enter()` compares `current->tgid` with 1). They also skip the
//! programs of packets and timers that interrupt init. The result is then what was on the stack: half
//! of a return address, which is larger than any window, or 0. Both were seen.

use super::{INFINITE_SSTHRESH, MAX_WINDOW_SEGMENTS, MIN_WINDOW_SEGMENTS};

/// Whether the slow start threshold is garbage: `ssthresh()` was skipped. The window follows a large one,
/// to 980 million segments within an RTT (seen). With 0 a flow goes on after a time-out in congestion
/// avoidance, from a window of one segment.
#[inline(always)]
#[must_use]
pub const fn is_unanswered(ssthresh_segments: u32) -> bool {
    ssthresh_segments.wrapping_sub(1) >= INFINITE_SSTHRESH
}

/// The window of a flow; where that is garbage, the window before the latest decrease (`prior_cwnd`).
/// It is garbage after a skipped `undo_cwnd()`, and where it followed a threshold that was garbage.
#[inline(always)]
#[must_use]
pub const fn window_segments(cwnd_segments: u32, prior_cwnd_segments: u32) -> u32 {
    if cwnd_segments.wrapping_sub(1) < MAX_WINDOW_SEGMENTS {
        cwnd_segments
    } else if prior_cwnd_segments < MIN_WINDOW_SEGMENTS {
        MIN_WINDOW_SEGMENTS
    } else {
        prior_cwnd_segments
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_WINDOW_SEGMENTS, window_segments};

    #[test]
    fn garbage_is_replaced_by_the_window_before_the_decrease() {
        for garbage in [0, MAX_WINDOW_SEGMENTS + 1, 0xffff_a001] {
            assert_eq!(window_segments(garbage, 700), 700);
            assert_eq!(window_segments(garbage, 0), 2);
        }
        for window in [1, 700, MAX_WINDOW_SEGMENTS] {
            assert_eq!(window_segments(window, 300), window);
        }
    }
}
