//! Where the kernel keeps the buffers that a network namespace gives by default.
//!
//! Resolved by the agent as the offsets of [`crate::tcp_sock`] are.

use crate::record;

/// Offsets in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefaultOffsets {
    /// Of `struct tcp_sock`, `skc_net`: its network namespace, a pointer.
    pub net: u32,
    /// Of `struct net`, `tcp_wmem[1]`, 32 bits.
    pub tcp_wmem: u32,
    /// Of `struct net`, `tcp_rmem[1]`, 32 bits.
    pub tcp_rmem: u32,
}
record!(DefaultOffsets, size = 12);
