//! Counts are kept of events and their sinks.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use wad_policy::{config::Sink, event_name::EventName};
use wad_toolbox::mutex::locked;

use crate::metrics::SinkReading;

const EVENTS: usize = EventName::ALL.len();

/// Reasons say where lines are lost: they are closed, as they label a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Events come faster than they are written to the spools.
    Queue,
    /// The spool has all that `spool_max` allows.
    Spool,
    /// The spool can't be written, and no more fit into memory.
    Disk,
    /// The events in the spool can't be read any more.
    Damaged,
    /// The sink refuses them for good, and as many are set aside as may be.
    Refused,
}

impl Reason {
    pub const ALL: [Self; 5] = [Self::Queue, Self::Spool, Self::Disk, Self::Damaged, Self::Refused];

    pub const fn label(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Spool => "spool",
            Self::Disk => "disk",
            Self::Damaged => "damaged",
            Self::Refused => "refused",
        }
    }
}

/// Counts of the events of each kind that were told.
#[derive(Debug, Default)]
pub struct Told([AtomicU64; EVENTS]);

impl Told {
    pub fn count(&self, event: EventName) {
        self.0[event as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn read(&self) -> Vec<(&'static str, u64)> {
        let told =
            |event: EventName| (event.label(), self.0[event as usize].load(Ordering::Relaxed));
        EventName::ALL.map(told).to_vec()
    }
}

/// Counts of one sink.
#[derive(Debug, Default)]
pub struct SinkCounts {
    pub sent: AtomicU64,
    /// Lines that it refuses for good, and that are set aside.
    pub refused: AtomicU64,
    pub lost: [AtomicU64; Reason::ALL.len()],
    pub spooled_bytes: AtomicU64,
    /// The failure when it was last tried.
    pub failing: Mutex<Option<String>>,
}

impl SinkCounts {
    pub fn read(&self, sink: &Sink) -> SinkReading {
        let lost =
            |reason: Reason| (reason.label(), self.lost[reason as usize].load(Ordering::Relaxed));
        SinkReading {
            name: sink.name.clone(),
            kind: sink.kind.name(),
            sent: self.sent.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            lost: Reason::ALL.map(lost).to_vec(),
            spooled_bytes: self.spooled_bytes.load(Ordering::Relaxed),
            failing: locked(&self.failing).clone(),
        }
    }
}
