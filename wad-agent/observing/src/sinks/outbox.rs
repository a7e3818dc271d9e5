//! The spool of one sink, between those who fill it and the one who empties it.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, atomic::Ordering},
    time::{Duration, Instant},
};

use tracing::warn;
use wad_policy::{config::Sink, event_name::EventName};
use wad_toolbox::mutex::{locked, unpoisoned};

use super::{
    counts::{Counts, Reason, SinkCounts},
    refused::Aside,
    spool::{Batch, Lost, Spool},
};

/// The log tells of losses, or of a disk that refuses, no more often than this.
const NEWS_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Outbox {
    pub sink: Sink,
    pub aside: Aside,
    counts: (usize, Arc<Counts>),
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    spool: Spool,
    is_finishing: bool,
    /// Lines that were lost since the log told of any.
    untold: u64,
    told_at: Option<Instant>,
}

impl Outbox {
    /// Takes up what is in the folder.
    pub fn open(sink: Sink, folder: PathBuf, counts: (usize, Arc<Counts>)) -> Self {
        let aside = Aside::of(&folder, sink.spool_max_bytes);
        let (spool, lost, found) = Spool::open(folder, sink.spool_max_bytes);
        let state = State { spool, is_finishing: false, untold: 0, told_at: None };
        let outbox =
            Self { sink, aside, counts, state: Mutex::new(state), changed: Condvar::new() };
        let mut state = outbox.state();
        outbox.note(&mut state, lost, found);
        drop(state);
        outbox
    }

    pub fn takes(&self, event: EventName) -> bool {
        self.sink.events.contains(&event)
    }

    pub fn counts(&self) -> &SinkCounts {
        let (place, counts) = &self.counts;
        &counts.sinks[*place]
    }

    pub fn lost(&self, reason: Reason, lines: u64) {
        self.counts().lost[reason as usize].fetch_add(lines, Ordering::Relaxed);
    }

    pub fn append(&self, lines: impl IntoIterator<Item = Vec<u8>>) {
        let mut lines = lines.into_iter().peekable();
        if lines.peek().is_none() {
            return;
        }
        let mut state = self.state();
        let (lost, written) = state.spool.append(lines);
        self.note(&mut state, lost, written);
        self.changed.notify_all();
    }

    /// Waits for lines; None where none can come any more.
    pub fn next(&self, max_bytes: usize) -> io::Result<Option<Batch>> {
        let mut state = self.state();
        loop {
            let batch = state.spool.next(max_bytes)?;
            if batch.is_some() || state.is_finishing {
                return Ok(batch);
            }
            state = unpoisoned(self.changed.wait(state));
        }
    }

    /// Notes that so many lines of that batch have been taken.
    pub fn advance(&self, batch: &Batch, lines: usize) {
        let mut state = self.state();
        let lost = state.spool.advance(batch, lines);
        self.counts().sent.fetch_add(lines as u64, Ordering::Relaxed);
        self.note(&mut state, lost, Ok(()));
    }

    /// Sets a batch aside that is refused for good. If there is no room for it, it is lost.
    pub fn set_aside(&self, batch: &Batch) -> io::Result<bool> {
        let has_room = self.aside.add(batch.bytes())?;
        let mut state = self.state();
        let lines = batch.len() as u64;
        let lost = state.spool.advance(batch, batch.len());
        if has_room {
            self.counts().refused.fetch_add(lines, Ordering::Relaxed);
        } else {
            self.lost(Reason::Refused, lines);
            state.untold += lines;
        }
        self.note(&mut state, lost, Ok(()));
        Ok(has_room)
    }

    /// Waits, but not longer than the agent runs. Whether it goes on.
    pub fn pause(&self, most: Duration) -> bool {
        let state = self.state();
        let waited = self.changed.wait_timeout_while(state, most, |state| !state.is_finishing);
        let (state, _) = unpoisoned(waited);
        !state.is_finishing
    }

    /// Ends the outbox: no more lines come; what fails now is left for the next
    /// agent.
    pub fn finish(&self) {
        self.state().is_finishing = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    fn note(&self, state: &mut State, lost: Lost, disk: io::Result<()>) {
        let Lost { full, disk: refused, damaged } = lost;
        for (reason, lines) in
            [(Reason::Spool, full), (Reason::Disk, refused), (Reason::Damaged, damaged)]
        {
            self.lost(reason, lines);
            state.untold += lines;
        }
        self.counts().spooled_bytes.store(state.spool.bytes(), Ordering::Relaxed);
        let is_news = disk.is_err() || state.untold > 0;
        if !is_news || state.told_at.is_some_and(|told_at| told_at.elapsed() < NEWS_INTERVAL) {
            return;
        }
        state.told_at = Some(Instant::now());
        let sink = self.sink.name.as_str();
        if let Err(error) = disk {
            let folder = state.spool.folder().display();
            warn!(sink, "events wait in memory, as {folder} does not take them: {error}");
        }
        if state.untold > 0 {
            let events = std::mem::take(&mut state.untold);
            warn!(sink, events, "events are lost; wad_sink_lost_total says where");
        }
    }
}
