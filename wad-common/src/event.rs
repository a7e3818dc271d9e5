//! An event is what the BPF programs tell the agent through the ring buffer.

use crate::{flow::Flow, progress::Limits, record};

/// Which moment of a flow an event tells of.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Established, and tuned or left alone.
    Open = 0,
    /// Closed; the counts are final.
    Close = 1,
    /// Still open, but tuned no more: no path matches it, or another one does.
    Leave = 2,
    /// Its policy, or a parameter of its law, is another one, which it has got.
    Change = 3,
    /// Others came or went: it has another part of its path's buffers.
    Divide = 4,
}

impl Kind {
    /// Its bit among those that nobody wants.
    #[inline(always)]
    #[must_use]
    pub const fn bit(self) -> u64 {
        1 << self as u32
    }
}

/// One event of a matched flow.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The flow as its storage has it.
    pub flow: Flow,
    /// The event happened then, CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// The socket's cookie, as `ss -e` shows it (sk:).
    pub cookie: u64,
    /// The peer has acknowledged so many octets since it was matched.
    pub bytes_acked: u64,
    /// So many octets were received in order since it was matched.
    pub bytes_received: u64,
    /// Remote address, IPv4 mapped into IPv6.
    pub remote: [u8; 16],
    /// Local address, IPv4 mapped into IPv6.
    pub local: [u8; 16],
    /// Remote port, host byte order.
    pub remote_port: u16,
    /// Local port, host byte order.
    pub local_port: u16,
    /// A [`Kind`].
    pub kind: u32,
    /// So many segments were sent with data since it was matched.
    pub data_segs_out: u32,
    /// So many segments were retransmitted since it was matched.
    pub segs_retrans: u32,
    /// Smoothed RTT (tcpEStatsPathSmoothedRTT).
    pub srtt_us: u32,
    /// Least RTT of the kernel's window of minutes (tcp_rtt_min).
    pub min_rtt_us: u32,
    /// Congestion window.
    pub cwnd_segments: u32,
    /// Slow start threshold.
    pub ssthresh_segments: u32,
    /// Sending maximum segment size.
    pub mss_bytes: u32,
    /// So much was delivered in the latest sample of the rate (`tcp_rate.c`).
    pub delivered_segments: u32,
    /// The time that it took.
    pub delivered_in_us: u32,
    /// The user that the socket belongs to.
    pub user: u32,
    /// Number of its cgroup; 0 where the kernel does not say.
    pub cgroup: u64,
    /// It has waited so long for each of these, by the kernel's clocks.
    pub limits: Limits,
    /// Keeps the record free of implicit padding.
    pub reserved: u32,
}
record!(Event, size = size_of::<Flow>() + 136);
