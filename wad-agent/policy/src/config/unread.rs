//! Tables that are wrong: what names them elsewhere is not wrong by itself.

use std::collections::HashSet;

use super::{
    fault::Problems,
    table::{self, Table},
};

/// The tables of a kind that could not be read.
#[derive(Debug, Default)]
pub struct Unread {
    names: HashSet<String>,
    /// One has no name that can be read.
    has_nameless: bool,
}

impl Unread {
    /// Notes a table of which it has been said what is wrong.
    pub fn note(&mut self, table: &Table<'_>) {
        let name = |value: &_| table::text(value).map(str::to_owned);
        match table.read("name", &mut Problems::default(), name) {
            Some(name) => _ = self.names.insert(name.value),
            None => self.has_nameless = true,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && !self.has_nameless
    }

    /// Whether one of them has this name, or may be meant to have it.
    pub fn may_have(&self, name: &str) -> bool {
        self.has_nameless || self.names.contains(name)
    }
}
