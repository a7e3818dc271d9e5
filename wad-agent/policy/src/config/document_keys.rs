//! The keys of the tables that a file has once, but for `[host]`, and their ranges.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    buffers::{MAX_BYTES as MAX_BUFFER_BYTES, MIN_BYTES as MIN_BUFFER_BYTES},
    guard,
    keys::{
        Key,
        LeftOut::{Means, Value},
        Takes::{Integer, Size, Text, Time, Words},
        key,
    },
};

/// Paths with metrics of their own: 10,000 make a page of 20 MB.
pub const METRICS_PATHS: RangeInclusive<u64> = 1..=10_000;

/// The memory of tuned flows: with less no flow with buffers could be tuned.
pub const MEMORY_BYTES: RangeInclusive<u64> = 1 << 20..=i64::MAX as u64;

pub const BUFFER_BYTES: RangeInclusive<u64> = MIN_BUFFER_BYTES..=MAX_BUFFER_BYTES;

pub const CHANGE_INTERVAL: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(86_400);

pub const AGENT: &[Key] = &[
    key("state_dir").takes(
        Text("an absolute path"),
        Value("\"/var/lib/wad\""),
        "where the journal is of what `wad` changes on this host, what is disabled, what was \
         measured, what sets hold, and events that wait for their sinks; takes a restart",
    ),
    key("on_exit").takes(
        Words(&["restore", "keep"]),
        Value("\"restore\""),
        "`\"restore\"`: a stop takes everything out; `\"keep\"`: tuning goes on without the agent, \
         see [restarts](../restarts.md)",
    ),
];

pub const METRICS: &[Key] = &[
    key("listen").takes(
        Text("an address and a port"),
        Value("\"127.0.0.1:9464\""),
        "where `/metrics` is",
    ),
    key("max_paths").takes(
        Integer(METRICS_PATHS, "paths"),
        Value("1000"),
        "paths with metrics of their own; the rest is `other`",
    ),
    guard::CERTIFICATE,
    guard::CERTIFICATE_KEY,
    guard::USERS,
];

pub const LIMITS: &[Key] = &[
    key("max_memory").takes(
        Size(MEMORY_BYTES),
        Means("the first number of `tcp_mem`"),
        "most that TCP is to hold, by the kernel's own count: near it [buffers](../buffers.md) \
         grow no more, beyond it the largest shrink",
    ),
    key("max_buffer").takes(
        Size(BUFFER_BYTES),
        Means("just below 1 GiB"),
        "largest buffer of any path",
    ),
    key("change_interval").takes(
        Time(CHANGE_INTERVAL),
        Value("\"1min\""),
        "least time between two changes of a [measured path](../measured-paths.md)",
    ),
];

pub const LOG: &[Key] = &[
    key("format").takes(
        Words(&["text", "json"]),
        Value("\"text\""),
        "how lines of the log are written",
    ),
    key("level").takes(
        Words(&["error", "warn", "info", "debug", "trace"]),
        Value("\"info\""),
        "lines of this level and of those above it; the variable `WAD_LOG` has the last word",
    ),
];

pub const API: &[Key] = &[
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
