//! Turns what a path is measured to carry, and to do to packets, into the policy that is put in force: pure
//! functions of a path's configuration and its measurements.

mod behaviour;
pub mod by_peer;
mod damper;
mod trust;

pub use behaviour::{Behaviour, FlowCounts, Look, Traits};
pub use damper::Damper;
pub use trust::{Expected, Refusal};
use wad_common::{control::Control, law::Aimd};

use crate::{
    capacity::{Capacity, rfc3649_pair},
    config::{
        Congestion, Limit, MeasuredPath, Most, PathPolicy, Windows, auto_buffer_bytes, auto_pacing,
        most_of_file,
    },
    law::Law,
};

/// The room is what a plan has for a path where the flows themselves got so much:
/// with the buffers' own headroom twice that ([`auto_buffer_bytes`]). So each
/// transfer may double what is known, until it is the path that limits it.
pub const ROOM: f64 = 1.6;

/// The divisor of the memory that all tuned flows may pin, for what a measurement may
/// make of one buffer. The kernel doubles it, and a flow has two: one flow fits.
const MEMORY_PER_BUFFER: u64 = 4;

/// Holds what a policy is made of: what the path carries, and what it does to packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Conditions {
    pub capacity: Capacity,
    pub traits: Traits,
}

/// Nothing is known of the packets.
impl From<Capacity> for Conditions {
    fn from(capacity: Capacity) -> Self {
        Self { capacity, traits: Traits::default() }
    }
}

/// Holds what no measurement goes beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    most: Most,
    kernel: KernelBuffers,
}

/// Up to where the kernel sizes buffers by itself, as SO_SNDBUF and SO_RCVBUF show
/// them; zero where that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelBuffers {
    pub sndbuf_bytes: u64,
    pub rcvbuf_bytes: u64,
}

impl Bounds {
    /// Returns the largest buffer that anything but the file may ask for.
    pub const fn most(&self) -> Most {
        self.most
    }

    /// Returns what the kernel gives by itself.
    pub const fn kernel(&self) -> KernelBuffers {
        self.kernel
    }

    /// `max_buffer_bytes` is None where the file does not say.
    pub fn new(
        max_buffer_bytes: Option<u32>,
        max_memory_bytes: u64,
        kernel: KernelBuffers,
    ) -> Self {
        let of_file = most_of_file(max_buffer_bytes);
        let most = match u32::try_from(max_memory_bytes / MEMORY_PER_BUFFER) {
            Ok(bytes) if bytes < of_file.bytes => Most { bytes, by: Limit::MaxMemory },
            _ => of_file,
        };
        Self { most, kernel }
    }
}

/// Returns what a path's policy is to be made of, where its own flows got so much:
/// more than that. What they got says little where the file knows of more, or where
/// the kernel gives as much by itself: then the file's values hold, or the kernel's.
#[must_use]
pub fn with_room(got: Capacity, fallback: Capacity, bounds: Bounds) -> Capacity {
    let file = Capacity { bits_per_second: None, is_least: false, ..got }.or(fallback);
    let bits_per_second = got.bits_per_second.map(|rate| rate * ROOM);
    let more = Capacity { bits_per_second, is_least: true, ..file };
    let KernelBuffers { sndbuf_bytes, rcvbuf_bytes } = bounds.kernel;
    let is_beyond_kernel = |bdp_bytes| {
        let bytes = auto_buffer_bytes(bdp_bytes);
        is_beyond(bytes, sndbuf_bytes) || is_beyond(bytes, rcvbuf_bytes)
    };
    match more.bdp_bytes() {
        Some(bdp_bytes)
            if is_beyond_kernel(bdp_bytes)
                && file.bdp_bytes().is_none_or(|in_file| bdp_bytes > in_file) =>
        {
            more
        }
        _ => file,
    }
}

/// Whether an option of that argument, which the kernel doubles, is more than the
/// kernel gives by itself.
pub const fn is_beyond(bytes: u64, kernel_bytes: u64) -> bool {
    bytes.saturating_mul(2) > kernel_bytes
}

/// The policy of a path that is so. A path that is not measured stays as the file
/// has it. What is to follow from the capacity or the packets, and that is not known,
/// is left to the kernel; the congestion control then is that of the file.
#[must_use]
pub fn policy(path: &PathPolicy, conditions: impl Into<Conditions>, bounds: Bounds) -> PathPolicy {
    let mut policy = path.clone();
    let Some(measured) = path.measured else { return policy };
    let mut by_peer = policy.origin.by_peer.take();
    let Conditions { capacity: own, traits } = conditions.into();
    let bound = by_peer.as_ref().map(|it| it.bound);
    let capacity = bound.map_or(own, |bound| by_peer::capacity(bound, own, measured.band));
    let MeasuredPath { buffers, windows, aimd_is_auto, pacing_is_auto, streams, .. } = measured;
    let bdp_bytes = capacity.bdp_bytes();
    policy.bdp_bytes = bdp_bytes.map(|bytes| bytes.round() as u64);
    policy.origin.capacity = capacity;
    let buffer = bdp_bytes.map(|bdp_bytes| {
        bounds.most.cut(auto_buffer_bytes(bdp_bytes).saturating_mul(streams.into()))
    });
    let (buffer_bytes, cut) = buffer.map_or((None, None), |(bytes, cut)| (Some(bytes), cut));
    // No measurement takes away what the kernel gives by itself. The file may.
    let is_files = capacity == measured.fallback;
    let beyond = |kernel_bytes: u64| {
        buffer_bytes.filter(|&bytes| is_files || is_beyond(bytes.into(), kernel_bytes))
    };
    if buffers.sndbuf {
        policy.sndbuf_bytes = beyond(bounds.kernel.sndbuf_bytes);
        policy.origin.cut.sndbuf = cut;
    }
    if buffers.rcvbuf {
        policy.rcvbuf_bytes = beyond(bounds.kernel.rcvbuf_bytes);
        policy.origin.cut.rcvbuf = cut;
    }
    if buffers.autotune {
        policy.autotune_bytes = buffer_bytes;
        policy.origin.cut.autotune = cut;
    }
    let window = bdp_bytes.map(Windows::of_bdp).unwrap_or_default();
    if windows.initial_ssthresh {
        policy.control.initial_ssthresh = window;
    }
    if windows.max_cwnd {
        policy.control.max_cwnd = window;
    }
    if aimd_is_auto {
        policy.control.aimd = bdp_bytes.map_or(Aimd::STANDARD, rfc3649_pair);
    }
    if measured.traits.reorder {
        policy.reorder_segments = traits.reorder_segments;
        policy.origin.reorder_segments = traits.reorder_segments.unwrap_or(0);
    }
    if measured.traits.loss && traits.is_leaky {
        policy.congestion = Some(Congestion::Ours(Law::Leaky));
        // It is of no list.
        policy.origin.passed_over.clear();
        policy.control = leaky(&policy.control);
    }
    if pacing_is_auto {
        policy.max_pacing_bytes_per_second = auto_pacing(policy.law().is_some(), capacity);
    }
    if let Some(by_peer) = &mut by_peer {
        by_peer.own.bits_per_second = own.bits_per_second;
        by_peer::finish(by_peer, &mut policy, bounds.kernel);
    }
    policy.origin.by_peer = by_peer;
    policy
}

/// Its parameters are those of the law before it, as far as it has them.
const fn leaky(before: &Control) -> Control {
    let Control { initial_ssthresh, max_ssthresh_segments, max_cwnd, pacing, .. } = *before;
    Control { initial_ssthresh, max_ssthresh_segments, max_cwnd, pacing, ..Control::STANDARD }
}

#[cfg(test)]
mod tests;
