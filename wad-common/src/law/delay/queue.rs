//! The standing queue of a flow whose path names none.
//!
//! Flows that share a bottleneck see the same delay `d`, and each sends at `its
//! queue / d`. So the queue wanted has to grow with the rate slower than the
//! rate itself does, or any shares would be as good as equal ones: it is the
//! square root. Then `n` flows keep `sqrt(n)` times what one keeps, all get the
//! same rate whatever their RTTs, and the faster the path, the shorter the delay:
//! 3.1 ms at 100 Mbit/s, 1 ms at 1 Gbit/s, 0.3 ms at 10 Gbit/s.

/// A flow keeps the square root of what it sends in this time.
const SPAN_US: u64 = 80_000;
/// Where the RTT is short, a 32nd of the window and these few: a queue of a tenth
/// of the path holds that, and what is sent at once. There the longer RTT has the
/// larger share: at 20 ms up to 2.5 Gbit/s, at 120 ms up to 70 Mbit/s.
const WINDOW_SHIFT: u32 = 5;
/// The least that a flow keeps.
pub const FEW_SEGMENTS: u32 = 4;
/// But what is sent in this time, where it is more, below an RTT of 8 ms: two hosts
/// take as long to get round to each other's packets, which is no queue.
const NOISE_US: u64 = 250;

/// Segments to keep queued, of a flow whose packets take this RTT: four at least.
#[inline(always)]
pub fn of_window(cwnd_segments: u32, rtt_us: u32) -> u32 {
    let sent_in = |span_us: u64| {
        let segments = u64::from(cwnd_segments) * span_us / u64::from(rtt_us.max(1));
        segments.min(u32::MAX.into()) as u32
    };
    let few_segments = (cwnd_segments >> WINDOW_SHIFT).saturating_add(FEW_SEGMENTS);
    sent_in(SPAN_US).isqrt().min(few_segments.max(sent_in(NOISE_US))).max(FEW_SEGMENTS)
}

#[cfg(test)]
mod tests {
    use super::{FEW_SEGMENTS, of_window};

    /// Returns what a path holds, in segments of 1500 bytes.
    const fn bdp_segments(mbit_per_second: u64, rtt_us: u32) -> u32 {
        (mbit_per_second * rtt_us as u64 / 8 / 1500) as u32
    }

    #[test]
    fn the_queue_is_short_in_time_and_for_the_path() {
        for (mbit_per_second, least_us, most_us) in
            [(100, 2900, 3200), (622, 1000, 1300), (1000, 900, 1000), (10_000, 200, 320)]
        {
            for rtt_us in [120_000, 300_000] {
                let queue = of_window(bdp_segments(mbit_per_second, rtt_us), rtt_us);
                let queue_us = u64::from(queue) * 12_000 / mbit_per_second;
                assert!((least_us..=most_us).contains(&queue_us), "{mbit_per_second}: {queue_us}");
            }
        }
        for rtt_us in [100, 1000, 5000, 20_000, 120_000] {
            for mbit_per_second in [622, 2500, 10_000] {
                let bdp = bdp_segments(mbit_per_second, rtt_us);
                let noise = bdp_segments(mbit_per_second, 250);
                assert!(of_window(bdp, rtt_us) <= (bdp / 20 + FEW_SEGMENTS).max(noise), "{bdp}");
            }
        }
    }

    #[test]
    fn it_grows_slower_than_the_window() {
        for rtt_us in [100, 20_000, 120_000, u32::MAX] {
            let mut before = of_window(1, rtt_us);
            for bits in 1..32 {
                let queue = of_window(1 << bits, rtt_us);
                assert!(before <= queue && queue <= 2 * before, "{bits}: {queue}");
                before = queue;
            }
            assert!(of_window(1 << 20, rtt_us) < of_window(1 << 10, rtt_us) << 10);
        }
    }

    #[test]
    fn there_are_a_few_at_least_and_no_overflow() {
        assert_eq!(of_window(0, 0), FEW_SEGMENTS);
        assert_eq!(of_window(10, 120_000), FEW_SEGMENTS);
        assert_eq!(of_window(u32::MAX, 1), 65_535);
    }
}
