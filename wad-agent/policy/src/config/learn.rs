//! Reads `[learn]`: paths are learned from connections that no path of the file is for.

use std::ops::RangeInclusive;

use super::{
    fault::Problems,
    keys::{Key, LeftOut::Value, Takes::Integer, key},
    table::{self, Table},
};

pub const TABLE: &str = "learn";

/// Paths that are learned: each is a policy, and has metrics.
const PATHS: RangeInclusive<u64> = 1..=1_024;

pub const KEYS: &[Key] = &[key("max_paths").takes(
    Integer(PATHS, "paths"),
    Value("64"),
    "most paths that are learned; with the table, even an empty one, they are \
     [learned](../learn.md)",
)];

/// Paths are learned, so many at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learn {
    pub max_paths: usize,
}

impl Learn {
    /// No configuration has more.
    pub const MOST_PATHS: usize = *PATHS.end() as usize;
}

impl Default for Learn {
    fn default() -> Self {
        Self { max_paths: 64 }
    }
}

pub fn read(root: &Table<'_>, problems: &mut Problems) -> Option<Learn> {
    let table = root.table(TABLE, KEYS, problems)?;
    let max_paths =
        table.read("max_paths", problems, |value| table::integer(value, PATHS, "paths"));
    let given = max_paths.map(|max_paths| Learn { max_paths: max_paths.value as usize });
    Some(given.unwrap_or_default())
}
