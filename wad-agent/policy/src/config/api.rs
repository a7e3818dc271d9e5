//! Reads `[api]`: who but root may ask the agent, and where.

use std::net::SocketAddr;

use toml::de::DeValue;

use super::{
    Host,
    fault::{Fault, Problems, quoted},
    keys::{Key, LeftOut::Means, Takes::Text, key},
    listen::listen,
    table::{self, Table},
};

pub const TABLE: &str = "api";

pub const KEYS: &[Key] = &[
    key("listen").takes(
        Text("a loopback address and a port"),
        Means("the Unix socket only"),
        "where programs that are not root's may ask [what an address gets](../explain.md)",
    ),
    key("group").takes(
        Text("the name of a group, or its number"),
        Means("root alone"),
        "whose members may use all commands that only show: of connections, paths, experiments, \
         guards, probes and peers",
    ),
];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Api {
    /// An address on loopback, beside the Unix socket; None for that alone.
    pub listen: Option<SocketAddr>,
    /// The number of the group that may ask what there is, by a socket of its own.
    pub group: Option<u32>,
}

pub fn read(table: &Table<'_>, host: &Host, problems: &mut Problems) -> Api {
    let listen = table.read("listen", problems, |value| {
        let address = listen(table::text(value)?, 9465)?;
        if address.ip().is_loopback() {
            return Ok(address);
        }
        Err(Fault::new(
            format!("{address} can be reached from other hosts"),
            "must be an address of the loopback",
        )
        .help("whoever reaches it may ask what any path is given: write \"127.0.0.1:9465\""))
    });
    let group = table.read("group", problems, |value| match value {
        // In range, hence whole. The last number is none (chown(2)).
        DeValue::Integer(_) => {
            table::integer(value, 0..=u64::from(u32::MAX - 1), "").map(|group| group as u32)
        }
        DeValue::String(name) => host.groups.get(&**name).copied().ok_or_else(|| {
            Fault::new(format!("no group {} on this host", quoted(name)), "not in /etc/group")
                .help("make it with `groupadd --system`, or give the number of another")
        }),
        _ => Err(table::wrong_type(value, "the name of a group, or its number")),
    });
    Api { listen: listen.map(|listen| listen.value), group: group.map(|group| group.value) }
}
