//! Pacing by TCP itself: how much is sent at a time, and when the next may follow.

use wad_common::law::{
    INITIAL_WINDOW_SEGMENTS, Window,
    pacing::{bytes_per_second, enough_bytes_per_second, rapid_bytes_per_second},
};

use crate::tcp::Tcp;

const NS: u128 = 1_000_000_000;
/// A network card cuts up so much at a time, less its headers (`sk_gso_max_size`).
const MOST_BYTES: u64 = 65_536 - 320;
/// Two segments are sent at a time at least (`tcp_min_tso_segs`).
const LEAST_SEGMENTS: u32 = 2;
/// A burst takes 1/1024 of a second (`sk_pacing_shift`).
const SHIFT: u32 = 10;
/// Over short paths it is longer: by the most there is, shifted by RTT / 512 us
/// (`tcp_tso_rtt_log`).
const RTT_LOG: u32 = 9;
/// The first so many segments go at once (`tcp_update_skb_after_send()`).
pub const UNPACED_SEGMENTS: u64 = INITIAL_WINDOW_SEGMENTS as u64;

/// When a flow may send (`tcp_wstamp_ns`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamp {
    next_ns: u64,
}

impl Stamp {
    pub const fn next_ns(self) -> u64 {
        self.next_ns
    }

    /// So much is sent now, at this rate: what was not used of the time before counts for half of
    /// it, at most.
    pub fn send(&mut self, now_ns: u64, bytes: u64, bytes_per_second: u64) {
        let begin_ns = self.next_ns.max(now_ns);
        let unused_ns = begin_ns - self.next_ns;
        let takes_ns = u128::from(bytes) * NS / u128::from(bytes_per_second.max(1));
        let takes_ns = u64::try_from(takes_ns).unwrap_or(u64::MAX);
        self.next_ns = begin_ns.saturating_add(takes_ns - unused_ns.min(takes_ns / 2));
    }
}

/// The rate that the kernel has for a flow whose law leaves that to it: 1.2 windows in an RTT,
/// and two in slow start below half of its threshold (`tcp_update_pacing_rate()`). The window is
/// no less than what has been sent behind the first segment that is missing (`packets_out`): what
/// is sent again in a recovery goes by the window from before it.
pub fn follow(tcp: &mut Tcp, packets_out: u32) {
    let window = tcp.window(0);
    let doubles = window.cwnd_segments < window.ssthresh_segments / 2;
    let window = Window { cwnd_segments: window.cwnd_segments.max(packets_out), ..window };
    if let Some(rate) = bytes_per_second(&window, tcp.mss_bytes, tcp.srtt_us, doubles) {
        tcp.pace_at(rate);
    }
}

/// Changes the kernel's rate as our loss-based laws do: raises it in rapid start, and lowers it in a
/// recovery and in a limited slow start.
pub fn follow_window(tcp: &mut Tcp, window: &Window, packets_out: u32, is_rapid: bool) {
    if is_rapid && !window.is_limited() {
        if let Some(rate) = rapid_bytes_per_second(window, tcp.mss_bytes, tcp.srtt_us) {
            tcp.pace_at(rate);
        }
        return;
    }
    let enough = enough_bytes_per_second(window, packets_out, tcp.mss_bytes, tcp.srtt_us);
    if let Some(rate) = enough {
        tcp.pace_at(rate.min(tcp.pacing_bytes_per_second));
    }
}

/// How many segments are sent at a time (`tcp_tso_autosize()`).
pub fn burst_segments(tcp: &Tcp, least_segments: u32) -> u32 {
    let over_short_paths = MOST_BYTES.checked_shr(tcp.min_rtt_us >> RTT_LOG).unwrap_or(0);
    let bytes = (tcp.pacing_bytes_per_second >> SHIFT) + over_short_paths;
    let segments = bytes.min(MOST_BYTES) / u64::from(tcp.mss_bytes.max(1));
    (segments as u32).max(least_segments.max(LEAST_SEGMENTS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_time_counts_for_half_of_what_is_sent() {
        let mut stamp = Stamp::default();
        stamp.send(1_000, 100, 100_000_000);
        assert_eq!(stamp.next_ns(), 1_500, "100 bytes take 1000 ns");
        stamp.send(1_500, 100, 100_000_000);
        assert_eq!(stamp.next_ns(), 2_500);
        stamp.send(2_700, 100, 100_000_000);
        assert_eq!(stamp.next_ns(), 3_500);
    }

    #[test]
    fn in_a_recovery_the_pace_goes_by_all_that_is_out() {
        let mut tcp =
            Tcp { ssthresh_segments: 50, cwnd_segments: 50, ..Tcp::begin(1000, 10_000_000) };
        let mut paced = |packets_out| {
            follow(&mut tcp, packets_out);
            tcp.pacing_bytes_per_second
        };
        assert_eq!(paced(50), 6_000_000, "1.2 windows of 50 kB in each 10 ms");
        assert_eq!(paced(20), paced(50));
        assert_eq!(paced(200), 4 * paced(50));
        // A law of ours has it by the window.
        let window = tcp.window(0);
        follow_window(&mut tcp, &window, 200, false);
        assert_eq!(tcp.pacing_bytes_per_second, 6_000_000);
    }

    #[test]
    fn a_burst_is_a_millisecond_of_the_rate_within_what_a_card_takes() {
        let tcp = |rate, rtt_ns| Tcp { pacing_bytes_per_second: rate, ..Tcp::begin(1448, rtt_ns) };
        assert_eq!(burst_segments(&tcp(1_000_000, 100_000_000), 2), 2);
        assert_eq!(burst_segments(&tcp(14_827_520, 100_000_000), 2), 10);
        assert_eq!(burst_segments(&tcp(1 << 40, 100_000_000), 2), 45);
        assert_eq!(burst_segments(&tcp(1_000_000, 100_000_000), 7), 7);
        // 1.5 ms: 64 KiB shifted by 2.
        assert_eq!(burst_segments(&tcp(0, 1_500_000), 2), 11);
    }
}
