//! Finds the processes of flows of which nobody has seen who accepted.

use std::time::{Duration, Instant};

use wad_tuning::bpf::{Holders, Tuning};

/// Between two searches, each of which goes through the open files of all processes.
const INTERVAL: Duration = Duration::from_secs(1);

/// Made ready at the first search.
#[derive(Default)]
pub struct HolderSearch {
    by: Option<Holders>,
    last: Option<Instant>,
}

impl HolderSearch {
    /// Returns whether it has searched: else it has just before, or cannot.
    pub fn search(&mut self, tuning: &Tuning) -> bool {
        if self.last.is_some_and(|last| last.elapsed() < INTERVAL) {
            return false;
        }
        self.last = Some(Instant::now());
        if self.by.is_none() {
            self.by = tuning.holders().ok();
        }
        self.by.as_ref().is_some_and(|holders| holders.find().is_ok())
    }
}
