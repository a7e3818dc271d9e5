//! Paths and flows of the tests. Rates are in Mb/s, those of flows of payload; times in
//! milliseconds.

use wad_common::control::Control;
use wad_simulation::{Algorithm, Path, Sender, World};

/// A segment of these paths has this payload.
pub const MSS_BYTES: u64 = 1448;

/// Returns a path with a queue of so many BDPs. Two segments are acknowledged together at most.
pub fn path(rate_mbps: f64, rtt_ms: f64, queue_bdp: f64) -> Path {
    let bdp_bytes = rate_mbps * 1e3 * rtt_ms / 8.0;
    let path = Path::new(rate_mbps * 1e6, rtt_ms / 1e3, (bdp_bytes * queue_bdp) as u64);
    Path { moderation_ns: 2 * path.packet_ps() / 1000, ..path }
}

/// Returns a sender without parameters.
pub fn sender(algorithm: Algorithm) -> Sender {
    Sender::new(algorithm, Control::STANDARD)
}

/// Returns the rate of what a flow has delivered since it had delivered `before`.
pub fn mbps(world: &World, which: usize, before: u64, seconds: f64) -> f64 {
    let segments = world.flows[which].delivered() - before;
    (segments * MSS_BYTES * 8) as f64 / seconds / 1e6
}
