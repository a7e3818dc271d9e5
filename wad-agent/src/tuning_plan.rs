//! From what a path is measured to carry to the policy that is put in force:
//! pure functions of a path's configuration and its measurements.

mod damper;

use wad_common::{
    control::WindowSize,
    law::{Aimd, highspeed},
};

pub use damper::Damper;

use crate::{
    config::{MAX_BUFFER_BYTES, MeasuredPath, PathPolicy, Windows, auto_buffer_bytes},
    shares::PACKET_BYTES,
};

/// What a path carries, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Capacity {
    pub bits_per_second: Option<f64>,
    pub rtt_seconds: Option<f64>,
}

impl Capacity {
    /// The bandwidth-delay product, in bytes.
    pub fn bdp_bytes(self) -> Option<f64> {
        Some(self.bits_per_second? / 8.0 * self.rtt_seconds?)
    }

    /// What is not known here, from there.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            bits_per_second: self.bits_per_second.or(other.bits_per_second),
            rtt_seconds: self.rtt_seconds.or(other.rtt_seconds),
        }
    }
}

/// Of the memory that all tuned flows may pin, what a measurement may make of
/// one buffer. The kernel doubles it, and a flow has two: one flow fits.
const MEMORY_PER_BUFFER: u64 = 4;

/// What no measurement goes beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    max_buffer_bytes: u64,
}

impl Bounds {
    /// `max_buffer_bytes` is None where the file does not say.
    pub fn new(max_buffer_bytes: Option<u32>, max_memory_bytes: u64) -> Self {
        let configured = max_buffer_bytes.map_or(MAX_BUFFER_BYTES, u64::from);
        Self { max_buffer_bytes: configured.min(max_memory_bytes / MEMORY_PER_BUFFER) }
    }
}

/// The policy of a path that carries so much. A path that is not measured stays
/// as the file has it. What is to follow from the capacity, and that is not
/// known, is left to the kernel.
#[must_use]
pub fn policy(path: &PathPolicy, capacity: Capacity, bounds: Bounds) -> PathPolicy {
    let mut policy = path.clone();
    let Some(measured) = path.measured else { return policy };
    let MeasuredPath { buffers, windows, aimd_is_auto, streams, .. } = measured;
    let bdp_bytes = capacity.bdp_bytes();
    policy.bdp_bytes = bdp_bytes.map(|bytes| bytes.round() as u64);
    policy.origin.capacity = capacity;
    let buffer_bytes = bdp_bytes.and_then(|bdp_bytes| {
        let bytes = auto_buffer_bytes(bdp_bytes).saturating_mul(streams.into());
        u32::try_from(bytes.min(bounds.max_buffer_bytes)).ok()
    });
    if buffers.sndbuf {
        policy.sndbuf_bytes = buffer_bytes;
    }
    if buffers.rcvbuf {
        policy.rcvbuf_bytes = buffer_bytes;
    }
    if buffers.autotune {
        policy.autotune_bytes = buffer_bytes;
    }
    let size = |of_bdp: fn(f64) -> WindowSize| bdp_bytes.map(of_bdp).unwrap_or_default();
    if windows.initial_ssthresh {
        policy.control.initial_ssthresh = size(Windows::initial_ssthresh);
    }
    if windows.max_cwnd {
        policy.control.max_cwnd = size(Windows::max_cwnd);
    }
    if aimd_is_auto {
        policy.control.aimd = bdp_bytes.map_or(Aimd::STANDARD, rfc3649_pair);
    }
    policy
}

/// RFC 3649's increase and decrease at the window that fills the path.
pub fn rfc3649_pair(bdp_bytes: f64) -> Aimd {
    // Saturates: the table ends far below.
    highspeed::response((bdp_bytes / PACKET_BYTES) as u32)
}

#[cfg(test)]
mod tests;
