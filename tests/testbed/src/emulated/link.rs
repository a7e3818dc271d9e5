//! The bottleneck is a first-in first-out queue of bounded size before a line of fixed
//! rate. Times in nanoseconds since the emulator's start.

/// The line is kept in picoseconds, so that a segment's share of a nanosecond
/// (19,292.6 ns for 1500 bytes at 622 Mb/s) does not add up to a wrong rate.
const PS_PER_NS: u64 = 1000;
const PS_PER_SECOND_OF_BYTES: u64 = 8 * 1_000_000_000_000;

/// Tells what a link is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkLaw {
    pub rate_bits_per_second: u64,
    /// The bytes that may wait or be in transmission, headers included.
    pub queue_limit_bytes: u64,
}

/// A link, in virtual time: no packet is held here, only when the line is free.
/// That lasts for 213 days, after which it saturates and drops everything.
#[derive(Clone, Debug)]
pub struct Link {
    law: LinkLaw,
    free_ps: u64,
}

impl Link {
    #[must_use]
    pub const fn new(law: LinkLaw) -> Self {
        Self { law, free_ps: 0 }
    }

    /// Is like that from now on. What waits is as long as it was, in time.
    pub const fn set(&mut self, law: LinkLaw) {
        self.law = law;
    }

    /// Takes a packet that comes; returns when its last bit leaves, or none if the
    /// queue is full.
    ///
    /// Of one that was read late the time of arrival is a guess. That will do for
    /// the queue; but it does not leave before it was seen, or it could be faster
    /// than the path.
    pub fn offer(&mut self, came_ns: u64, read_ns: u64, wire_bytes: u32) -> Option<u64> {
        self.take(came_ns, wire_bytes).map(|leaves_ns| leaves_ns.max(read_ns))
    }

    fn take(&mut self, now_ns: u64, wire_bytes: u32) -> Option<u64> {
        let backlog_bytes = self.backlog_bytes(now_ns);
        // Whatever the limit, an idle line takes a packet.
        if backlog_bytes > 0 && backlog_bytes + u64::from(wire_bytes) > self.law.queue_limit_bytes {
            return None;
        }
        let start_ps = self.free_ps.max(now_ns.saturating_mul(PS_PER_NS));
        self.free_ps = start_ps.saturating_add(
            u64::from(wire_bytes) * PS_PER_SECOND_OF_BYTES / self.law.rate_bits_per_second,
        );
        Some(self.free_ps / PS_PER_NS)
    }

    /// Returns what has not left yet, rounded down to a byte.
    #[must_use]
    pub fn backlog_bytes(&self, now_ns: u64) -> u64 {
        let busy_ps = self.free_ps.saturating_sub(now_ns.saturating_mul(PS_PER_NS));
        let product = u128::from(busy_ps) * u128::from(self.law.rate_bits_per_second);
        u64::try_from(product / u128::from(PS_PER_SECOND_OF_BYTES)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn link(rate_bits_per_second: u64, queue_limit_bytes: u64) -> Link {
        Link::new(LinkLaw { rate_bits_per_second, queue_limit_bytes })
    }

    #[test]
    fn serves_at_its_rate() {
        let mut link = link(622_000_000, u64::MAX);
        let last = (0..51_834).filter_map(|_| link.take(0, 1500)).last();
        // 51,834 * 12,000 bits / 622 Mb/s = 1.000012861 s, but for less than a
        // picosecond of each packet.
        assert!(last.is_some_and(|last_ns| (1_000_012_800..=1_000_012_861).contains(&last_ns)));
    }

    #[test]
    fn drops_at_the_tail() {
        let mut link = link(8_000_000, 3000);
        // 1 byte per microsecond: two fit, the third comes too early.
        assert_eq!(link.take(0, 1500), Some(1_500_000));
        assert_eq!(link.take(0, 1500), Some(3_000_000));
        assert_eq!(link.take(1_499_000, 1500), None);
        assert_eq!(link.take(1_500_000, 1500), Some(4_500_000));
    }

    #[test]
    fn another_rate_is_of_what_comes_hereafter() {
        let mut link = link(8_000_000, 3000);
        assert_eq!(link.take(0, 1500), Some(1_500_000));
        link.set(LinkLaw { rate_bits_per_second: 800_000, queue_limit_bytes: 3000 });
        assert_eq!(link.take(0, 1500), Some(16_500_000));
    }

    #[test]
    fn a_tiny_queue_still_passes_single_packets() {
        let mut link = link(8_000_000, 0);
        assert_eq!(link.take(0, 1500), Some(1_500_000));
        assert_eq!(link.take(0, 1500), None);
        assert_eq!(link.take(1_500_000, 1500), Some(3_000_000));
    }

    #[test]
    fn what_is_read_late_fills_no_queue_and_is_not_faster_than_the_path() {
        let mut link = link(8_000_000, 3000);
        // Read all at once, 4.5 ms after the first of them may have come.
        let leaves = [0, 1_500_000, 3_000_000].map(|came_ns| link.offer(came_ns, 4_500_000, 1500));
        assert_eq!(leaves, [Some(4_500_000); 3]);
        assert_eq!(link.offer(4_500_000, 4_500_000, 1500), Some(6_000_000));
    }

    #[test]
    fn outlives_its_clock() {
        let mut link = link(622_000_000, 9_000_000);
        assert!(link.take(u64::MAX, 1500).is_some());
        assert!(link.take(u64::MAX, 1500).is_some());
    }

    proptest! {
        #[test]
        fn keeps_order_rate_and_limit(
            gaps in prop::collection::vec((0_u64..200_000, 40_u32..9000), 1..300),
            rate in 1_000_000_u64..10_000_000_000,
            limit in 9000_u64..10_000_000,
        ) {
            let mut link = link(rate, limit);
            let (mut now, mut last, mut served_ps) = (0, 0, 0_u128);
            for (gap, bytes) in gaps {
                now += gap;
                let Some(leaves) = link.take(now, bytes) else {
                    prop_assert!(link.backlog_bytes(now) + u64::from(bytes) > limit);
                    continue;
                };
                served_ps += u128::from(bytes) * 8_000_000_000_000 / u128::from(rate);
                prop_assert!(leaves >= last && leaves >= now);
                // Never faster than the rate since time 0.
                prop_assert!(u128::from(leaves + 1) * 1000 > served_ps);
                prop_assert!(link.backlog_bytes(now) <= limit);
                last = leaves;
            }
        }
    }
}
