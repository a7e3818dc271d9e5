//! Finds the processes of flows of which nobody has seen who accepted.

use std::time::{Duration, Instant};

use wad_tuning::bpf::Tuning;

/// Between two searches, each of which goes through the open files of all processes.
const INTERVAL: Duration = Duration::from_secs(1);

/// When it was searched last.
#[derive(Default)]
pub struct HolderSearch(Option<Instant>);

impl HolderSearch {
    /// Returns whether it has searched: else it has just before, or cannot.
    pub fn search(&mut self, tuning: &Tuning) -> bool {
        if self.0.is_some_and(|last| last.elapsed() < INTERVAL) {
            return false;
        }
        self.0 = Some(Instant::now());
        tuning.find_holders().is_ok()
    }
}
