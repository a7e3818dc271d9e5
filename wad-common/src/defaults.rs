//! The offsets say where the kernel keeps the buffers that a network namespace gives by
//! default.
//!
//! Resolved by the agent as the offsets of [`crate::tcp_sock`] are.

use crate::record;

/// Offsets in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefaultOffsets {
    /// `skc_net` of `struct tcp_sock` is its network namespace, a pointer.
    pub net: u32,
    /// `tcp_wmem[1]` of `struct net` has 32 bits.
    pub tcp_wmem: u32,
    /// `tcp_rmem[1]` of `struct net` has 32 bits.
    pub tcp_rmem: u32,
}
record!(DefaultOffsets, size = 12);
