//! `[host]`: what may be changed of this host beside sockets and their ceilings.

use std::ops::RangeInclusive;

use toml::de::DeValue;

use super::{
    fault::{Fault, Problems},
    keys::{
        Key,
        LeftOut::{Means, Value},
        Takes::{Integer, Switch, Text},
        key,
    },
    table::{self, Table},
};

pub const TABLE: &str = "host";

/// A queue of a million full segments is 1.5 GB.
const PACKETS: RangeInclusive<u64> = 1..=1_000_000;

pub const KEYS: &[Key] = &[
    key("routes").takes(
        Switch,
        Value("false"),
        "`reorder`, `delayed_ack = false` and `ecn` of paths as [metrics of routes](../routes.md)",
    ),
    key("transmit_queue_length").takes(
        Text("a table of packets by interface, `{ eth0 = 10000 }`"),
        Means("as they are"),
        "packets that may wait in the transmit queues of interfaces, 1 to 1000000 each",
    ),
    key("netdev_max_backlog").takes(
        Integer(PACKETS, "packets"),
        Means("as it is"),
        "packets that may wait for a processor",
    ),
];

/// `IFNAMSIZ`, with the final zero.
const NAME_BYTES: usize = 16;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostChanges {
    /// `reorder`, `delayed_ack` and `ecn` as metrics of routes.
    pub routes: bool,
    /// The queues' lengths, by interface.
    pub transmit_queues: Vec<TransmitQueue>,
    /// Packets that may wait for a processor, each.
    pub netdev_max_backlog: Option<u32>,
}

/// The length of an interface's transmit queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransmitQueue {
    pub interface: String,
    pub packets: u32,
}

pub fn read(table: &Table<'_>, problems: &mut Problems) -> HostChanges {
    let routes = table.read("routes", problems, table::boolean);
    let transmit_queues = table.read_map("transmit_queue_length", problems, |interface, value| {
        if !is_interface(interface) {
            let label =
                format!("an interface has 1 to {} characters, none a slash", NAME_BYTES - 1);
            return Err(Fault::new("no name of an interface", label));
        }
        Ok(TransmitQueue { interface: interface.to_owned(), packets: packets(value)? })
    });
    let backlog = table.read("netdev_max_backlog", problems, packets);
    HostChanges {
        routes: routes.is_some_and(|routes| routes.value),
        transmit_queues,
        netdev_max_backlog: backlog.map(|backlog| backlog.value),
    }
}

fn packets(value: &DeValue<'_>) -> Result<u32, Fault> {
    // In range, hence whole.
    Ok(table::integer(value, PACKETS, "packets")? as u32)
}

/// Returns whether a name is one of an interface, as `dev_valid_name()` has it.
fn is_interface(name: &str) -> bool {
    (1..NAME_BYTES).contains(&name.len())
        && name != "."
        && name != ".."
        && !name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control())
}

#[cfg(test)]
mod tests {
    use super::is_interface;

    #[test]
    fn names_of_interfaces() {
        for name in ["eth0", "enp0s31f6", "eth0.100", "br-0123456789ab"] {
            assert!(is_interface(name), "{name}");
        }
        for name in ["", ".", "..", "a/b", "eth0:1", "a b", "0123456789abcdef"] {
            assert!(!is_interface(name), "{name}");
        }
    }
}
