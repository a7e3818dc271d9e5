//! The spool of one sink, between those who fill it and the one who empties it.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, atomic::Ordering},
    time::{Duration, Instant},
};

use tracing::warn;
use wad_policy::{
    config::{Sink, SinkKind},
    event_name::EventName,
};
use wad_toolbox::mutex::{locked, unpoisoned};

use super::{
    counts::{Reason, SinkCounts},
    refused::Aside,
    spool::{Batch, Lost, Spool},
};

/// The log tells of losses, or of a disk that refuses, no more often than this.
const NEWS_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Outbox {
    pub name: String,
    pub counts: SinkCounts,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    spool: Spool,
    aside: Aside,
    /// Feeds that lines can come by. Without any, what fails is left where it is.
    feeds: usize,
    /// The agent ends.
    is_over: bool,
    /// Where lines are to go, and whether whoever empties the spool does not know yet.
    kind: SinkKind,
    is_news: bool,
    /// Whoever emptied the spool has ended.
    has_ended: bool,
    /// Lines that were lost since the log told of any.
    untold: u64,
    told_at: Option<Instant>,
}

impl State {
    const fn is_finishing(&self) -> bool {
        self.is_over || self.feeds == 0
    }
}

/// A feed is what lines come by for one sink. Its outbox comes to its end with the last of
/// its feeds.
#[derive(Debug)]
pub struct Feed {
    pub sink: Sink,
    pub outbox: Arc<Outbox>,
}

impl Feed {
    /// Makes a feed of an outbox that is being emptied; None where that is over.
    pub fn of(outbox: &Arc<Outbox>, sink: &Sink) -> Option<Self> {
        let mut state = outbox.state();
        if state.has_ended {
            return None;
        }
        state.feeds += 1;
        Some(Self { sink: sink.clone(), outbox: Arc::clone(outbox) })
    }

    pub fn takes(&self, event: EventName) -> bool {
        self.sink.events.contains(&event)
    }

    /// Has the outbox be as this feed's sink is: its lines stay, and go where that says.
    pub fn put_in_force(&self) {
        let mut state = self.outbox.state();
        state.spool.bound(self.sink.spool_max_bytes);
        state.aside.bound(self.sink.spool_max_bytes);
        if self.sink.kind != state.kind {
            state.kind = self.sink.kind.clone();
            state.is_news = true;
        }
        drop(state);
        self.outbox.changed.notify_all();
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.outbox.state().feeds -= 1;
        self.outbox.changed.notify_all();
    }
}

impl Outbox {
    /// Takes up what is in the folder.
    pub fn open(sink: &Sink, folder: PathBuf) -> Self {
        let aside = Aside::of(&folder, sink.spool_max_bytes);
        let (spool, lost, found) = Spool::open(folder, sink.spool_max_bytes);
        let state = State {
            spool,
            aside,
            feeds: 0,
            is_over: false,
            kind: sink.kind.clone(),
            is_news: false,
            has_ended: false,
            untold: 0,
            told_at: None,
        };
        let outbox = Self {
            name: sink.name.clone(),
            counts: SinkCounts::default(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        };
        let mut state = outbox.state();
        outbox.note(&mut state, lost, found);
        drop(state);
        outbox
    }

    pub fn lost(&self, reason: Reason, lines: u64) {
        self.counts.lost[reason as usize].fetch_add(lines, Ordering::Relaxed);
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

    /// Waits for lines; None where none can come any more, which is the end.
    pub fn next(&self, max_bytes: usize) -> io::Result<Option<Batch>> {
        let mut state = self.state();
        loop {
            let batch = state.spool.next(max_bytes)?;
            if batch.is_some() {
                return Ok(batch);
            }
            if state.is_finishing() {
                state.has_ended = true;
                return Ok(None);
            }
            state = unpoisoned(self.changed.wait(state));
        }
    }

    /// Notes that so many lines of that batch have been taken.
    pub fn advance(&self, batch: &Batch, lines: usize) {
        let mut state = self.state();
        let lost = state.spool.advance(batch, lines);
        self.counts.sent.fetch_add(lines as u64, Ordering::Relaxed);
        self.note(&mut state, lost, Ok(()));
    }

    /// Returns where lines are to go from now on, if that has changed.
    pub fn changed_kind(&self) -> Option<SinkKind> {
        let mut state = self.state();
        std::mem::take(&mut state.is_news).then(|| state.kind.clone())
    }

    /// The file of what is set aside.
    pub fn aside(&self) -> PathBuf {
        self.state().aside.file().to_owned()
    }

    /// Sets a batch aside that is refused for good. If there is no room for it, it is lost.
    pub fn set_aside(&self, batch: &Batch) -> io::Result<bool> {
        let aside = self.state().aside.clone();
        let has_room = aside.add(batch.bytes())?;
        let mut state = self.state();
        let lines = batch.len() as u64;
        let lost = state.spool.advance(batch, batch.len());
        if has_room {
            self.counts.refused.fetch_add(lines, Ordering::Relaxed);
        } else {
            self.lost(Reason::Refused, lines);
            state.untold += lines;
        }
        self.note(&mut state, lost, Ok(()));
        Ok(has_room)
    }

    /// Waits, but not longer than lines can come, or than the sink stays as it is. Whether it
    /// goes on: if not, that is the end.
    pub fn pause(&self, most: Duration) -> bool {
        let is_alike = |state: &mut State| !state.is_finishing() && !state.is_news;
        let waited = self.changed.wait_timeout_while(self.state(), most, is_alike);
        let (mut state, _) = unpoisoned(waited);
        state.has_ended = state.is_finishing();
        !state.has_ended
    }

    /// Ends the outbox with the agent: no more lines come; what fails now is left for the
    /// next agent.
    pub fn finish(&self) {
        self.state().is_over = true;
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
        self.counts.spooled_bytes.store(state.spool.bytes(), Ordering::Relaxed);
        let is_news = disk.is_err() || state.untold > 0;
        if !is_news || state.told_at.is_some_and(|told_at| told_at.elapsed() < NEWS_INTERVAL) {
            return;
        }
        state.told_at = Some(Instant::now());
        let sink = self.name.as_str();
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
