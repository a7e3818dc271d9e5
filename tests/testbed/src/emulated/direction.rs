//! One direction of the emulated path: it takes packets from one device, applies the laws to
//! each segment, and delivers to the other device what arrives. Times in nanoseconds since the
//! direction's start, unless they are said to be on CLOCK_MONOTONIC.

use std::{io::IoSlice, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    burst::Burst,
    delay_line::{DelayLaw, DelayLine},
    flights::Part,
    link::{Link, LinkLaw},
    losses::{Fate, LossLaw, Losses, Passing},
    packet::{Packet, Segment},
    policer::{Policer, PolicerLaw},
    tun::{FRAME_BYTES, QUEUE_PACKETS, Tun},
};
use crate::monotonic_ns;

/// It is looked after at least so often.
const TICK_NS: u64 = 1_000_000;
/// A look that comes so much later than it was to came late.
const LATE_NS: u64 = 100_000;
/// One that comes so late is of a stall.
const STALL_NS: u64 = 5_000_000;
/// Packets taken in before deliveries are looked after again; after a late look, all that there
/// may be.
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
    /// The times that nobody looked for long, and the longest.
    pub stalls: u64,
    pub longest_gap_ns: u64,
    /// Queue drops of packets that came a tick or more before somebody looked.
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

/// Moments of a direction are times on CLOCK_MONOTONIC, in order, one for each segment
/// that it dropped or marked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    /// The times when a segment was dropped as the queue was full.
    pub queue_drops_ns: Vec<u64>,
    /// The times when a segment was marked.
    pub marks_ns: Vec<u64>,
}

/// A direction at work.
pub struct Direction {
    from: Arc<Tun>,
    to: Arc<Tun>,
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
    /// The next look is to come by then.
    look_ns: u64,
    counters: Counters,
    moments: Moments,
}

impl Direction {
    #[must_use]
    pub fn new([from, to]: [Arc<Tun>; 2], law: DirectionLaw, part: Part) -> Self {
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
            look_ns: TICK_NS,
            counters: Counters::default(),
            moments: Moments::default(),
        }
    }

    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    #[must_use]
    pub const fn moments(&self) -> &Moments {
        &self.moments
    }

    /// Makes the way take so long from now on.
    pub const fn set_delay_ns(&mut self, delay_ns: u64) {
        self.line.set_delay_ns(delay_ns);
    }

    /// Has the link, and the probability of a loss, be as in a law from now on.
    pub const fn turn(&mut self, law: &DirectionLaw) {
        self.link.set(law.link);
        self.losses.set_probability(law.losses.probability);
    }

    /// Looks after the devices; returns by when that is to be done again, on CLOCK_MONOTONIC.
    pub fn look(&mut self) -> u64 {
        let away_ns = self.now_ns().saturating_sub(self.look_ns);
        self.counters.stalls += u64::from(away_ns > STALL_NS);
        self.counters.longest_gap_ns = self.counters.longest_gap_ns.max(away_ns);
        self.take_in(away_ns);
        self.deliver();
        let due_ns = self.line.next_due_ns().unwrap_or(u64::MAX);
        let due_ns = due_ns.saturating_add(self.moderation_ns);
        self.look_ns = due_ns.min(self.now_ns() + TICK_NS);
        self.epoch_ns + self.look_ns
    }

    fn now_ns(&self) -> u64 {
        monotonic_ns() - self.epoch_ns
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
        // They came one after the other while nobody looked. Taken for a
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
