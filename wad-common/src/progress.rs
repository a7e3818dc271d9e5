//! A running flow tells this of its path: the kernel's own measurements of it, as the
//! agent reads them now and then.

use crate::record;

/// These limits say why a flow sends no faster, as the kernel's clocks have it (`enum
/// tcp_chrono`, include/linux/tcp.h): one of them runs while there is data to be
/// acknowledged.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Ticks in which neither of the two below held (TCP_CHRONO_BUSY).
    pub busy_ticks: u32,
    /// Ticks in which the peer's window held it back (TCP_CHRONO_RWND_LIMITED).
    pub rwnd_ticks: u32,
    /// Ticks in which its send buffer did (TCP_CHRONO_SNDBUF_LIMITED).
    pub sndbuf_ticks: u32,
}
record!(Limits, size = 12);

/// A clock that was begun on another processor may seem to be so many ticks in the future, for
/// nothing is locked.
const AHEAD_TICKS: u32 = 16;

impl Limits {
    /// Returns the same, with nothing by a clock that has begun just then and seems to be ahead
    /// of the reading.
    #[must_use]
    pub fn settled(&self) -> Self {
        let settled = |ticks: u32| if ticks > u32::MAX - AHEAD_TICKS { 0 } else { ticks };
        Self {
            busy_ticks: settled(self.busy_ticks),
            rwnd_ticks: settled(self.rwnd_ticks),
            sndbuf_ticks: settled(self.sndbuf_ticks),
        }
    }

    /// Returns what came since these. The counts wrap.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            busy_ticks: self.busy_ticks.wrapping_sub(earlier.busy_ticks),
            rwnd_ticks: self.rwnd_ticks.wrapping_sub(earlier.rwnd_ticks),
            sndbuf_ticks: self.sndbuf_ticks.wrapping_sub(earlier.sndbuf_ticks),
        }
    }
}

/// A flow at one moment.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The socket's cookie.
    pub cookie: u64,
    /// Octets acknowledged by the peer.
    pub bytes_acked: u64,
    /// Octets received in order.
    pub bytes_received: u64,
    /// Most bytes per second that arrived in a second since the reading before.
    pub arrived_bytes_per_second: u64,
    /// Index of its policy.
    pub policy: u32,
    /// So much was delivered in the latest sample of the rate that the application
    /// did not limit, or in one that was higher (`tcp_rate_gen()`).
    pub delivered_segments: u32,
    /// The time that it took.
    pub delivered_in_us: u32,
    /// It is not 0 where the application limits what is on its way.
    pub app_limited: u32,
    /// Least RTT of the kernel's window of minutes (tcp_rtt_min); all ones for
    /// none.
    pub min_rtt_us: u32,
    /// RTT as this end sees it by what it receives, smoothed (`tcp_rcv_rtt_update()`):
    /// with the time that data waits in queues, or for the sender's application. 0 for
    /// none.
    pub receiving_rtt_us: u32,
    /// Sending maximum segment size.
    pub mss_bytes: u32,
    /// Congestion window.
    pub cwnd_segments: u32,
    /// Slow start threshold.
    pub ssthresh_segments: u32,
    /// These clocks are up to now.
    pub limits: Limits,
    /// Now, by the clock that counts those.
    pub ticks: u32,
    /// Keeps the record free of implicit padding.
    pub reserved: u32,
}
record!(Progress, size = 88);

#[cfg(test)]
mod tests {
    use super::Limits;

    #[test]
    fn counts_that_wrapped_in_between_are_subtracted() {
        let earlier = Limits { busy_ticks: u32::MAX, rwnd_ticks: 5, sndbuf_ticks: 0 };
        let now = Limits { busy_ticks: 1, rwnd_ticks: 7, sndbuf_ticks: 3 };
        let since = Limits { busy_ticks: 2, rwnd_ticks: 2, sndbuf_ticks: 3 };
        assert_eq!(now.since(&earlier), since);
    }

    #[test]
    fn a_clock_that_has_just_begun_shows_nothing_yet() {
        let limits =
            Limits { busy_ticks: u32::MAX - 15, rwnd_ticks: u32::MAX - 16, sndbuf_ticks: 3 };
        assert_eq!(limits.settled(), Limits { busy_ticks: 0, ..limits });
    }
}
