//! Counts are kept of events and their sinks.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use wad_policy::{config::Sink, event_name::EventName};
use wad_toolbox::mutex::locked;

use crate::metrics::{Readings, SinkReading};

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

/// Shared by all who tell, and who answer.
#[derive(Debug)]
pub struct Counts {
    told: [AtomicU64; EVENTS],
    pub sinks: Vec<SinkCounts>,
}

#[derive(Debug)]
pub struct SinkCounts {
    name: String,
    kind: &'static str,
    pub sent: AtomicU64,
    /// Lines that it refuses for good, and that are set aside.
    pub refused: AtomicU64,
    pub lost: [AtomicU64; Reason::ALL.len()],
    pub spooled_bytes: AtomicU64,
    /// The failure when it was last tried.
    pub failing: Mutex<Option<String>>,
}

impl Counts {
    pub fn new(sinks: &[Sink]) -> Self {
        let of_sink = |sink: &Sink| SinkCounts {
            name: sink.name.clone(),
            kind: sink.kind.name(),
            sent: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            lost: Default::default(),
            spooled_bytes: AtomicU64::new(0),
            failing: Mutex::new(None),
        };
        Self { told: Default::default(), sinks: sinks.iter().map(of_sink).collect() }
    }

    pub fn told(&self, event: EventName) {
        self.told[event as usize].fetch_add(1, Ordering::Relaxed);
    }
}

impl SinkCounts {
    fn read(&self) -> SinkReading {
        let lost =
            |reason: Reason| (reason.label(), self.lost[reason as usize].load(Ordering::Relaxed));
        SinkReading {
            name: self.name.clone(),
            kind: self.kind,
            sent: self.sent.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            lost: Reason::ALL.map(lost).to_vec(),
            spooled_bytes: self.spooled_bytes.load(Ordering::Relaxed),
            failing: locked(&self.failing).clone(),
        }
    }
}

/// Tells how the sinks get on.
#[derive(Clone, Debug)]
pub struct Board(Arc<Counts>);

impl Board {
    pub const fn new(counts: Arc<Counts>) -> Self {
        Self(counts)
    }

    /// Returns the spooled bytes of all sinks together.
    pub fn spooled_bytes(&self) -> u64 {
        self.0.sinks.iter().map(|sink| sink.spooled_bytes.load(Ordering::Relaxed)).sum()
    }

    pub fn read(&self, readings: &mut Readings) {
        let told =
            |event: EventName| (event.label(), self.0.told[event as usize].load(Ordering::Relaxed));
        readings.events = EventName::ALL.map(told).to_vec();
        readings.sinks = self.0.sinks.iter().map(SinkCounts::read).collect();
    }
}
