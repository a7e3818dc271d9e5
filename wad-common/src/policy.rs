//! The policy set: which flow gets which settings.
//!
//! A remote address is looked up once in a longest-prefix-match trie (IPv4
//! mapped into IPv6). The prefix found names a run of rules, most specific
//! first, which already holds the rules of the prefixes around it; the first
//! rule whose local prefix and ports fit gives the policy. The three maps of a
//! set are swapped as one, so no flow sees half of a change.

use crate::{law::Aimd, record};

/// Bytes of a path's name that the kernel side keeps, the final zero included.
pub const NAME_BYTES: usize = 64;

/// Bytes of a congestion control's name, as the kernel's `TCP_CA_NAME_MAX`.
pub const CONGESTION_BYTES: usize = 16;

/// Most rules that can apply to one address: the bound of the loop in the BPF
/// program, and of what `wad check` accepts.
pub const RULES_PER_ADDRESS: usize = 16;

/// Most paths: the size of the map that holds the statistics of paths.
pub const MAX_PATHS: u32 = 131_072;

/// Value of the trie: the run of rules of one prefix.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleRun {
    /// Index of the first rule.
    pub first: u32,
    /// Number of rules, at most [`RULES_PER_ADDRESS`].
    pub count: u32,
}
record!(RuleRun, size = 8);

/// What a flow must fit beside its remote prefix. The address is that of this
/// host, in network byte order, IPv4 mapped into IPv6.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Local prefix, in two halves of 64 bits, most significant first, in host
    /// byte order.
    pub local_prefix: [u64; 2],
    /// The bits of `local_prefix` that must agree; zero for any address.
    pub local_mask: [u64; 2],
    /// Local port in host byte order; 0 for any.
    pub local_port: u16,
    /// Remote port in host byte order; 0 for any.
    pub remote_port: u16,
    /// Index of the policy.
    pub policy: u32,
}
record!(Rule, size = 40);

impl Rule {
    /// Whether a flow between these ends falls under the rule.
    #[inline(always)]
    #[must_use]
    pub const fn matches(&self, local: [u64; 2], local_port: u16, remote_port: u16) -> bool {
        (self.local_port == 0 || self.local_port == local_port)
            && (self.remote_port == 0 || self.remote_port == remote_port)
            && local[0] & self.local_mask[0] == self.local_prefix[0]
            && local[1] & self.local_mask[1] == self.local_prefix[1]
    }
}

/// What a matched flow gets. Zero leaves a setting as it is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The path's name, zero-terminated UTF-8.
    pub name: [u8; NAME_BYTES],
    /// Congestion control, zero-terminated; empty for the kernel's default.
    pub congestion: [u8; CONGESTION_BYTES],
    /// Parameters of `wad_aimd`.
    pub aimd: Aimd,
    /// Argument of SO_SNDBUF (the kernel doubles it, socket(7)).
    pub sndbuf_bytes: u32,
    /// Argument of SO_RCVBUF (the kernel doubles it, socket(7)).
    pub rcvbuf_bytes: u32,
    /// Initial congestion window.
    pub initial_window_segments: u32,
    /// Most tuned flows at a time.
    pub max_flows: u32,
}
record!(Policy, size = 104);

impl Policy {
    /// Memory that one flow's buffers may pin: both, doubled by the kernel.
    #[inline(always)]
    #[must_use]
    pub const fn memory_bytes(&self) -> u64 {
        2 * (self.sndbuf_bytes as u64 + self.rcvbuf_bytes as u64)
    }
}
