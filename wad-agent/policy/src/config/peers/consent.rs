//! Reads what this end, as the owner of its network, lets a peer's flows do there.

use ipnet::IpNet;
use jiff::Timestamp;

use super::{
    super::{
        fault::{Fault, Problems, quoted},
        keys::{
            Key,
            LeftOut::{Means, Refused},
            Takes::{Text, Words},
            key,
        },
        quantity,
        table::{self, Table},
    },
    read_prefixes,
};

pub const TABLE: &str = "peer.consent";

pub const KEYS: &[Key] = &[
    key("to").takes(
        Words(&["aggressive"]),
        Refused,
        "what is allowed: more than a fair share, as `allow` of a path",
    ),
    key("max_rate").takes(
        Text("a rate"),
        Means("no bound but those of the peer's own file"),
        "the most that all of the peer's connections together are meant to take",
    ),
    key("until").takes(
        Text("a date and time with its zone, as `\"2027-01-01T00:00:00Z\"`"),
        Means("for as long as the file says so"),
        "when the consent ends",
    ),
    key("prefixes").takes(
        Text("a prefix, or a list of them"),
        Means("all that this end speaks for"),
        "the networks of this end that it is for",
    ),
];

/// A consent that this end gives.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerConsent {
    pub max_bits_per_second: Option<u64>,
    pub until: Option<Timestamp>,
    /// Networks of this end; None for all that it speaks for.
    pub prefixes: Option<Vec<IpNet>>,
}

/// Reads the table `consent` of a peer, if it has one.
pub fn read(table: &Table<'_>, problems: &mut Problems) -> Option<PeerConsent> {
    let table = table.table("consent", KEYS, problems)?;
    table.require("to", problems, "add to = \"aggressive\", which is what is allowed");
    let to = table.read("to", problems, |value| match table::text(value)? {
        "aggressive" => Ok(()),
        other => {
            let title = format!("{} cannot be allowed", quoted(other));
            Err(Fault::new(title, "it takes \"aggressive\""))
        }
    });
    let max_rate = table.read("max_rate", problems, |value| {
        // Saturates.
        quantity::bits_per_second(table::text(value)?).map(|rate| (rate as u64).max(1))
    });
    let until = table.read("until", problems, quantity::timestamp);
    let prefixes = read_prefixes(&table, problems);
    to?;
    Some(PeerConsent {
        max_bits_per_second: max_rate.map(|rate| rate.value),
        until: until.map(|until| until.value),
        prefixes,
    })
}
