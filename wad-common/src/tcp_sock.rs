//! Where the fields that a congestion control needs lie in the running kernel's
//! `struct tcp_sock`.
//!
//! They move from kernel to kernel, and rustc emits no relocations for them: the
//! agent resolves them from the kernel's BTF and writes them into the object's
//! read-only data before it is loaded, so that the verifier knows each as a
//! constant.

use crate::record;

/// Offsets in bytes from the start of `struct tcp_sock`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpSockOffsets {
    /// `snd_cwnd`: congestion window, segments.
    pub snd_cwnd: u32,
    /// `snd_ssthresh`: slow start threshold, segments.
    pub snd_ssthresh: u32,
    /// `snd_cwnd_clamp`: upper bound of the window, segments.
    pub snd_cwnd_clamp: u32,
    /// `prior_cwnd`: window before the last reduction, segments.
    pub prior_cwnd: u32,
    /// `max_packets_out`: most packets out in the last window.
    pub max_packets_out: u32,
    /// The byte that holds the bit `is_cwnd_limited`.
    pub is_cwnd_limited: u32,
    /// That bit's mask within the byte.
    pub is_cwnd_limited_mask: u32,
    /// `inet_conn.icsk_ca_priv`: 104 bytes that belong to the algorithm.
    pub icsk_ca_priv: u32,
}
record!(TcpSockOffsets, size = 32);
