//! How what a peer says bounds what the file and measurements give: never upwards, and never
//! below what the kernel gives by itself.

use wad_common::control::Pacing;

use super::KernelBuffers;
use crate::{
    capacity::Capacity,
    config::{Bound, ByPeer, MAX_PACING_BYTES_PER_SECOND, PathPolicy, auto_buffer_bytes},
};

/// Returns a capacity that no interface makes impossible. A rate that is further below it than
/// a measurement may be does not count.
#[must_use]
pub fn capacity(bound: Bound, capacity: Capacity, band: u32) -> Capacity {
    let slower = slower(bound, capacity, band);
    Capacity { bits_per_second: slower.or(capacity.bits_per_second), ..capacity }
}

/// Returns the rate of the interface where it bounds that.
fn slower(bound: Bound, capacity: Capacity, band: u32) -> Option<f64> {
    let rate = capacity.bits_per_second?;
    bound.nic_bits_per_second.filter(|&nic| nic < rate && rate <= nic * f64::from(band))
}

/// Bounds a policy that is complete but for this. Buffers of a given size are the operator's
/// word.
pub fn finish(by_peer: &mut ByPeer, policy: &mut PathPolicy, kernel: KernelBuffers) {
    if policy.origin.buffers.sndbuf
        && let Some(most) = sndbuf_bytes(by_peer.bound, kernel)
        && let Some(sndbuf) = policy.sndbuf_bytes.filter(|&bytes| bytes > most)
    {
        by_peer.own.sndbuf_bytes.get_or_insert(sndbuf);
        policy.sndbuf_bytes = Some(most);
    }
    if let Some(most) = by_peer.bound.max_bits_per_second {
        bound_rate(policy, most);
    }
}

/// Returns how large a send buffer is of use: the other end never offers more than twice what
/// its receive buffer was asked for. None where it is not known what the kernel gives by itself.
fn sndbuf_bytes(bound: Bound, kernel: KernelBuffers) -> Option<u32> {
    let offered = u64::from(bound.granted_bytes?) * 2;
    let kernel_bytes = Some(kernel.sndbuf_bytes).filter(|&bytes| bytes > 0)?;
    u32::try_from(offered.max(kernel_bytes)).ok()
}

/// Holds all flows of the path together to a rate.
fn bound_rate(policy: &mut PathPolicy, bits_per_second: f64) {
    // Saturates.
    let bytes = ((bits_per_second / 8.0) as u32).min(MAX_PACING_BYTES_PER_SECOND);
    let own = policy.max_pacing_bytes_per_second;
    policy.max_pacing_bytes_per_second = Some(own.map_or(bytes, |own| own.min(bytes)));
    policy.divide = true;
    let control = &mut policy.control;
    // A law that is not to be paced would not keep to it.
    control.pacing = Pacing::On as u32;
    control.dedicated_bytes_per_second = control.dedicated_bytes_per_second.min(bytes.into());
}

/// Bounds what a file has made of the path's rate, where that is not measured.
pub fn bound_file(
    by_peer: &mut ByPeer,
    policy: &mut PathPolicy,
    (band, kernel): (u32, KernelBuffers),
) {
    let own = policy.origin.capacity;
    let Some(slower) = slower(by_peer.bound, own, band) else { return };
    let bounded = Capacity { bits_per_second: Some(slower), ..own };
    by_peer.own.bits_per_second = own.bits_per_second;
    policy.origin.capacity = bounded;
    let Some(bdp_bytes) = bounded.bdp_bytes() else { return };
    policy.bdp_bytes = Some(bdp_bytes.round() as u64);
    let auto_bytes =
        auto_buffer_bytes(bdp_bytes).saturating_mul(policy.origin.streams.max(1).into());
    let at_most = |bytes: &mut Option<u32>, kernel_bytes: u64| {
        // An option of half of that is what the kernel gives by itself.
        let most = u32::try_from(auto_bytes.max(kernel_bytes.div_ceil(2)));
        if let (Some(bytes), Ok(most), true) = (bytes, most, kernel_bytes > 0) {
            *bytes = most.min(*bytes);
        }
    };
    if policy.origin.buffers.sndbuf {
        by_peer.own.sndbuf_bytes = policy.sndbuf_bytes;
        at_most(&mut policy.sndbuf_bytes, kernel.sndbuf_bytes);
    }
    // What a peer needs is no matter of the rate that this end sends at.
    if policy.origin.buffers.rcvbuf && !by_peer.rcvbuf {
        at_most(&mut policy.rcvbuf_bytes, kernel.rcvbuf_bytes);
    }
}
