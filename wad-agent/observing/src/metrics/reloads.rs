//! Counts how often the configuration was read again, and what came of it.

use std::time::SystemTime;

/// Reloads since the start, by what came of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reloads {
    pub applied: u64,
    pub refused: u64,
    pub failed: u64,
    /// Whether the last one was not applied: what runs is not what the file says.
    pub is_behind: bool,
    /// When the configuration in force was read.
    pub loaded: Option<SystemTime>,
}

impl Reloads {
    /// Returns the counts at the start, without a reload so far: the start has just
    /// read the configuration.
    #[must_use]
    pub fn start() -> Self {
        Self { loaded: Some(SystemTime::now()), ..Self::default() }
    }

    /// Counts one whose configuration is in force.
    pub fn applied(&mut self) {
        self.loaded = Some(SystemTime::now());
        self.applied += 1;
        self.is_behind = false;
    }

    /// Counts one whose configuration is wrong.
    pub fn refused(&mut self) {
        self.refused += 1;
        self.is_behind = true;
    }

    /// Counts one that this host would not have.
    pub fn failed(&mut self) {
        self.failed += 1;
        self.is_behind = true;
    }
}
