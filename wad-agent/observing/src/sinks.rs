//! Sinks are where events of flows are told: each takes them in their order, at least
//! once, and however slow it is, or away, neither the agent nor another sink waits for
//! it. Beside them the last hour is kept for the page, where there is one.
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
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock,
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

#[cfg(feature = "fuzz")]
pub use self::spool::fuzz;
use self::{
    counts::{Reason, Told},
    outbox::{Feed, Outbox},
};
use crate::{
    events::{Record, Teller},
    metrics::Readings,
    recent::Recent,
};

/// Lines between the agent and the spools: 12 MB at most, as many as all events that the
/// ring buffer holds may come to.
const ROOM: usize = 16_384;
/// Lines that are put into the spools at once.
const LINES_AT_ONCE: usize = 1024;
/// Events that are not told yet get this long at the end of the agent; the rest is for
/// the next one.
const GRACE: Duration = Duration::from_secs(1);

/// A line, with the event that it tells of.
type Line = (EventName, Vec<u8>);

/// The sinks that get a line.
type Feeds = Arc<[Feed]>;

enum Message {
    Line(Line, Feeds),
    /// The end: no more lines come.
    End,
}

/// All sinks of an agent.
#[derive(Debug)]
pub struct Sinks {
    teller: Teller,
    number: AtomicU64,
    told: Arc<Told>,
    recent: Arc<Recent>,
    folder: PathBuf,
    feeds: Arc<Mutex<Feeds>>,
    /// The queue; empty until there are sinks.
    queue: OnceLock<SyncSender<Message>>,
    threads: Mutex<Threads>,
}

#[derive(Debug, Default)]
struct Threads {
    /// Puts lines into the spools.
    spools: Option<JoinHandle<()>>,
    /// The threads of sinks, and of sinks that were, until they have ended.
    senders: Vec<Sender>,
}

/// The thread that empties an outbox.
#[derive(Debug)]
struct Sender {
    outbox: Arc<Outbox>,
    thread: JoinHandle<()>,
}

/// Sinks that can be put in force. If they are not, nothing has changed.
#[derive(Debug, Default)]
pub struct Ready {
    feeds: Vec<Feed>,
    /// New threads, which wait for a word.
    senders: Vec<Sender>,
    begin: Vec<mpsc::Sender<()>>,
}

impl Sinks {
    /// Takes up what an agent before this one has left in its folder.
    pub fn start(sinks: &[Sink], state_dir: &Path, instance: &str) -> Result<Self> {
        let teller = Teller {
            host: Sysctl::default().host_name(),
            instance: instance.to_owned(),
            run: format!("{:016x}", (chance() * u64::MAX as f64) as u64),
        };
        let none = Self {
            teller,
            number: AtomicU64::new(0),
            told: Arc::default(),
            recent: Arc::default(),
            folder: state_dir.join(format!("events-{instance}")),
            feeds: Arc::new(Mutex::new(Feeds::from([]))),
            queue: OnceLock::new(),
            threads: Mutex::default(),
        };
        none.put_in_force(none.prepare(sinks)?);
        Ok(none)
    }

    /// Makes sinks ready, and takes up what was left of them. One that has the name of one
    /// that there is, or that was and still sends, goes on with what waits for that.
    pub fn prepare(&self, sinks: &[Sink]) -> Result<Ready> {
        let mut ready = Ready::default();
        let mut threads = locked(&self.threads);
        if !sinks.is_empty() {
            own_folder::guard(&self.folder)?;
            self.start_queue(&mut threads)?;
        }
        for sink in sinks {
            let of_name = threads.senders.iter().filter(|sender| sender.outbox.name == sink.name);
            if let Some(feed) = of_name.into_iter().find_map(|it| Feed::of(&it.outbox, sink)) {
                ready.feeds.push(feed);
                continue;
            }
            let outbox = Arc::new(Outbox::open(sink, self.folder.join(&sink.name)));
            ready.feeds.extend(Feed::of(&outbox, sink));
            let (begin, begun) = mpsc::channel();
            let (emptied, kind) = (Arc::clone(&outbox), sink.kind.clone());
            let run = move || {
                if begun.recv().is_ok() {
                    sender::run(&emptied, kind);
                }
            };
            ready.senders.push(Sender { outbox, thread: spawn("sink", run)? });
            ready.begin.push(begin);
        }
        Ok(ready)
    }

    /// Has these sinks be told from now on, and no others. What was told before goes to those
    /// before.
    pub fn put_in_force(&self, ready: Ready) {
        let Ready { feeds, senders, begin } = ready;
        let feeds = Feeds::from(feeds);
        feeds.iter().for_each(Feed::put_in_force);
        let before = std::mem::replace(&mut *locked(&self.feeds), Arc::clone(&feeds));
        for begin in begin {
            // It waits for it.
            let _ = begin.send(());
        }
        let mut threads = locked(&self.threads);
        threads.senders.retain(|sender| !sender.thread.is_finished());
        threads.senders.extend(senders);
        drop(threads);
        let has_gone = |old: &&Feed| feeds.iter().all(|feed| feed.sink.name != old.sink.name);
        for Feed { sink, outbox } in before.iter().filter(has_gone) {
            let bytes = outbox.counts.spooled_bytes.load(Ordering::Relaxed);
            if bytes > 0 {
                let (sink, folder) = (sink.name.as_str(), self.folder.join(&sink.name));
                let folder = folder.display();
                warn!(
                    sink,
                    bytes, "is no sink any more: what it does not take now stays in {folder}"
                );
            }
        }
    }

    fn start_queue(&self, threads: &mut Threads) -> Result<()> {
        if threads.spools.is_none() {
            let (lines, told) = mpsc::sync_channel(ROOM);
            threads.spools = Some(spawn("spools", move || spool_on(&told))?);
            // Nobody else starts one: they are locked.
            let _ = self.queue.set(lines);
        }
        Ok(())
    }

    fn feeds(&self) -> Feeds {
        Arc::clone(&locked(&self.feeds))
    }

    /// Returns the events of the last hour.
    pub const fn recent(&self) -> &Arc<Recent> {
        &self.recent
    }

    /// Whether nobody is told anything.
    pub fn is_empty(&self) -> bool {
        locked(&self.feeds).is_empty() && !self.recent.is_on()
    }

    /// Whether anybody is told of this event.
    pub fn want(&self, event: EventName) -> bool {
        self.recent.is_on() || locked(&self.feeds).iter().any(|feed| feed.takes(event))
    }

    /// Tells it to all sinks that take it, without waiting for any.
    pub fn tell<V: Serialize>(&self, record: &Record<'_, V>) {
        let event = record.event;
        self.recent.tell(record);
        let feeds = self.feeds();
        if !feeds.iter().any(|feed| feed.takes(event)) {
            return;
        }
        let Some(queue) = self.queue.get() else { return };
        self.told.count(event);
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        // Values are objects whose keys are texts: they always are JSON.
        let Ok(line) = record.line(&self.teller, number) else { return };
        if queue.try_send(Message::Line((event, line), Arc::clone(&feeds))).is_err() {
            for feed in feeds.iter().filter(|feed| feed.takes(event)) {
                feed.outbox.lost(Reason::Queue, 1);
            }
        }
    }

    /// Returns the board, for those who answer questions.
    pub fn board(&self) -> Board {
        Board { told: Arc::clone(&self.told), feeds: Arc::clone(&self.feeds) }
    }

    /// Waits a moment for what is not told yet. What is left is told by the next agent.
    pub fn finish(&self) {
        let Some(queue) = self.queue.get() else { return };
        let until = Instant::now() + GRACE;
        let wait_for = |done: &dyn Fn() -> bool| {
            while !done() && Instant::now() < until {
                thread::sleep(Duration::from_millis(1));
            }
        };
        let threads = locked(&self.threads);
        // Then the spools have all of it.
        wait_for(&|| !matches!(queue.try_send(Message::End), Err(TrySendError::Full(_))));
        wait_for(&|| threads.spools.as_ref().is_none_or(JoinHandle::is_finished));
        threads.senders.iter().for_each(|sender| sender.outbox.finish());
        wait_for(&|| threads.senders.iter().all(|sender| sender.thread.is_finished()));
        let left = |sender: &Sender| sender.outbox.counts.spooled_bytes.load(Ordering::Relaxed);
        if threads.senders.iter().map(left).sum::<u64>() > 0 {
            warn!("not all events are told: the next agent goes on with them");
        }
    }
}

/// Tells how the sinks get on.
#[derive(Clone, Debug)]
pub struct Board {
    told: Arc<Told>,
    feeds: Arc<Mutex<Feeds>>,
}

impl Board {
    /// Adds to readings what was told, and what became of it.
    pub fn read(&self, readings: &mut Readings) {
        let feeds = Arc::clone(&locked(&self.feeds));
        readings.events = self.told.read();
        readings.sinks = feeds.iter().map(|feed| feed.outbox.counts.read(&feed.sink)).collect();
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.context("cannot start a thread for the sinks of events")
}

/// Puts what is told into the spools, until nothing can come any more.
fn spool_on(told: &Receiver<Message>) {
    let mut is_over = false;
    while !is_over && let Ok(first) = told.recv() {
        // By the sinks that there were when they were told.
        let mut batches: Vec<(Feeds, Vec<Line>)> = Vec::new();
        for message in [first].into_iter().chain(told.try_iter().take(LINES_AT_ONCE - 1)) {
            match message {
                Message::Line(line, feeds) => match batches.last_mut() {
                    Some((of, lines)) if Arc::ptr_eq(of, &feeds) => lines.push(line),
                    _ => batches.push((feeds, vec![line])),
                },
                Message::End => is_over = true,
            }
        }
        for (feeds, lines) in &batches {
            for feed in feeds.iter() {
                let taken = lines.iter().filter(|(event, _)| feed.takes(*event));
                feed.outbox.append(taken.map(|(_, line)| line.clone()));
            }
        }
    }
}
