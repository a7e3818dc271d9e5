//! Reads `[metrics]`: where metrics are, of how many paths, and who may read them.

use std::{net::SocketAddr, ops::RangeInclusive};

use super::{
    fault::{Problems, Span},
    guard::{self, Guard},
    keys::{
        Key,
        LeftOut::Value,
        Takes::{Integer, Text},
        key,
    },
    listen::listen,
    table::{self, Table},
};

pub const TABLE: &str = "metrics";

/// Paths with metrics of their own: 10,000 make a page of 20 MB.
const PATHS: RangeInclusive<u64> = 1..=10_000;

/// The port that metrics are at, where none is said.
const PORT: u16 = 9464;

pub const KEYS: &[Key] = &[
    key("listen").takes(
        Text("an address and a port"),
        Value("\"127.0.0.1:9464\""),
        "where `/metrics` is",
    ),
    key("max_paths").takes(
        Integer(PATHS, "paths"),
        Value("1000"),
        "paths with metrics of their own; the rest is `other`",
    ),
    guard::CERTIFICATE,
    guard::CERTIFICATE_KEY,
    guard::USERS,
];

#[derive(Clone, Debug, PartialEq)]
pub struct Metrics {
    pub listen: SocketAddr,
    /// Paths with metrics of their own; those beyond are summed up as `other`.
    pub max_paths: usize,
    pub guard: Guard,
}

impl Default for Metrics {
    fn default() -> Self {
        let listen = ([127, 0, 0, 1], PORT).into();
        Self { listen, max_paths: 1_000, guard: Guard::default() }
    }
}

/// Reads the table. Returns the place of the address as well, where it gives one.
pub fn read(table: &Table<'_>, problems: &mut Problems) -> (Metrics, Option<Span>) {
    let usual = Metrics::default();
    let given = table.read("listen", problems, |value| listen(table::text(value)?, PORT));
    let listen = given.map_or(usual.listen, |given| given.value);
    let max_paths =
        table.read("max_paths", problems, |value| table::integer(value, PATHS, "paths"));
    let metrics = Metrics {
        listen,
        max_paths: max_paths.map_or(usual.max_paths, |paths| paths.value as usize),
        guard: guard::read(table, listen.ip().is_loopback(), problems),
    };
    (metrics, given.map(|given| given.at))
}
