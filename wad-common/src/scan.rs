//! A scan: a BPF program that goes over the elements of a map, and writes a record of those that
//! the agent asked for into its output.

use crate::record;

/// The first element of a scan's output. Records are behind it, one in each element.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Number of the scan, set by the agent: no other scan has it.
    pub scan: u64,
    /// Records that were written.
    pub written: u32,
    /// Records for which the output had no room.
    pub missing: u32,
}
record!(Header, size = 16);
