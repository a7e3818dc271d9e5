//! Counts are kept for each path, in the kernel, so that it goes on while no agent
//! runs.

use crate::record;

/// Counts of one path, in a map by policy index.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathStats {
    /// Connections, made or accepted, that matched.
    pub matched: u64,
    /// So many were established.
    pub opened: u64,
    /// Established ones that closed.
    pub closed: u64,
    /// Tuned flows now: what `max_flows` bounds.
    pub tuned_now: u64,
    /// Matched, but left alone because of `max_flows`.
    pub too_many: u64,
    /// Matched, but a setting was refused by the kernel.
    pub refused: u64,
    /// Octets that peers acknowledged, counted when a flow closes.
    pub bytes_acked: u64,
    /// Octets received in order, counted when a flow closes.
    pub bytes_received: u64,
    /// Segments sent with data, counted when a flow closes.
    pub data_segs_out: u64,
    /// Segments retransmitted, counted when a flow closes.
    pub segs_retrans: u64,
    /// Smoothed RTT of the flow that closed last.
    pub srtt_us: u64,
}
record!(PathStats, size = 88);
