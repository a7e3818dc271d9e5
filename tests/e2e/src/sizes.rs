//! Paths of tests are told apart by the send buffers that they give: each has a size of its
//! own, which the kernel doubles.

use anyhow::Result;
use wad_testbed::{netns::Netns, ss::Flow, tcp::Connection, veth::Wire};

/// Returns a `[[path]]` for these other ends, with these keys and this size.
pub fn path(name: &str, remotes: &[&str], keys: &str, sndbuf_bytes: u64) -> String {
    format!(
        "[[path]]\nname = '{name}'\nremote = {remotes:?}\n{keys}\nsndbuf = '{sndbuf_bytes}'\n\n"
    )
}

/// Returns which of these sizes a flow's send buffer has.
pub fn of_flow(sizes: &[u64], flow: &Flow) -> Option<u64> {
    sizes.iter().copied().find(|bytes| 2 * bytes == flow.sndbuf_bytes)
}

/// Returns which of these sizes both ends of a connection over the wire have.
pub fn of_ends(sizes: &[u64], wire: &Wire, connection: &Connection) -> Result<[Option<u64>; 2]> {
    between(sizes, [wire.a(), wire.b()], connection)
}

/// Returns which of these sizes both ends of a connection have, the one that connected first.
pub fn between(
    sizes: &[u64],
    [near, far]: [&Netns; 2],
    connection: &Connection,
) -> Result<[Option<u64>; 2]> {
    let flows = [connection.near_flow(near)?, connection.far_flow(far)?];
    Ok(flows.map(|flow| of_flow(sizes, &flow)))
}
