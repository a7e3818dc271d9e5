//! Reads one `[[peer]]`: an agent at the other end of paths, and by what it is known.

use std::{ops::RangeInclusive, time::Duration};

use ipnet::IpNet;

use super::{
    super::{
        fault::{Fault, Problems, Span},
        keys::{
            Key,
            LeftOut::{Means, Refused, Value},
            Takes::{Size, Text, Time},
            key,
        },
        quantity,
        source::read_time,
        table::{self, Table},
    },
    address::PeerAddress,
    consent::{self, PeerConsent},
    known_by::KnownBy,
    read_prefixes,
};
use crate::config::MAX_BUFFER_BYTES;

pub const TABLE: &str = "peer";

pub const KEYS: &[Key] = &[
    key("name").takes(
        Text("1 to 63 letters, digits, `-` and `_`"),
        Refused,
        "shown in `wad peer status`, metrics and the log",
    ),
    key("address").takes(
        Text("a host, and a port where it is not 4825"),
        Means("it is not asked: it asks this end"),
        "where the peer is asked; a name is looked up each time",
    ),
    key("identity").takes(
        Text("`wad://` and a name"),
        Means("it has a `key`"),
        "the name in the peer's certificate, which an authority of `ca` has signed",
    ),
    key("key").takes(
        Text("`sha256:` and 64 hexadecimal digits"),
        Means("it has an `identity`"),
        "the hash of the peer's key, whoever signed its certificate; `wad peer show` has it",
    ),
    key("prefixes").takes(
        Text("a prefix, or a list of them"),
        Means("those of its certificate; refused beside `key`"),
        "the most that the peer may speak for",
    ),
    key("every").takes(
        Time(PERIODS),
        Value("\"30s\""),
        "how often the peer is asked, or asks; what it said counts for three times as long",
    ),
    key("grant_buffer").takes(
        Size(BUFFER_BYTES),
        Means("`[limits] max_buffer`"),
        "the largest receive buffer that the peer's word gets its connections here; 0 for none",
    ),
    key("consent").takes(
        Text("a table"),
        Means("nothing is allowed"),
        "what the peer's connections may do on the networks that this end speaks for",
    ),
];

const PERIODS: RangeInclusive<Duration> = Duration::from_secs(5)..=Duration::from_secs(3_600);
const BUFFER_BYTES: RangeInclusive<u64> = 0..=MAX_BUFFER_BYTES;
const EVERY: Duration = Duration::from_secs(30);

/// An agent that this one talks with.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    /// 1 to 63 letters, digits, - and _; unique.
    pub name: String,
    /// Where it is asked; None where it asks this end.
    pub address: Option<PeerAddress>,
    pub known_by: KnownBy,
    /// The most that it may speak for; None for what its certificate says.
    pub prefixes: Option<Vec<IpNet>>,
    pub every: Duration,
    /// The largest receive buffer that it may get its flows; None for that of `[limits]`.
    pub grant_buffer_bytes: Option<u32>,
    pub consent: Option<PeerConsent>,
}

/// Where things stand of which only the whole file tells whether they are right.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    pub table: Span,
    pub name: Span,
    pub known_by: Span,
}

/// Reads a peer; None where it cannot be judged further.
pub fn read(table: &Table<'_>, problems: &mut Problems) -> Option<(Peer, Site)> {
    table.require("name", problems, "add name = \"tokyo\", or how it is to show");
    let name = table.read("name", problems, |value| table::short_name(value, "peer"));
    let address = table.read("address", problems, |value| PeerAddress::parse(table::text(value)?));
    let identity = table.read("identity", problems, |value| KnownBy::identity(table::text(value)?));
    let key = table.read("key", problems, |value| KnownBy::key(table::text(value)?));
    match (table.place("identity"), table.place("key")) {
        (None, None) => {
            let fault = Fault::new("neither `identity` nor `key`", "by what is it known?");
            let help = "add identity = \"wad://dtn.example.org\", which the other end's `wad peer \
                        show` prints, or its key";
            problems.push(fault.help(help).at(table.at));
        }
        (Some(identity), Some(key)) => {
            let fault = Fault::new("`identity` and `key`", "a peer is known by one of them");
            let help = "keep `identity` where an authority signs certificates, else `key`";
            problems.push(fault.help(help).at(key).also(identity, "here is the other"));
        }
        (None, Some(at)) if !table.has("prefixes") => {
            let fault =
                Fault::new("`key` needs `prefixes`", "nobody has signed what it speaks for");
            problems.push(fault.help("add prefixes = [\"192.0.2.0/24\"], its networks").at(at));
        }
        _ => {}
    }
    let prefixes = read_prefixes(table, problems);
    let every = read_time(table, "every", PERIODS, "5s to 1h", problems);
    let grant = table.read("grant_buffer", problems, |value| quantity::size(value, BUFFER_BYTES));
    let consent = consent::read(table, problems);
    if table.has("address") && address.is_none() {
        return None;
    }
    let known_by = identity.or(key)?;
    let name = name?;
    let site = Site { table: table.at, name: name.at, known_by: known_by.at };
    let peer = Peer {
        name: name.value,
        address: address.map(|address| address.value),
        known_by: known_by.value,
        prefixes,
        every: every.unwrap_or(EVERY),
        // In range, hence whole.
        grant_buffer_bytes: grant.map(|grant| grant.value as u32),
        consent,
    };
    Some((peer, site))
}
