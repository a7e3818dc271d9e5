//! The emulated path at work: a thread per direction takes packets from one
//! device, applies the laws to each segment, and delivers to the other device
//! what arrives. Times in nanoseconds since the emulator's start.

use std::{
    io::{self, IoSlice},
    os::fd::AsFd,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use nix::{
    poll::{PollFd, PollFlags, ppoll},
    sys::time::TimeSpec,
};
use serde::{Deserialize, Serialize};

use super::{
    burst::Burst,
    delay_line::{DelayLaw, DelayLine},
    flights::{Flights, Part, Record},
    link::{Link, LinkLaw},
    losses::{Fate, LossLaw, Losses, Passing},
    packet::{Packet, Segment},
    policer::{Policer, PolicerLaw},
    tun::{FRAME_BYTES, QUEUE_PACKETS, Tun},
};
use crate::monotonic_ns;
use crate::mutex::locked;

/// A thread looks after its devices at least so often.
const TICK_NS: u64 = 1_000_000;
/// A thread that wakes so much later than it meant to was away.
const LATE_NS: u64 = 100_000;
/// A thread that was away for so long has stalled.
const STALL_NS: u64 = 5_000_000;
/// Packets taken in before deliveries are looked after again; after the thread
/// was away, all that there may be.
const READS_PER_PASS: usize = 64;

/// Holds what one direction does to packets.
#[derive(Clone, Debug)]
pub struct DirectionLaw {
    pub link: LinkLaw,
    /// It stands before the link.
    pub policer: Option<PolicerLaw>,
    pub losses: LossLaw,
    pub delay: DelayLaw,
    /// Packets that arrive within this time are delivered together.
    pub moderation_ns: u64,
    pub seed: u64,
}

/// Holds what one direction has done. Segments, unless named otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    pub arrived: u64,
    pub delivered: u64,
    pub delivered_bytes: u64,
    /// Packets, of one or more segments, handed to the receiver's kernel.
    pub deliveries: u64,
    pub queue_drops: u64,
    #[serde(default)]
    pub policer_drops: u64,
    pub random_drops: u64,
    pub planned_drops: u64,
    pub marks: u64,
    pub held_back: u64,
    /// The most bytes that ever waited at the bottleneck.
    pub peak_queue_bytes: u64,
    /// The times that the thread itself stalled, and its longest absence.
    pub stalls: u64,
    pub longest_gap_ns: u64,
    /// Queue drops of packets that came while the thread was away, a tick or more before they
    /// were read.
    pub stall_drops: u64,
    /// Packets lost by the emulator itself, as the receiver's kernel refused them.
    pub write_failures: u64,
    /// Packets lost by the sender's device, whose queue was full.
    pub device_drops: u64,
    /// The time of the first planned drop, CLOCK_MONOTONIC; 0 for never.
    pub first_planned_drop_ns: u64,
}

impl Counters {
    /// Losses that are no part of the experiment.
    #[must_use]
    pub const fn own_drops(&self) -> u64 {
        self.stall_drops + self.write_failures + self.device_drops
    }
}

/// Two running directions; stopped when dropped.
pub struct Emulator {
    stop: Arc<AtomicBool>,
    flights: Record,
    forward: Worker,
    reverse: Worker,
}

struct Worker {
    delay_ns: Arc<AtomicU64>,
    /// The link and its losses are to be so from now on.
    turns: Arc<Mutex<Option<(LinkLaw, f64)>>>,
    published: Arc<Published>,
    thread: Option<JoinHandle<()>>,
}

/// Moments of a direction are times on CLOCK_MONOTONIC, in order, one for each segment
/// that it dropped or marked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    /// The times when a segment was dropped as the queue was full.
    pub queue_drops_ns: Vec<u64>,
    /// The times when a segment was marked.
    pub marks_ns: Vec<u64>,
}

impl Moments {
    fn append(&mut self, later: &mut Self) {
        self.queue_drops_ns.append(&mut later.queue_drops_ns);
        self.marks_ns.append(&mut later.marks_ns);
    }
}

/// Holds what others may look at while a direction is at work.
#[derive(Default)]
struct Published {
    counters: Mutex<Counters>,
    moments: Mutex<Moments>,
}

impl Emulator {
    /// Starts carrying packets: `laws` are those of the direction from the first
    /// to the second device, and back.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(tuns: [Arc<Tun>; 2], laws: [DirectionLaw; 2]) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let [near, far] = tuns;
        let [forward, reverse] = laws;
        let flights = Record::default();
        let [data, acks] = [Part::Data(flights.clone()), Part::Acknowledgements(flights.clone())];
        let forward = Worker::start([&near, &far], forward, data, &stop)?;
        let reverse = Worker::start([&far, &near], reverse, acks, &stop);
        if reverse.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        Ok(Self { stop, flights, forward, reverse: reverse? })
    }

    /// Begins to keep a record of what is on its way.
    pub fn record_flights(&self) {
        self.flights.begin();
    }

    /// Returns the record of what is on its way so far; empty if none was asked for.
    #[must_use]
    pub fn flights(&self) -> Flights {
        self.flights.so_far()
    }

    /// Makes each way take so long from now on.
    pub fn set_delay_ns(&self, delay_ns: u64) {
        for worker in [&self.forward, &self.reverse] {
            worker.delay_ns.store(delay_ns, Ordering::Relaxed);
        }
    }

    /// Has the first direction's link, and the probability of a loss, be as in a law from now on.
    pub fn turn(&self, forward: &DirectionLaw) {
        *locked(&self.forward.turns) = Some((forward.link, forward.losses.probability));
    }

    /// Returns what was done so far, there and back.
    #[must_use]
    pub fn counters(&self) -> [Counters; 2] {
        [&self.forward, &self.reverse].map(|worker| *locked(&worker.published.counters))
    }

    /// Returns what was done on the way there so far, and when.
    #[must_use]
    pub fn moments(&self) -> Moments {
        locked(&self.forward.published.moments).clone()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for worker in [&mut self.forward, &mut self.reverse] {
            // A panic has been printed; there is nothing to undo here.
            let _ = worker.thread.take().map(JoinHandle::join);
        }
    }
}

impl Worker {
    fn start(
        [from, to]: [&Arc<Tun>; 2],
        law: DirectionLaw,
        part: Part,
        stop: &Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let delay_ns = Arc::new(AtomicU64::new(law.delay.delay_ns));
        let published = Arc::new(Published::default());
        let (from, to) = (Arc::clone(from), Arc::clone(to));
        let (stop, publish) = (Arc::clone(stop), Arc::clone(&published));
        let turns = Arc::default();
        let (delay, turned) = (Arc::clone(&delay_ns), Arc::clone(&turns));
        let run = move || {
            Direction::new([&from, &to], law, part).run(&stop, (&delay, &turned), &publish);
        };
        let thread = thread::Builder::new().name("wan".to_owned()).spawn(run)?;
        Ok(Self { delay_ns, turns, published, thread: Some(thread) })
    }
}

struct Direction<'a> {
    from: &'a Tun,
    to: &'a Tun,
    part: Part,
    epoch_ns: u64,
    losses: Losses,
    policer: Option<Policer>,
    link: Link,
    line: DelayLine<Segment>,
    moderation_ns: u64,
    burst: Burst,
    frame: Box<[u8; FRAME_BYTES]>,
    /// Read in this pass, and when; here only to keep its memory.
    arrivals: Vec<(u64, Packet)>,
    counters: Counters,
    /// The moments that are not published yet.
    moments: Moments,
}

impl<'a> Direction<'a> {
    fn new([from, to]: [&'a Tun; 2], law: DirectionLaw, part: Part) -> Self {
        Self {
            from,
            to,
            part,
            epoch_ns: monotonic_ns(),
            losses: Losses::new(law.losses, law.seed),
            policer: law.policer.map(Policer::new),
            link: Link::new(law.link),
            line: DelayLine::new(law.delay, !law.seed),
            moderation_ns: law.moderation_ns,
            burst: Burst::default(),
            frame: Box::new([0; FRAME_BYTES]),
            arrivals: Vec::new(),
            counters: Counters::default(),
            moments: Moments::default(),
        }
    }

    fn run(
        mut self,
        stop: &AtomicBool,
        (delay_ns, turns): (&AtomicU64, &Mutex<Option<(LinkLaw, f64)>>),
        published: &Published,
    ) {
        go_first();
        while !stop.load(Ordering::Relaxed) {
            let away_ns = self.wait();
            self.counters.stalls += u64::from(away_ns > STALL_NS);
            self.counters.longest_gap_ns = self.counters.longest_gap_ns.max(away_ns);
            self.line.set_delay_ns(delay_ns.load(Ordering::Relaxed));
            if let Some((link, probability)) = locked(turns).take() {
                self.link.set(link);
                self.losses.set_probability(probability);
            }
            self.take_in(away_ns);
            self.deliver();
            *locked(&published.counters) = self.counters;
            locked(&published.moments).append(&mut self.moments);
        }
    }

    fn now_ns(&self) -> u64 {
        monotonic_ns() - self.epoch_ns
    }

    /// Waits until a packet comes or a delivery is due; returns how much later it is by then.
    fn wait(&self) -> u64 {
        let now_ns = self.now_ns();
        let due_ns = self.line.next_due_ns().unwrap_or(u64::MAX);
        let wait_ns = due_ns.saturating_add(self.moderation_ns).saturating_sub(now_ns).min(TICK_NS);
        let timeout = TimeSpec::from_duration(Duration::from_nanos(wait_ns));
        let mut poll = [PollFd::new(self.from.as_fd(), PollFlags::POLLIN)];
        // An error (a signal) only makes this pass come early.
        let _ = ppoll(&mut poll, Some(timeout), None);
        self.now_ns().saturating_sub(now_ns + wait_ns)
    }

    fn take_in(&mut self, away_ns: u64) {
        let now_ns = self.now_ns();
        let most = if away_ns > LATE_NS { QUEUE_PACKETS } else { READS_PER_PASS };
        let mut arrivals = std::mem::take(&mut self.arrivals);
        while arrivals.len() < most {
            // A device that is down has no packets.
            let Ok(Some(length)) = self.from.read(&mut self.frame) else { break };
            arrivals
                .extend(Packet::new(&self.frame[..length]).map(|packet| (self.now_ns(), packet)));
        }
        // They came one after the other while the thread was away. Taken for a
        // bunch they would fill queues that they have not filled.
        let count = arrivals.len() as u64;
        for (number, (read_ns, packet)) in (1..).zip(arrivals.drain(..)) {
            let came_ns = if away_ns > LATE_NS {
                now_ns - away_ns + away_ns * number / count
            } else {
                read_ns
            };
            packet.split().for_each(|segment| self.pass(came_ns, read_ns, segment));
        }
        self.arrivals = arrivals;
    }

    fn pass(&mut self, came_ns: u64, read_ns: u64, mut segment: Segment) {
        self.part.came(self.epoch_ns + read_ns, &segment);
        let counters = &mut self.counters;
        counters.arrived += 1;
        let passing =
            Passing { carries_data: segment.carries_data(), markable: segment.is_markable() };
        match self.losses.judge(came_ns, passing) {
            Some(Fate::LostAtRandom) => return counters.random_drops += 1,
            Some(Fate::LostByPlan) => {
                if counters.planned_drops == 0 {
                    counters.first_planned_drop_ns = self.epoch_ns + came_ns;
                }
                return counters.planned_drops += 1;
            }
            Some(Fate::Marked) => {
                self.moments.marks_ns.push(self.epoch_ns + came_ns);
                counters.marks += 1;
                segment.mark();
            }
            None => {}
        }
        let bytes = segment.wire_bytes();
        if self.policer.as_mut().is_some_and(|policer| !policer.passes(came_ns, bytes)) {
            return counters.policer_drops += 1;
        }
        let Some(leaves_ns) = self.link.offer(came_ns, read_ns, bytes) else {
            counters.queue_drops += 1;
            self.moments.queue_drops_ns.push(self.epoch_ns + came_ns);
            return counters.stall_drops += u64::from(read_ns - came_ns > TICK_NS);
        };
        let backlog_bytes = self.link.backlog_bytes(came_ns);
        counters.peak_queue_bytes = counters.peak_queue_bytes.max(backlog_bytes);
        self.line.push(leaves_ns, segment);
        counters.held_back = self.line.held_back();
    }

    fn deliver(&mut self) {
        let now_ns = self.now_ns();
        while let Some(segment) = self.line.pop(now_ns) {
            self.part.goes(self.epoch_ns + now_ns, &segment);
            if !self.burst.push(&segment) {
                self.flush();
                self.burst.push(&segment);
            }
            self.counters.delivered += 1;
            self.counters.delivered_bytes += u64::from(segment.wire_bytes());
        }
        self.flush();
    }

    fn flush(&mut self) {
        if self.burst.is_empty() {
            return;
        }
        let segments = u64::from(self.burst.segments());
        let parts: Vec<IoSlice<'_>> = self.burst.seal().map(IoSlice::new).collect();
        if self.to.write(&parts).is_err() {
            self.counters.write_failures += segments;
        }
        self.counters.deliveries += 1;
        self.burst.clear();
    }
}

/// Runs this thread before the senders and receivers on the same cores, which
/// would otherwise hold up the path that they use.
fn go_first() {
    // The kernel's `struct sched_param`. Its own call, as musl's
    // `sched_setscheduler()` always fails: POSIX has it set a process, not a thread.
    let priority: libc::c_int = 1;
    // SAFETY: a system call on this thread with a valid, short-lived argument.
    if unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const priority)
    } != 0
    {
        let error = io::Error::last_os_error();
        crate::say(&format!("the emulated path runs without real-time priority: {error}"));
    }
}
