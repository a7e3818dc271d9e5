//! Rows that the file has no room for wait in memory, so many at most.

use std::collections::VecDeque;

use crate::row::Row;

/// So many rows may wait: a few MB, and most of an hour of 1,000 paths that are measured each 5
/// minutes.
const MAX_ROWS: usize = 10_000;

/// A ring is a queue whose oldest rows go when it is full.
#[derive(Default)]
pub struct Ring {
    rows: VecDeque<Row>,
    /// The rows that went.
    lost: u64,
}

impl Ring {
    pub fn push(&mut self, row: Row) {
        if self.rows.len() == MAX_ROWS {
            self.rows.pop_front();
            self.lost += 1;
        }
        self.rows.push_back(row);
    }

    /// Returns the rows, the oldest first.
    pub fn rows(&mut self) -> &[Row] {
        self.rows.make_contiguous()
    }

    /// Forgets the first rows, which are in the file.
    pub fn forget(&mut self, count: usize) {
        self.rows.drain(..count);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub const fn lost(&self) -> u64 {
        self.lost
    }
}
