//! A running flow tells this of how it gets on, for guards: as the agent reads it at each of
//! their ticks.

use crate::{progress::Limits, record};

/// A flow at one moment.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// The socket's cookie.
    pub cookie: u64,
    /// Octets acknowledged by the peer.
    pub bytes_acked: u64,
    /// Remote address, IPv4 mapped into IPv6, as it is in packets.
    pub remote: [u32; 4],
    /// Index of its policy.
    pub policy: u32,
    /// An [`Outcome`](crate::flow::Outcome).
    pub outcome: u32,
    /// Segments sent with data, those sent again included.
    pub data_segs_out: u32,
    /// Segments sent again.
    pub segs_retrans: u32,
    /// Smoothed RTT; 0 for none.
    pub srtt_us: u32,
    /// Least RTT of the kernel's window of minutes (tcp_rtt_min); all ones for none.
    pub min_rtt_us: u32,
    /// Sending maximum segment size.
    pub mss_bytes: u32,
    /// These clocks are up to now.
    pub limits: Limits,
    /// Now, by the clock that counts those.
    pub ticks: u32,
    /// Keeps the record free of implicit padding.
    pub reserved: u32,
}
record!(Health, size = 80);
