//! The base RTT: what the path takes with its queue empty.
//!
//! The least floor seen is it, until it is old: then the route may have become
//! longer, or the least was seen with others' queue, and the flow would keep its
//! own on top of that. So the flow sends less for a round, and what it sees then
//! is the base. Flows that share a queue do that at the same time, as BBR's do
//! in ProbeRTT: the first to drain shows the others a lower RTT than they knew,
//! and from that moment their time counts anew.

use crate::{law::MIN_WINDOW_SEGMENTS, record};

/// A base RTT is believed for so long: ten seconds, in units of 1024 us. BBR's
/// `bbr_min_rtt_win_sec`.
const OLD_TICKS: u32 = 9766;
/// A drain takes an eighth of the window, for a round: an eighth of a BDP of
/// queue runs empty, and a hundredth of the throughput is lost at 500 ms.
const DRAIN_SHIFT: u32 = 3;

/// The base RTT.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// Least floor; `u32::MAX` before the first.
    rtt_us: u32,
    /// Least floor since it is sought.
    sought_us: u32,
    /// It was seen last then, in units of 1024 us; this wraps around after 50 days,
    /// after which idle flow a base may be old up to ten seconds late.
    seen_ticks: u32,
}
record!(Base, size = 12);

impl Base {
    pub const UNKNOWN: Self = Self { rtt_us: u32::MAX, sought_us: u32::MAX, seen_ticks: 0 };

    /// `u32::MAX` if unknown.
    #[inline(always)]
    pub const fn rtt_us(&self) -> u32 {
        self.rtt_us
    }

    /// Takes a floor.
    #[inline(always)]
    pub fn see(&mut self, floor_us: u32, now_us: u64) {
        self.sought_us = self.sought_us.min(floor_us);
        if floor_us <= self.rtt_us {
            self.rtt_us = floor_us;
            self.confirm(now_us);
        }
    }

    /// It was seen now, or as good as.
    #[inline(always)]
    pub const fn confirm(&mut self, now_us: u64) {
        self.seen_ticks = ticks(now_us);
    }

    #[inline(always)]
    pub const fn is_old(&self, now_us: u64) -> bool {
        ticks(now_us).wrapping_sub(self.seen_ticks) >= OLD_TICKS
    }

    /// Lets floors tell it anew from now on.
    #[inline(always)]
    pub const fn seek(&mut self) {
        self.sought_us = u32::MAX;
    }

    /// Lets what was found count, if anything was.
    #[inline(always)]
    pub const fn renew(&mut self, now_us: u64) {
        if self.sought_us != u32::MAX {
            self.rtt_us = self.sought_us;
        }
        self.confirm(now_us);
    }

    /// Returns the segments of a window that are in the queue when RTTs are not below
    /// the floor.
    #[inline(always)]
    pub fn queued_q16(&self, cwnd_segments: u32, floor_us: u32) -> u64 {
        if floor_us <= self.rtt_us {
            return 0;
        }
        // Below one; so the product is below the window.
        let share_q16 = (u64::from(floor_us - self.rtt_us) << 16) / u64::from(floor_us);
        u64::from(cwnd_segments) * share_q16
    }
}

/// The window that lets the queue run empty, this flow's and some of others':
/// half of it is left at least.
#[inline(always)]
pub fn drained_segments(cwnd_segments: u32, queue_segments: u32) -> u32 {
    let queued_segments = queue_segments.saturating_add(cwnd_segments >> DRAIN_SHIFT);
    let least_segments = (cwnd_segments / 2).max(MIN_WINDOW_SEGMENTS).min(cwnd_segments);
    cwnd_segments.saturating_sub(queued_segments).max(least_segments)
}

#[inline(always)]
const fn ticks(now_us: u64) -> u32 {
    (now_us >> 10) as u32
}

#[cfg(test)]
mod tests {
    use super::{Base, OLD_TICKS, drained_segments};

    const OLD_US: u64 = (OLD_TICKS as u64) << 10;

    #[test]
    fn the_least_floor_is_the_base_until_it_is_old() {
        let mut base = Base::UNKNOWN;
        base.see(100_000, 0);
        base.see(99_000, 1_000_000);
        base.see(101_000, 2_000_000);
        assert_eq!(base.rtt_us(), 99_000);
        assert!(!base.is_old(OLD_US));
        assert!(base.is_old(1_000_000 + OLD_US));
        base.confirm(2_000_000);
        assert!(!base.is_old(1_000_000 + OLD_US));
    }

    #[test]
    fn what_is_sought_replaces_the_base_even_if_it_is_more() {
        let mut base = Base::UNKNOWN;
        base.see(99_000, 0);
        base.seek();
        base.see(121_000, OLD_US);
        base.see(120_000, OLD_US);
        base.renew(OLD_US);
        assert_eq!(base.rtt_us(), 120_000);
        // Nothing came in: what was known still is.
        base.seek();
        base.renew(3 * OLD_US);
        assert_eq!(base.rtt_us(), 120_000);
        assert!(!base.is_old(3 * OLD_US));
    }

    #[test]
    fn the_clock_wraps_around_after_50_days() {
        let mut base = Base::UNKNOWN;
        base.see(1000, u64::from(u32::MAX) << 10);
        assert!(!base.is_old((1_u64 << 42) + 1_000_000));
        assert!(base.is_old((1_u64 << 42) + OLD_US));
    }

    #[test]
    fn the_queue_is_what_the_window_exceeds_the_base_by() {
        let mut base = Base::UNKNOWN;
        assert_eq!(base.queued_q16(1000, 100_000), 0);
        base.see(100_000, 0);
        assert_eq!(base.queued_q16(1000, 100_000), 0);
        assert_eq!(base.queued_q16(1000, 99_000), 0);
        assert_eq!(base.queued_q16(1000, 125_000) >> 16, 199);
        assert_eq!(base.queued_q16(1000, 200_000) >> 16, 500);
        assert!(base.queued_q16(u32::MAX, u32::MAX) < u64::from(u32::MAX) << 16);
    }

    #[test]
    fn a_drain_leaves_half_at_least() {
        assert_eq!(drained_segments(1000, 30), 845);
        assert_eq!(drained_segments(20, 10_000), 10);
        assert_eq!(drained_segments(1, 4), 1);
        assert_eq!(drained_segments(3, 4), 2);
        assert_eq!(drained_segments(u32::MAX, u32::MAX), u32::MAX / 2);
    }
}
