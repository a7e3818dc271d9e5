//! The emulated path at work: two threads for each direction, on processors of their own.

use std::{
    io,
    os::fd::AsFd,
    process,
    sync::{
        Arc, Mutex, TryLockError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use nix::{
    poll::{PollFd, PollFlags, ppoll},
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    sys::time::TimeSpec,
    unistd::Pid,
};

use super::{
    direction::{Counters, Direction, DirectionLaw, Moments},
    flights::{Flights, Part, Record},
    tun::Tun,
};
use crate::{monotonic_ns, mutex::locked};

/// So late a look is somebody else's to take.
const GRACE_NS: u64 = 150_000;
/// Paths that this process has started.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// Two running directions; stopped when dropped.
pub struct Emulator {
    stop: Arc<AtomicBool>,
    flights: Record,
    directions: [Arc<Attended>; 2],
    threads: Vec<JoinHandle<()>>,
}

/// A direction, and those who look after it.
struct Attended {
    from: Arc<Tun>,
    direction: Mutex<Direction>,
    /// The next look is to come by then, on CLOCK_MONOTONIC.
    look_ns: AtomicU64,
}

impl Emulator {
    /// Starts carrying packets: `laws` are those of the direction from the first
    /// to the second device, and back.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start([near, far]: [Arc<Tun>; 2], laws: [DirectionLaw; 2]) -> io::Result<Self> {
        let [forward, reverse] = laws;
        let flights = Record::default();
        let [data, acks] = [Part::Data(flights.clone()), Part::Acknowledgements(flights.clone())];
        let directions = [
            Attended::new([&near, &far], forward, data),
            Attended::new([&far, &near], reverse, acks),
        ];
        // Stops those that were started, if one cannot be.
        let mut emulator = Self { stop: Arc::default(), flights, directions, threads: Vec::new() };
        emulator.start_threads()?;
        Ok(emulator)
    }

    /// A hypervisor that takes a processor away, or a system call that the kernel does not
    /// leave for a while, would stop a direction for a millisecond or two, a few times a second
    /// on some machines; ACKs that come late by that, and all at once, make their sender
    /// overflow a queue that a path without such holes would not. It happens to one processor at
    /// a time, so another one takes over between two looks.
    fn start_threads(&mut self) -> io::Result<()> {
        let processors = processors()?;
        // Other paths begin with others.
        let first = process::id() as usize + STARTED.fetch_add(1, Ordering::Relaxed);
        for (number, attended) in self.directions.iter().enumerate() {
            let mut start = |processor: usize, attend: fn(&Attended, &AtomicBool)| {
                let (attended, stop) = (Arc::clone(attended), Arc::clone(&self.stop));
                let run = move || {
                    go_first(processor);
                    attend(&attended, &stop);
                };
                self.threads.push(thread::Builder::new().name("wan".to_owned()).spawn(run)?);
                Ok::<_, io::Error>(())
            };
            start(processors[(first + number) % processors.len()], Attended::wait_and_look)?;
            if processors.len() > 1 {
                start(processors[(first + number + 1) % processors.len()], Attended::stand_in)?;
            }
        }
        Ok(())
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
        for attended in &self.directions {
            locked(&attended.direction).set_delay_ns(delay_ns);
        }
    }

    /// Has the first direction's link, and the probability of a loss, be as in a law from now on.
    pub fn turn(&self, forward: &DirectionLaw) {
        locked(&self.directions[0].direction).turn(forward);
    }

    /// Returns what was done so far, there and back.
    #[must_use]
    pub fn counters(&self) -> [Counters; 2] {
        self.directions.each_ref().map(|attended| locked(&attended.direction).counters())
    }

    /// Returns what was done on the way there so far, and when.
    #[must_use]
    pub fn moments(&self) -> Moments {
        locked(&self.directions[0].direction).moments().clone()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic has been printed; there is nothing to undo here.
            let _ = thread.join();
        }
    }
}

impl Attended {
    fn new(tuns: [&Arc<Tun>; 2], law: DirectionLaw, part: Part) -> Arc<Self> {
        let from = Arc::clone(tuns[0]);
        let direction = Mutex::new(Direction::new(tuns.map(Arc::clone), law, part));
        Arc::new(Self { from, direction, look_ns: AtomicU64::new(0) })
    }

    fn look(&self, direction: &mut Direction) {
        self.look_ns.store(direction.look(), Ordering::Relaxed);
    }

    /// Looks when a packet comes or a delivery is due.
    fn wait_and_look(&self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let wait_ns = self.look_ns.load(Ordering::Relaxed).saturating_sub(monotonic_ns());
            let timeout = TimeSpec::from_duration(Duration::from_nanos(wait_ns));
            let mut poll = [PollFd::new(self.from.as_fd(), PollFlags::POLLIN)];
            // An error (a signal) only makes this look come early.
            let _ = ppoll(&mut poll, Some(timeout), None);
            self.look(&mut locked(&self.direction));
        }
    }

    /// Returns when the next look is somebody else's, on CLOCK_MONOTONIC.
    fn overdue_ns(&self) -> u64 {
        self.look_ns.load(Ordering::Relaxed) + GRACE_NS
    }

    /// Looks when nobody else did in time.
    fn stand_in(&self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let wait_ns = self.overdue_ns().saturating_sub(monotonic_ns());
            if wait_ns > 0 {
                thread::sleep(Duration::from_nanos(wait_ns));
                continue;
            }
            match self.direction.try_lock() {
                // Somebody has looked meanwhile.
                Ok(_) if self.overdue_ns() > monotonic_ns() => {}
                Ok(mut direction) => self.look(&mut direction),
                // Somebody looks.
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_nanos(GRACE_NS)),
                Err(TryLockError::Poisoned(_)) => return,
            }
        }
    }
}

/// Returns the processors that this process may run on.
fn processors() -> io::Result<Vec<usize>> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    Ok((0..CpuSet::count()).filter(|at| allowed.is_set(*at).unwrap_or(false)).collect())
}

/// Runs this thread on a processor, before the senders and receivers there, which
/// would otherwise hold up the path that they use.
fn go_first(processor: usize) {
    let mut only = CpuSet::new();
    if let Err(error) =
        only.set(processor).and_then(|()| sched_setaffinity(Pid::from_raw(0), &only))
    {
        crate::say(&format!("the emulated path runs on any processor: {error}"));
    }
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
