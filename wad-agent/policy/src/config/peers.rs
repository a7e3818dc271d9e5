//! Reads `[peers]`: how this agent talks with those at the other ends of paths, each of which
//! is a `[[peer]]`.

mod address;
mod check;
mod consent;
mod known_by;
mod peer;

use std::{net::SocketAddr, path::PathBuf};

use ipnet::IpNet;
use wad_toolbox::access::Identity;

pub use self::{
    address::PeerAddress,
    check::check,
    consent::{KEYS as CONSENT_KEYS, PeerConsent, TABLE as CONSENT_TABLE},
    known_by::{KeyPin, KnownBy, is_node_name},
    peer::{KEYS as PEER_KEYS, Peer, Site, TABLE as PEER_TABLE, read as read_peer},
};
use super::{
    access,
    fault::{Fault, Problems},
    keys::{
        Key,
        LeftOut::{Means, Refused},
        Takes::Text,
        key,
    },
    listen, prefix,
    table::{self, Table},
};

pub const TABLE: &str = "peers";

/// Most prefixes that one end speaks for.
pub const MAX_PREFIXES: usize = 64;
/// The port that peers listen at, where none is said.
pub const PORT: u16 = 4825;

pub const KEYS: &[Key] = &[
    key("listen").takes(
        Text("an address and a port"),
        Means("nobody is answered: this end only asks"),
        "where peers ask, over TLS 1.3",
    ),
    key("certificate").takes(
        Text("an absolute path"),
        Refused,
        "a PEM file: the certificate by which peers know this end, and those between it and its \
         authority; it is read anew when it has changed",
    ),
    key("key").takes(Text("an absolute path"), Refused, "a PEM file: the key of that certificate"),
    key("ca").takes(
        Text("an absolute path"),
        Means("refused beside a peer with `identity`"),
        "PEM certificates of the authorities that peers' certificates are of",
    ),
    key("prefixes").takes(
        Text("a prefix, or a list of them"),
        Means("those of the certificate"),
        "what this end speaks for, at most what its certificate allows",
    ),
];

/// Says how this end talks with its peers.
#[derive(Clone, Debug, PartialEq)]
pub struct Peers {
    /// Where peers ask; None where this end only asks.
    pub listen: Option<SocketAddr>,
    /// The files by which peers know this end.
    pub identity: Identity,
    /// The authorities of peers; None where all of them are known by their keys.
    pub ca: Option<PathBuf>,
    /// This end speaks for these; None for what its certificate says.
    pub prefixes: Option<Vec<IpNet>>,
    /// The peers, in the order of the file.
    pub peers: Vec<Peer>,
}

/// Reads the table, but for its peers.
pub fn read(table: &Table<'_>, problems: &mut Problems) -> Option<Peers> {
    let before = problems.count();
    let listen = table.read("listen", problems, |value| listen::listen(table::text(value)?, PORT));
    for (key, file) in [("certificate", "host.crt"), ("key", "host.key")] {
        let help = format!("add {key} = \"/etc/wad/peer/{file}\"; `wad peer init` makes one");
        table.require(key, problems, &help);
    }
    let identity = table.has("certificate") && table.has("key");
    let identity =
        identity.then(|| access::read_identity(table, ["certificate", "key"], problems)).flatten();
    let ca = table.read_file("ca", problems);
    let prefixes = read_prefixes(table, problems);
    let listen = listen.map(|listen| listen.value);
    // What peers need of it cannot be told.
    let is_whole = problems.count() == before;
    is_whole.then_some(Peers { listen, identity: identity?, ca, prefixes, peers: Vec::new() })
}

/// Reads the prefixes of a table, of which there are not too many.
fn read_prefixes(table: &Table<'_>, problems: &mut Problems) -> Option<Vec<IpNet>> {
    let prefixes =
        table.read_list("prefixes", problems, |value| prefix::parse(table::text(value)?))?;
    if let Some(beyond) = prefixes.get(MAX_PREFIXES) {
        let title = format!("{} prefixes", prefixes.len());
        problems.push(Fault::new(title, format!("at most {MAX_PREFIXES}")).at(beyond.at));
    }
    Some(prefixes.into_iter().map(|prefix| prefix.value).collect())
}
