//! Finds the processes of flows of which nobody has seen who connected or accepted.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use wad_common::process::Process;
use wad_tuning::bpf::Tuning;

/// Between two searches, each of which goes through the open files of all processes.
const INTERVAL: Duration = Duration::from_secs(1);

/// The latest search.
#[derive(Default)]
pub struct HolderSearch {
    at: Option<Instant>,
    /// The processes of connections on no path, by the cookies of their sockets.
    of_others: HashMap<u64, Process>,
}

impl HolderSearch {
    /// Returns whether it has searched: else it has just before, or cannot.
    pub fn search(&mut self, tuning: &Tuning) -> bool {
        if self.at.is_some_and(|at| at.elapsed() < INTERVAL) {
            return false;
        }
        self.at = Some(Instant::now());
        let found = tuning.find_holders();
        let is_done = found.is_ok();
        self.of_others = found.unwrap_or_default();
        is_done
    }

    /// Returns the process of a connection on no path, as it was at the latest search.
    pub fn of_other(&self, cookie: u64) -> Process {
        self.of_others.get(&cookie).copied().unwrap_or_default()
    }
}
