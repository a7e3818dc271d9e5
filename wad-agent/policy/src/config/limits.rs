//! Reads `[limits]`: the most memory and the largest buffer, and how often paths change.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    buffers::{MAX_BYTES, MIN_BYTES},
    fault::Problems,
    keys::{
        Key,
        LeftOut::{Means, Value},
        Takes::{Size, Time},
        key,
    },
    quantity,
    source::read_time,
    table::Table,
};

pub const TABLE: &str = "limits";
pub const MAX_BUFFER: &str = "max_buffer";

/// The memory of tuned flows: with less no flow with buffers could be tuned.
const MEMORY_BYTES: RangeInclusive<u64> = 1 << 20..=i64::MAX as u64;

const BUFFER_BYTES: RangeInclusive<u64> = MIN_BYTES..=MAX_BYTES;

const CHANGE_INTERVAL: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(86_400);

pub const KEYS: &[Key] = &[
    key("max_memory").takes(
        Size(MEMORY_BYTES),
        Means("the first number of `tcp_mem`"),
        "most that TCP is to hold, by the kernel's own count: near it [buffers](../buffers.md) \
         grow no more, beyond it the largest shrink",
    ),
    key(MAX_BUFFER).takes(
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

#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Most memory that TCP is to hold; None for the first number of `tcp_mem`.
    pub max_memory_bytes: Option<u64>,
    /// Largest buffer of any path, as the argument of SO_SNDBUF and SO_RCVBUF.
    pub max_buffer_bytes: Option<u32>,
    /// Least time between two changes of a measured path.
    pub change_interval: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let change_interval = Duration::from_secs(60);
        Self { max_memory_bytes: None, max_buffer_bytes: None, change_interval }
    }
}

/// Reads the table, but for `max_buffer`.
pub fn read(table: &Table<'_>, max_buffer_bytes: Option<u32>, problems: &mut Problems) -> Limits {
    let usual = Limits::default();
    let max_memory =
        table.read("max_memory", problems, |value| quantity::size(value, MEMORY_BYTES));
    let change_interval =
        read_time(table, "change_interval", CHANGE_INTERVAL, "1s to 1d", problems);
    Limits {
        max_memory_bytes: max_memory.map(|size| size.value),
        max_buffer_bytes,
        change_interval: change_interval.unwrap_or(usual.change_interval),
    }
}

/// Reads `max_buffer` of a part of a file: paths that stand before it are bounded as well.
pub fn read_max_buffer(root: &Table<'_>, problems: &mut Problems) -> Option<u32> {
    // What else is wrong with the table is said when the rest of it is read.
    let table = root.table(TABLE, KEYS, &mut Problems::default())?;
    let size = table.read(MAX_BUFFER, problems, |value| quantity::size(value, BUFFER_BYTES))?;
    // In range, hence whole.
    Some(size.value as u32)
}
