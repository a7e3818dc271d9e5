//! The rate at which a flow's data arrives: what a host that only receives knows of its
//! path. It is counted between the looks at flows' buffers, over spans of a second: what
//! came in one of them is what the path carried, however long the flow was idle before.

use crate::record;

/// A span is no shorter: windows come in bursts, of which a second holds some but on the
/// longest paths.
const SPAN_MS: u64 = 1_000;

/// Arrivals of a flow.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// The span that runs began then, CLOCK_MONOTONIC; 0 before the first look.
    pub since_ns: u64,
    /// Octets received until then.
    pub received_bytes: u64,
    /// Most bytes per second that arrived in a span, since it was asked for last.
    pub most_bytes_per_second: u64,
}
record!(Arrivals, size = 24);

impl Arrivals {
    /// Looks at a flow that has received so much by now, with nothing behind a hole: that
    /// would count in another span than the one it came in.
    #[inline(always)]
    pub const fn look(&mut self, received_bytes: u64, now_ns: u64) {
        if self.since_ns != 0 {
            let passed_ms = now_ns.saturating_sub(self.since_ns) / 1_000_000;
            if passed_ms < SPAN_MS {
                return;
            }
            // None where the socket has made another connection.
            let bytes = received_bytes.saturating_sub(self.received_bytes);
            // In whole bytes of a millisecond: as a span has a thousand of these at least,
            // this cannot overflow, where a product of all bytes would take 128 bits.
            let rate = (bytes / passed_ms).wrapping_mul(1_000);
            if rate > self.most_bytes_per_second {
                self.most_bytes_per_second = rate;
            }
        }
        self.since_ns = now_ns;
        self.received_bytes = received_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::Arrivals;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Returns the most after looks at these times, in milliseconds, with so much
    /// received by then.
    fn most<const N: usize>(looks: [(u64, u64); N]) -> u64 {
        let mut arrivals = Arrivals::default();
        for (ms, received_bytes) in looks {
            arrivals.look(received_bytes, SECOND_NS + ms * 1_000_000);
        }
        arrivals.most_bytes_per_second
    }

    #[test]
    fn the_best_second_counts_whatever_comes_before_or_after() {
        assert_eq!(most([(0, 7_000)]), 0);
        assert_eq!(most([(0, 0), (100, 900), (999, 900)]), 0);
        assert_eq!(most([(0, 500), (400, 600), (1_000, 1_500)]), 1_000);
        assert_eq!(most([(0, 0), (2_000, 8_000), (3_000, 9_000), (4_000, 9_001)]), 4_000);
        // Looks do not come in time.
        assert_eq!(most([(0, 0), (500, 10_000), (1_250, 12_500)]), 10_000);
    }

    #[test]
    fn ten_idle_days_and_the_end_of_all_counts_do_no_harm() {
        let ten_days_ms = 10 * 86_400_000;
        assert_eq!(most([(0, 0), (ten_days_ms, 1_000), (ten_days_ms + 1_000, 3_000)]), 2_000);
        assert_eq!(most([(0, 0), (1_000, u64::MAX)]), u64::MAX / 1_000 * 1_000);
        // Another connection, and a clock that stands still.
        assert_eq!(most([(0, 5_000), (1_000, 10), (1_000, 20), (2_000, 5_010)]), 5_000);
    }
}
