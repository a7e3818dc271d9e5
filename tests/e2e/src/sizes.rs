//! Paths of tests are told apart by the send buffers that they give: each has a size of its
//! own, which the kernel doubles.

use anyhow::Result;
use wad_testbed::{ss::Flow, tcp::Connection, veth::Wire};

/// Returns which of these sizes a flow's send buffer has.
pub fn of_flow(sizes: &[u64], flow: &Flow) -> Option<u64> {
    sizes.iter().copied().find(|bytes| 2 * bytes == flow.sndbuf_bytes)
}

/// Returns which of these sizes both ends of a connection over the wire have.
pub fn of_ends(sizes: &[u64], wire: &Wire, connection: &Connection) -> Result<[Option<u64>; 2]> {
    let flows = [connection.near_flow(wire.a())?, connection.far_flow(wire.b())?];
    Ok(flows.map(|flow| of_flow(sizes, &flow)))
}
