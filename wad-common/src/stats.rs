//! Counts are kept for each path, in the kernel, so that it goes on while no agent
//! runs.

use crate::{
    record,
    recount::{Counted, Drift, Seen},
    senders::Senders,
};

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
    /// Flows that came to be tuned.
    pub admitted: u64,
    /// Admitted flows that went, or were found gone, or were too many for `max_flows`.
    pub released: u64,
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
    /// Tuned flows by which the count of them was found wrong, and was put right.
    pub drift: u64,
    /// Closed flows whose end nobody saw.
    pub unseen: u64,
    /// Flows that jumped to what was known of the path's capacity, counted when they close.
    pub jumps: u64,
    /// So many of them had jumped too far.
    pub retreats: u64,
    /// The latest walk over all flows.
    pub walk: Walk,
    /// How many of the flows send, counted when the agent looks at them.
    pub senders: Senders,
}
record!(PathStats, size = 128 + size_of::<Walk>() + size_of::<Senders>());

impl PathStats {
    /// Counts that are all zero, as a path begins with them.
    pub const NONE: Self = Self {
        matched: 0,
        opened: 0,
        closed: 0,
        admitted: 0,
        released: 0,
        too_many: 0,
        refused: 0,
        bytes_acked: 0,
        bytes_received: 0,
        data_segs_out: 0,
        segs_retrans: 0,
        srtt_us: 0,
        drift: 0,
        unseen: 0,
        jumps: 0,
        retreats: 0,
        walk: Walk {
            began_ns: 0,
            before: Counted { admitted: 0, released: 0, opened: 0, closed: 0 },
            seen: Seen { flows: 0, tuned: 0, tuned_before: 0, established_before: 0 },
            found: Drift { tuned: 0, unseen: 0 },
        },
        senders: Senders { look: 0, looked_ns: 0, before: 0, found: 0 },
    };

    /// Returns the tuned flows that there are now: what `max_flows` bounds.
    #[must_use]
    pub const fn tuned_now(&self) -> u64 {
        self.admitted.saturating_sub(self.released)
    }
}

/// Holds what a walk over all flows notes at a path.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// It began then, CLOCK_MONOTONIC.
    pub began_ns: u64,
    /// The counts were these before it.
    pub before: Counted,
    /// It has seen these flows.
    pub seen: Seen,
    /// The latest walk found this, and the next one is to agree.
    pub found: Drift,
}
record!(Walk, size = 88);
