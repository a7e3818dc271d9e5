//! Looks at what flows hold of memory, and lets buffers grow as far as there is any.

mod pace;
mod parts;
mod warnings;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::Result;
use tokio::time::Instant;
use tracing::warn;
use wad_common::{
    growth::{CHANGES_STILL, Holder, Holding, Room, STARTS, WANTS_VISIT},
    memory::{Level, Look, MemoryWatch},
};
use wad_linux::sockstat;
use wad_observing::metrics::Memory;
use wad_toolbox::{amounts::Bytes, mutex::locked, seldom::Seldom, shortage};
use wad_tuning::bpf::{Bounds, Tuning};

pub use self::pace::processor_time;
use self::{
    pace::{Pace, Seen},
    parts::Parts,
    warnings::{Warning, Warnings},
};

/// Holds what is known of the memory of flows.
pub struct Buffers {
    limit_bytes: u64,
    begun: Instant,
    looked: Instant,
    watch: MemoryWatch,
    parts: Parts,
    /// The kernel side has these bounds. None where it is not known, as after an agent
    /// before this one.
    in_force: Option<Bounds>,
    pace: Pace,
    /// Flows that had come to paths whose flows are looked at.
    counted: u64,
    /// The time of the next look.
    pub next_look: Instant,
    /// The latest visit to flows took this time of a processor, which counts with the
    /// next look's.
    pub visits_took: Duration,
    /// When it was said last that the bound is met.
    warnings: Warnings,
    /// When it was said last that buffers cannot be had otherwise.
    failed: Seldom,
    met: Met,
    /// Whoever asks is told this.
    pub told: Arc<Mutex<Memory>>,
}

/// The time for which the bound was met.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    near: Duration,
    over: Duration,
}

impl Buffers {
    pub fn new() -> Self {
        let now = Instant::now();
        Self {
            limit_bytes: u64::MAX,
            begun: now,
            looked: now,
            watch: MemoryWatch::default(),
            parts: Parts::default(),
            in_force: None,
            pace: Pace::default(),
            counted: 0,
            next_look: now,
            visits_took: Duration::ZERO,
            warnings: Warnings::default(),
            failed: Seldom::new(),
            met: Met::default(),
            told: Arc::default(),
        }
    }

    /// Bounds from now on what is held.
    pub fn bound(&mut self, limit_bytes: u64) {
        self.limit_bytes = limit_bytes;
        self.next_look = Instant::now();
        locked(&self.told).limit_bytes = limit_bytes;
    }

    /// Flows have been visited: it is looked soon what there is to be done for them still.
    pub fn look_soon(&mut self) {
        self.next_look = self.next_look.min(Instant::now() + pace::LIVELY);
    }

    /// Whether flows have come that are to be looked at, with so many counted by now.
    pub const fn have_come(&mut self, counted: u64) -> bool {
        let have_come = counted != self.counted;
        self.counted = counted;
        have_come
    }

    /// Looks. Returns the network namespaces of flows that are to be visited, and the
    /// tuned flows, as they were seen. What fails is tried again at the next look.
    pub fn look(&mut self, tuning: &Tuning) -> (HashSet<u64>, Vec<Holding>) {
        let begun = processor_time();
        let (seen, namespaces, holdings) =
            self.try_look(tuning, Instant::now()).unwrap_or_else(|error| {
                self.failed(&error);
                (Seen::default(), HashSet::new(), Vec::new())
            });
        let took = processor_time().saturating_sub(begun) + std::mem::take(&mut self.visits_took);
        self.next_look = Instant::now() + self.pace.pause(seen, took);
        (namespaces, holdings)
    }

    /// Says that buffers cannot be had otherwise, but not at every look.
    pub fn failed(&mut self, error: &anyhow::Error) {
        shortage::note(error.as_ref());
        if self.failed.may_say() {
            warn!("buffers stay as they are: {error:#}");
        }
    }

    fn try_look(
        &mut self,
        tuning: &Tuning,
        now: Instant,
    ) -> Result<(Seen, HashSet<u64>, Vec<Holding>)> {
        let holdings = tuning.holdings()?;
        let mut look = Look {
            held_bytes: sockstat::tcp_held_bytes()?,
            wants_bytes: holdings.iter().map(|flow| u64::from(flow.wants_bytes)).sum(),
            limit_bytes: self.limit_bytes,
            largest_bytes: 0,
            now_ms: now.duration_since(self.begun).as_millis() as u64,
        };
        self.count(self.watch.level, now);
        let held = self.held(&look, &holdings);
        let is_cut = |flow: &&Holding| held.get(&flow.holder) == Some(&Room::Cut);
        let largest = holdings.iter().filter(is_cut).map(|flow| flow.largest_growing_bytes).max();
        look.largest_bytes = largest.unwrap_or(0);
        self.watch = self.watch.after(&look);
        let MemoryWatch { level, cap_bytes, .. } = self.watch;
        let bounds = Bounds { is_short: level > Level::Free, cap_bytes, held };
        let is_another = self.in_force.as_ref() != Some(&bounds);
        if is_another {
            tuning.bound_buffers(&bounds)?;
        }
        if bounds.is_short {
            self.say(&look, &holdings, &bounds.held, tuning);
        }
        self.in_force = Some(bounds);
        // What they want was found out under the bounds before.
        let holdings = if is_another { tuning.holdings()? } else { holdings };
        let wants = |flow: &&Holding| flow.flags & WANTS_VISIT != 0;
        let namespaces: HashSet<u64> =
            holdings.iter().filter(wants).map(|flow| flow.netns.into()).collect();
        let is_short = level > Level::Free || cap_bytes.is_some();
        let changes = holdings.iter().any(|flow| flow.flags & (CHANGES_STILL | STARTS) != 0);
        let seen = Seen { is_lively: is_short || changes, had_visits: !namespaces.is_empty() };
        Ok((seen, namespaces, holdings))
    }

    /// Adds the time since the last look to where it belongs.
    fn count(&mut self, level: Level, now: Instant) {
        let passed = now.duration_since(self.looked);
        self.looked = now;
        if level >= Level::Near {
            self.met.near += passed;
        }
        if level >= Level::Over {
            self.met.over += passed;
        }
        let mut told = locked(&self.told);
        told.near_limit = self.met.near;
        told.over_limit = self.met.over;
    }

    /// Returns those who have their part of memory, where that is short.
    fn held(&mut self, look: &Look, holdings: &[Holding]) -> HashMap<Holder, Room> {
        let is_short = self.watch.level.next(look) > Level::Free;
        if !is_short && self.watch.cap_bytes.is_none() {
            self.parts.forget();
            return HashMap::new();
        }
        let tuned_bytes = holdings.iter().map(Holding::holds_bytes).sum();
        self.parts.held(look.room_bytes(tuned_bytes), holdings, is_short)
    }

    /// Says that the bound is met, and of each path that has its part what it holds.
    fn say(
        &mut self,
        look: &Look,
        holdings: &[Holding],
        held: &HashMap<Holder, Room>,
        tuning: &Tuning,
    ) {
        let level = self.watch.level;
        let due = self.warnings.due(level, holdings, held, std::time::Instant::now());
        let names = tuning.names_of(&due.iter().filter_map(|path| path.policy).collect());
        for path in due {
            let what = match path {
                Warning { policy: None, .. } => "no path has its part of it",
                Warning { shrinks: true, .. } => "the largest buffers of this path shrink",
                _ => "buffers of this path grow no more",
            };
            warn!(
                path = path.policy.and_then(|policy| names.get(&policy)).map(|name| &**name),
                path_holds = %Bytes(path.holds_bytes),
                path_wants = %Bytes(path.wants_bytes),
                held = %Bytes(look.held_bytes),
                max_memory = %Bytes(look.limit_bytes),
                "TCP holds, or soon would, about what [limits] max_memory allows: {what}"
            );
        }
    }
}
