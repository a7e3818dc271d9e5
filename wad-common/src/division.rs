//! All that a path's flows have together is divided among those that it has at a time: its
//! buffers, in bytes as the arguments of SO_SNDBUF and SO_RCVBUF; its rates, in bytes
//! per second; its window, in segments.

use crate::{law::MIN_WINDOW_SEGMENTS, policy::PACED, record};

/// Returns what one of so many flows gets of a buffer: an equal part, but no less
/// than the kernel's default, unless all of it is less. Undivided where there are
/// none.
#[inline(always)]
#[must_use]
pub const fn part_bytes(total_bytes: u32, flows: u32, default_bytes: u32) -> u32 {
    if flows == 0 {
        return total_bytes;
    }
    let equal_bytes = total_bytes / flows;
    let least_bytes = if default_bytes < total_bytes { default_bytes } else { total_bytes };
    if equal_bytes < least_bytes { least_bytes } else { equal_bytes }
}

/// Returns one of so many flows' part of a rate, and of nothing nothing.
#[inline(always)]
#[must_use]
pub const fn part_of_rate(bytes_per_second: u64, flows: u32) -> u64 {
    if flows < 2 || bytes_per_second == 0 {
        return bytes_per_second;
    }
    let part = bytes_per_second / flows as u64;
    // None is no bound.
    if part == 0 { 1 } else { part }
}

/// Returns one of so many flows' part of a bound of the rate, as a policy asks for it;
/// [`PACED`] is none that could be divided.
#[inline(always)]
#[must_use]
pub const fn part_of_bound(bytes_per_second: u32, flows: u32) -> u32 {
    if bytes_per_second == PACED {
        return PACED;
    }
    // No more than the whole.
    part_of_rate(bytes_per_second as u64, flows) as u32
}

/// Returns one of so many flows' part of a window, and of no window none. A window that
/// is smaller could not answer to a loss (RFC 5681 section 3.1, equation 4).
#[inline(always)]
#[must_use]
pub const fn part_of_window(segments: u32, flows: u32) -> u32 {
    if flows < 2 || segments == 0 || segments == u32::MAX {
        return segments;
    }
    let part = segments / flows;
    if part < MIN_WINDOW_SEGMENTS { MIN_WINDOW_SEGMENTS } else { part }
}

/// Among how many flows each was divided when last it was set; 0 for not at all. Each is set at its own time.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Division {
    /// The send buffer.
    pub sndbuf_flows: u32,
    /// The receive buffer.
    pub rcvbuf_flows: u32,
    /// The window that is offered. It goes before the receive buffer, which has to
    /// hold what has been offered already.
    pub window_flows: u32,
    /// The kernel gives this by default, half of `tcp_wmem[1]`.
    pub default_sndbuf_bytes: u32,
    /// The kernel gives this by default, half of `tcp_rmem[1]`.
    pub default_rcvbuf_bytes: u32,
    /// The flow's congestion control looked last at this time whether the send buffer
    /// is to follow, by the flow's clock (`tcp_mstamp`). It wraps in 72 minutes: a
    /// look may come an RTT late then.
    pub looked_us: u32,
    /// The bound of the rate that the flow was given: it stays until that is another.
    pub rate_flows: u32,
    /// The window and the rate that the flow's law has. It divides them by itself.
    pub law_flows: u32,
}
record!(Division, size = 32);

impl Division {
    /// Whether all is divided among so many.
    #[inline(always)]
    #[must_use]
    pub const fn is_among(&self, flows: u32) -> bool {
        self.sndbuf_flows == flows && self.rcvbuf_flows == flows && self.window_flows == flows
    }

    /// The division is the same for all flows whose buffers are about to be set.
    #[inline(always)]
    pub const fn set_among(&mut self, flows: u32) {
        self.sndbuf_flows = flows;
        self.rcvbuf_flows = flows;
        self.window_flows = flows;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parts_are_equal_down_to_the_default() {
        let part = |flows| part_bytes(8_000_000, flows, 65_536);
        assert_eq!(
            [0, 1, 2, 3, 8].map(part),
            [8_000_000, 8_000_000, 4_000_000, 2_666_666, 1_000_000]
        );
        assert_eq!([122, 123, 100_000, u32::MAX].map(part), [65_573, 65_536, 65_536, 65_536]);
        // One that is smaller than the default is nobody's reason for more.
        assert_eq!(part_bytes(10_000, 3, 65_536), 10_000);
        assert_eq!(part_bytes(0, 3, 65_536), 0);
    }

    #[test]
    fn rates_and_windows_have_parts_that_are_some() {
        assert_eq!([0, 1, 2, 8].map(|flows| part_of_rate(1_000, flows)), [1_000, 1_000, 500, 125]);
        assert_eq!([part_of_rate(0, 8), part_of_rate(7, 8)], [0, 1]);
        assert_eq!([0, 1, 2, 8].map(|flows| part_of_window(100, flows)), [100, 100, 50, 12]);
        assert_eq!([part_of_window(0, 8), part_of_window(7, 8)], [0, 2]);
        assert_eq!(part_of_window(u32::MAX, 8), u32::MAX);
    }

    proptest! {
        #[test]
        fn all_parts_together_are_the_whole_or_defaults(
            total: u32, flows in 1_u32.., default: u32
        ) {
            let part = part_bytes(total, flows, default);
            let (together, flows) = (u64::from(part) * u64::from(flows), u64::from(flows));
            prop_assert!(part <= total);
            prop_assert!(together <= u64::from(total).max(flows * u64::from(default)));
            prop_assert!(part >= default.min(total) && together + flows > u64::from(total));
        }
    }
}
