//! A capacity is what a path carries, and tells what follows from that alone.

use wad_common::law::{Aimd, highspeed};

/// Size of a packet of the path's bandwidth-delay product, a segment and its headers.
pub const PACKET_BYTES: f64 = 1_500.0;

/// A capacity is what a path carries, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Capacity {
    pub bits_per_second: Option<f64>,
    pub rtt_seconds: Option<f64>,
    /// Whether it is only what flows had room for: then the path may carry more,
    /// and what the kernel gives by itself is not to be undercut.
    pub is_least: bool,
}

impl Capacity {
    /// The bandwidth-delay product, in bytes.
    pub fn bdp_bytes(self) -> Option<f64> {
        Some(self.bits_per_second? / 8.0 * self.rtt_seconds?)
    }

    /// Takes what is not known here, from there.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            bits_per_second: self.bits_per_second.or(other.bits_per_second),
            rtt_seconds: self.rtt_seconds.or(other.rtt_seconds),
            is_least: self.is_least,
        }
    }
}

/// RFC 3649's increase and decrease at the window that fills the path.
pub fn rfc3649_pair(bdp_bytes: f64) -> Aimd {
    // Saturates: the table ends far below.
    highspeed::response((bdp_bytes / PACKET_BYTES) as u32)
}
