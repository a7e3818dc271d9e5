//! The answer as JSON to `wad peer status`.

use std::collections::BTreeMap;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wad_policy::heard;
use wad_toolbox::clock::Moment;

use crate::refusal::Refusals;

/// The path at which it is asked for.
pub const PEERS: &str = "/v1/peers";

/// How it is with all peers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Peers {
    /// This end, by the files that are in use; none where they could never be used.
    pub own: Option<Own>,
    /// Why the files cannot be used; those before are, if there were any.
    pub files_failing: Option<String>,
    /// Times that files could not be used.
    pub file_errors: u64,
    /// Connections of those that are no peer, by why they were not heard.
    pub refused: BTreeMap<String, u64>,
    /// The peers, in the order of the configuration.
    pub peers: Vec<Peer>,
}

/// This end, as peers know it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Own {
    /// The name in its certificate.
    pub name: Option<String>,
    /// It speaks for these.
    #[schemars(with = "Vec<String>")]
    pub prefixes: Vec<IpNet>,
    /// The hash of its key, by which others may know it.
    pub key: String,
    /// Negative where it has ended.
    pub certificate_ends_in_seconds: f64,
}

/// One peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Peer {
    pub name: String,
    /// Where it is asked; none where it asks this end.
    pub address: Option<String>,
    /// Its name in certificates, or the hash of its key.
    pub known_by: String,
    /// Its last word, as long as that counts.
    pub heard: Option<Heard>,
    /// How long it has said nothing, where nothing of it counts.
    pub silent_seconds: Option<f64>,
    /// Times that it was heard.
    pub heard_count: u64,
    /// Times that it could not be asked.
    pub failed_count: u64,
    /// Times that it was not heard, by why.
    pub refused: BTreeMap<String, u64>,
    /// Why it was not heard when it was last tried.
    pub failing: Option<String>,
    /// The certificate that it showed last ends then; negative where it has ended.
    pub certificate_ends_in_seconds: Option<f64>,
}

/// A peer's last word. Directions are the peer's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Heard {
    pub age_seconds: f64,
    /// It counts for so long, if nothing new is said.
    pub ends_in_seconds: f64,
    /// It speaks for these, and may.
    #[schemars(with = "Vec<String>")]
    pub prefixes: Vec<IpNet>,
    pub node: Option<String>,
    pub nic_bits_per_second: Option<f64>,
    pub mtu_bytes: Option<u32>,
    pub mss_bytes: Option<u32>,
    /// The largest receive buffer that connections from here can get there.
    pub max_rcvbuf_bytes: Option<u64>,
    pub max_sndbuf_bytes: Option<u64>,
    pub free_tcp_memory_bytes: Option<u64>,
    pub ecn: Option<bool>,
    pub sending: Direction,
    pub receiving: Direction,
    pub consent: Option<Consent>,
}

/// One direction, as the peer has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Direction {
    pub law: Option<TextValue>,
    /// The buffer that it needs at this end.
    pub wanted_window_bytes: Option<Value>,
    pub bandwidth_bits_per_second: Option<Value>,
    pub min_rtt_seconds: Option<Value>,
    pub best_rate_bits_per_second: Option<Value>,
    /// Parts of the time in which something held connections back.
    pub limited_by: BTreeMap<String, f64>,
}

/// A number, and where the peer has it from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Value {
    pub value: f64,
    pub age_seconds: f64,
    /// `file`, `measured` or `passive`.
    pub source: String,
}

/// A name, and where the peer has it from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextValue {
    pub value: String,
    pub age_seconds: f64,
    /// `file`, `measured` or `passive`.
    pub source: String,
}

/// A consent of the peer's to connections from here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Consent {
    pub max_bits_per_second: Option<f64>,
    /// The networks that it is for.
    #[schemars(with = "Vec<String>")]
    pub prefixes: Vec<IpNet>,
    pub ends_in_seconds: f64,
}

impl Heard {
    #[must_use]
    pub fn new(heard: &heard::Heard, now: Moment) -> Self {
        let heard::Said {
            node,
            nic_bits_per_second,
            mtu_bytes,
            mss_bytes,
            max_rcvbuf_bytes,
            max_sndbuf_bytes,
            free_tcp_memory_bytes,
            ecn,
            sending,
            receiving,
            consent,
        } = &heard.said;
        let age = now.saturating_sub(heard.heard_at).as_secs_f64();
        let left = |at: Moment| at.saturating_sub(now).as_secs_f64();
        let ends_at = heard.consent_ends_at().unwrap_or(heard.ends_at);
        Self {
            age_seconds: age,
            ends_in_seconds: left(heard.ends_at),
            prefixes: heard.prefixes.clone(),
            node: node.clone(),
            nic_bits_per_second: *nic_bits_per_second,
            mtu_bytes: *mtu_bytes,
            mss_bytes: *mss_bytes,
            max_rcvbuf_bytes: *max_rcvbuf_bytes,
            max_sndbuf_bytes: *max_sndbuf_bytes,
            free_tcp_memory_bytes: *free_tcp_memory_bytes,
            ecn: *ecn,
            sending: Direction::new(sending, age),
            receiving: Direction::new(receiving, age),
            consent: consent.as_ref().filter(|_| now < ends_at).map(|consent| Consent {
                max_bits_per_second: consent.max_bits_per_second,
                prefixes: consent.prefixes.clone(),
                ends_in_seconds: left(ends_at),
            }),
        }
    }
}

impl Direction {
    fn new(direction: &heard::Direction, age: f64) -> Self {
        let number = |of: &Option<heard::Value<f64>>| {
            of.as_ref().map(|heard::Value { value, age: then, source }| Value {
                value: *value,
                age_seconds: then.as_secs_f64() + age,
                source: source.word().to_owned(),
            })
        };
        let window = direction.wanted_window_bytes.clone();
        let window = window.map(|heard::Value { value, age, source }| heard::Value {
            value: value as f64,
            age,
            source,
        });
        let limits = direction.limited_by.iter();
        Self {
            law: direction.law.as_ref().map(|heard::Value { value, age: then, source }| {
                TextValue {
                    value: value.clone(),
                    age_seconds: then.as_secs_f64() + age,
                    source: source.word().to_owned(),
                }
            }),
            wanted_window_bytes: number(&window),
            bandwidth_bits_per_second: number(&direction.bandwidth_bits_per_second),
            min_rtt_seconds: number(&direction.min_rtt_seconds),
            best_rate_bits_per_second: number(&direction.best_rate_bits_per_second),
            limited_by: limits.map(|limited| (limited.limit.clone(), limited.part)).collect(),
        }
    }
}

/// Returns the refusals that there were.
pub fn refused(refusals: &Refusals) -> BTreeMap<String, u64> {
    let some = refusals.by_label().filter(|(_, count)| *count > 0);
    some.map(|(label, count)| (label.to_owned(), count)).collect()
}
