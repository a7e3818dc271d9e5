//! Programs that the kernel has skipped.
//!
//! A kernel that is hardened to run no BPF program while init (PID 1) has the processor skips them
//! for packets and timers of an interrupt meanwhile, too, and finds in place of the result what else
//! was on its stack: half a return address, which is above all windows, or 0 (both seen; Linux 6.18 of
//! a cloud's virtual machines, where `__bpf_prog_enter()` compares `current->tgid` with 1).

use super::{INFINITE_SSTHRESH, MIN_WINDOW_SEGMENTS};

/// No window is larger: 2^28 segments.
const MOST_SEGMENTS: u32 = 1 << 28;

/// Whether the kernel took for a threshold what no program has returned. The window follows it, to 980
/// million segments within an RTT (seen); with 0 a flow would leave a time-out in congestion avoidance,
/// from a window of one segment.
#[inline(always)]
#[must_use]
pub const fn is_unanswered(ssthresh_segments: u32) -> bool {
    ssthresh_segments.wrapping_sub(1) >= INFINITE_SSTHRESH
}

/// The window of a flow. Where the kernel found none, as nobody told it which to give back after a
/// decrease for nothing (`undo_cwnd()`), or as it has followed no threshold, it is that of before the
/// decrease (`prior_cwnd`).
#[inline(always)]
#[must_use]
pub const fn window_segments(cwnd_segments: u32, prior_cwnd_segments: u32) -> u32 {
    if cwnd_segments.wrapping_sub(1) < MOST_SEGMENTS {
        cwnd_segments
    } else if prior_cwnd_segments < MIN_WINDOW_SEGMENTS {
        MIN_WINDOW_SEGMENTS
    } else {
        prior_cwnd_segments
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_SEGMENTS, window_segments};

    #[test]
    fn a_window_that_no_program_gave_is_that_of_before_the_decrease() {
        for garbage in [0, MOST_SEGMENTS + 1, 0xffff_a001] {
            assert_eq!(window_segments(garbage, 700), 700);
            assert_eq!(window_segments(garbage, 0), 2);
        }
        for window in [1, 700, MOST_SEGMENTS] {
            assert_eq!(window_segments(window, 300), window);
        }
    }
}
