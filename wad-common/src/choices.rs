//! The offsets say where the kernel notes what an application has set by itself on a
//! socket.
//!
//! Resolved by the agent as the offsets of [`crate::tcp_sock`] are.

use crate::record;

/// Offsets in bytes from the start of `struct tcp_sock`, and places within the
/// byte.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChoiceOffsets {
    /// The byte that holds `sk_userlocks`.
    pub userlocks: u32,
    /// It begins so many bits up in it.
    pub userlocks_shift: u32,
    /// The byte that holds the bit `icsk_ca_setsockopt`.
    pub congestion: u32,
    /// That bit's mask within the byte.
    pub congestion_mask: u32,
}
record!(ChoiceOffsets, size = 16);
