//! Sinks are where events of flows are told: each takes them in their order, at least
//! once, and however slow it is, or away, neither the agent nor another sink waits for
//! it.
//!
//! A record becomes a line, and goes through a bounded queue to the thread that puts it
//! into the spools of its sinks; a thread for each sink takes it from there. What is
//! lost on the way is counted, by where.

mod counts;
mod datagrams;
mod error;
mod file;
mod http;
mod outbox;
mod refused;
mod sender;
mod spool;
mod target;
#[cfg(test)]
mod tests;

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, SyncSender, TrySendError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use serde::Serialize;
use tracing::warn;
use wad_linux::sysctl::Sysctl;
use wad_policy::{config::Sink, event_name::EventName};
use wad_toolbox::{chance::chance, mutex::locked, own_folder};

pub use self::counts::Board;
#[cfg(feature = "fuzz")]
pub use self::spool::fuzz;
use self::{
    counts::{Counts, Reason},
    outbox::Outbox,
};
use crate::events::{Record, Teller};

/// Lines between the agent and the spools: 12 MB at most, as many as all events that the
/// ring buffer holds may come to.
const ROOM: usize = 16_384;
/// Lines that are put into the spools at once.
const LINES_AT_ONCE: usize = 1024;
/// Events that are not told yet get this long at the end of the agent; the rest is for
/// the next one.
const GRACE: Duration = Duration::from_secs(1);

enum Message {
    /// A line to tell, with the event that it tells of.
    Line(EventName, Vec<u8>),
    /// The end: no more lines come.
    End,
}

/// All sinks of an agent.
#[derive(Debug)]
pub struct Sinks {
    teller: Teller,
    number: AtomicU64,
    counts: Arc<Counts>,
    outboxes: Arc<[Outbox]>,
    /// The queue; None where there are no sinks.
    queue: Option<SyncSender<Message>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Sinks {
    /// Takes up what an agent before this one has left in its folder.
    pub fn start(sinks: &[Sink], state_dir: &Path, instance: &str) -> Result<Self> {
        let counts = Arc::new(Counts::new(sinks));
        let folder = state_dir.join(format!("events-{instance}"));
        if !sinks.is_empty() {
            own_folder::guard(&folder)?;
        }
        let outboxes = sinks.iter().enumerate().map(|(place, sink)| {
            Outbox::open(sink.clone(), folder.join(&sink.name), (place, Arc::clone(&counts)))
        });
        let outboxes: Arc<[Outbox]> = outboxes.collect();
        let mut threads = Vec::new();
        let mut queue = None;
        if !sinks.is_empty() {
            for place in 0..outboxes.len() {
                let outboxes = Arc::clone(&outboxes);
                threads.push(spawn("sink", move || sender::run(&outboxes[place]))?);
            }
            let (lines, told) = mpsc::sync_channel(ROOM);
            let boxes = Arc::clone(&outboxes);
            threads.push(spawn("spools", move || spool_on(&told, &boxes))?);
            queue = Some(lines);
        }
        let teller = Teller {
            host: Sysctl::default().host_name(),
            instance: instance.to_owned(),
            run: format!("{:016x}", (chance() * u64::MAX as f64) as u64),
        };
        let (number, threads) = (AtomicU64::new(0), Mutex::new(threads));
        Ok(Self { teller, number, counts, outboxes, queue, threads })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.outboxes.is_empty()
    }

    /// Whether any sink takes this event.
    pub fn want(&self, event: EventName) -> bool {
        self.outboxes.iter().any(|outbox| outbox.takes(event))
    }

    /// Tells it to all sinks that take it, without waiting for any.
    pub fn tell<V: Serialize>(&self, record: &Record<'_, V>) {
        let event = record.event;
        let Some(queue) = self.queue.as_ref().filter(|_| self.want(event)) else { return };
        self.counts.told(event);
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        // Values are objects whose keys are texts: they always are JSON.
        let Ok(line) = record.line(&self.teller, number) else { return };
        if queue.try_send(Message::Line(event, line)).is_err() {
            for outbox in self.outboxes.iter().filter(|outbox| outbox.takes(event)) {
                outbox.lost(Reason::Queue, 1);
            }
        }
    }

    /// Returns the board, for those who answer questions.
    pub fn board(&self) -> Board {
        Board::new(Arc::clone(&self.counts))
    }

    /// Waits a moment for what is not told yet. What is left is told by the next agent.
    pub fn finish(&self) {
        let Some(queue) = &self.queue else { return };
        let until = Instant::now() + GRACE;
        let wait_for = |done: &dyn Fn() -> bool| {
            while !done() && Instant::now() < until {
                thread::sleep(Duration::from_millis(1));
            }
        };
        let mut threads = locked(&self.threads);
        // Then the spools have all of it.
        wait_for(&|| !matches!(queue.try_send(Message::End), Err(TrySendError::Full(_))));
        if let Some(spools) = threads.pop() {
            wait_for(&|| spools.is_finished());
        }
        self.outboxes.iter().for_each(Outbox::finish);
        wait_for(&|| threads.iter().all(JoinHandle::is_finished));
        if self.board().spooled_bytes() > 0 {
            warn!("not all events are told: the next agent goes on with them");
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.context("cannot start a thread for the sinks of events")
}

/// Puts what is told into the spools, until nothing can come any more.
fn spool_on(told: &Receiver<Message>, outboxes: &[Outbox]) {
    let mut is_over = false;
    while !is_over && let Ok(first) = told.recv() {
        let mut lines = Vec::new();
        for message in [first].into_iter().chain(told.try_iter().take(LINES_AT_ONCE - 1)) {
            match message {
                Message::Line(event, line) => lines.push((event, line)),
                Message::End => is_over = true,
            }
        }
        for outbox in outboxes {
            let taken = lines.iter().filter(|(event, _)| outbox.takes(*event));
            outbox.append(taken.map(|(_, line)| line.clone()));
        }
    }
}
