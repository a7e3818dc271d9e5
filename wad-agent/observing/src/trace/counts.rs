//! Counts are kept of a trace while it is written.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use wad_toolbox::mutex::locked;

/// Counts of the lines of a trace so far, and what is wrong with it now.
#[derive(Debug, Default)]
pub struct Counts {
    lines: AtomicU64,
    bytes: AtomicU64,
    lost: AtomicU64,
    /// Readings that should have been.
    missed: AtomicU64,
    /// The error that the last lines were lost for, or for which the next ones will be.
    failing: Mutex<Option<String>>,
    /// Why there was no reading the last time, if there was none.
    silence: Mutex<Option<String>>,
}

/// Says what became of the lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOutcome {
    pub written: u64,
    pub lost: u64,
    /// The error that the last ones were lost for.
    pub error: Option<String>,
}

impl Counts {
    pub fn wrote(&self, lines: u64, bytes: u64) {
        self.lines.fetch_add(lines, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn lost(&self, lines: u64) {
        self.lost.fetch_add(lines, Ordering::Relaxed);
    }

    pub fn missed(&self, readings: u64) {
        self.missed.fetch_add(readings, Ordering::Relaxed);
    }

    /// Notes why lines are not written, or that they are; returns what was noted before.
    pub fn fails(&self, why: Option<String>) -> Option<String> {
        std::mem::replace(&mut *locked(&self.failing), why)
    }

    /// Notes why there is no reading, or that there is one; returns what was noted before.
    pub fn is_silent(&self, why: Option<String>) -> Option<String> {
        std::mem::replace(&mut *locked(&self.silence), why)
    }

    pub fn outcome(&self) -> WriteOutcome {
        WriteOutcome {
            written: self.lines.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            error: locked(&self.failing).clone(),
        }
    }

    /// Returns the bytes that lines took, packed if they are.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn missed_readings(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Returns what is wrong now, of writing first.
    pub fn fault(&self) -> Option<String> {
        locked(&self.failing).clone().or_else(|| locked(&self.silence).clone())
    }
}
