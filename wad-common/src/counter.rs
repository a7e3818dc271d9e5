//! Counts and settings that concern no single path: places in arrays of `u64`,
//! each read and written whole.

/// Places in the map of counts.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Events that found the ring buffer full.
    EventsLost = 0,
    /// Multipath TCP subflows, which are left alone.
    MptcpSubflows = 1,
    /// Flows that came to a path whose flows the agent looks at while they run: their
    /// buffers grow with need, or they share what the path carries from the start.
    LookedAt = 2,
    /// Matched flows for which the kernel had no socket storage.
    NoStorage = 3,
    /// Flows that came to or left a path that divides its buffers: each has the
    /// parts of the others change.
    Divisions = 4,
}

impl Counter {
    /// Length of the map.
    pub const COUNT: u32 = 5;
}

/// Places in the map of settings, written by the agent.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Number of the policy set. Its lowest bit says which of the two sets is
    /// in force; a flow that sees it change reads its policy again.
    Generation = 0,
    /// Most that a buffer of a tuned flow may have that has no room, in bytes as the kernel
    /// keeps it; 0 for what its path says.
    BufferCap = 1,
    /// The kinds of events that nobody wants, and that are not sent: a bit for each
    /// [`Kind`](crate::event::Kind).
    Unwanted = 2,
    /// Whether memory is short, and only the buffers of flows grow that have room: 0 or 1.
    HoldsGrowth = 3,
    /// Index that the next new path gets, or the first one behind it that is free: those
    /// of paths that are gone are not given away soon.
    NextPath = 4,
    /// Whether any flow of a policy set offers another receive window at first than one
    /// that is untuned: a bit for each of the two sets, by their places.
    Offers = 5,
    /// Slots of flows that may be in use, from the first on; 0 before any is.
    Slots = 6,
}

impl Setting {
    /// Length of the map.
    pub const COUNT: u32 = 7;
}
