//! A path does more to packets than carry them, as its own flows show: it reorders them, so
//! far in segments, and may lose them without a queue.
//!
//! Only the flows know either. A monitor gives reordering as a part of the packets, from
//! which no distance follows, and the losses of its probes without the queue that they
//! met. The kernel has the distance of each flow (`tcp_check_sack_reordering()`,
//! net/ipv4/tcp_input.c), what was sent again, and the RTT.
//!
//! Nothing follows from a single look, and what has followed holds until it would have
//! been seen again several times, and was not.

use std::time::Duration;

use wad_toolbox::clock::Moment;

use super::trust::Expected;
use crate::config::route_rules::MAX_REORDER_SEGMENTS;

/// Segments that may arrive early before a flow of the kernel's takes the one before them
/// for lost (RFC 5681; `net.ipv4.tcp_reordering`).
const KERNELS_SEGMENTS: u32 = 3;

/// Looks in a row at losses without a queue, before the path is taken for leaky. Between
/// two losses by congestion a short queue may be empty for a third of the time: then it
/// looks so at five moments in a row once in 200 times.
const LEAKY_LOOKS: u32 = 4;
/// Fewer losses hardly hold back CUBIC at 100 ms, below 120 Mbit/s; more are answered as
/// by CUBIC under `loss = "leaky"`, too.
const LEAST_LOSS: f64 = 1e-5;
const MOST_LOSS: f64 = 1e-2;

/// A trait is over after so many looks that have not seen it, in which it was to be expected
/// so often.
const LOOKS_WITHOUT: u32 = 10;
const EXPECTED_WITHOUT: f64 = 10.0;

/// The part of the base RTT that is a queue, with its bounds: those at which a flow under
/// `loss = "leaky"` takes losses for congestion.
const QUEUE_SHIFT: u32 = 4;
const LEAST_QUEUE_US: u32 = 2_000;
const MOST_QUEUE_US: u32 = 8_000;

/// Holds what the kernel has counted of a flow up to a moment, and its RTT then. The counts
/// wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    pub sent_segments: u32,
    pub resent_segments: u32,
    /// Segments that the peer got twice: they were not lost.
    pub duplicate_segments: u32,
    /// Segments that were marked "congestion experienced".
    pub marked_segments: u32,
    /// The smoothed RTT; 0 for none.
    pub rtt_us: u32,
    /// The least RTT of the kernel's window of minutes; 0 for none.
    pub min_rtt_us: u32,
    /// How often reordering was seen, and how far it went.
    pub reorderings: u32,
    pub reordering_segments: u32,
}

impl FlowCounts {
    /// Whether there was a queue. `base_us` is the path's own RTT, where it is known.
    fn is_queued(&self, base_us: u32) -> bool {
        let base_us = self.min_rtt_us.min(base_us);
        let queue_us = (base_us >> QUEUE_SHIFT).clamp(LEAST_QUEUE_US, MOST_QUEUE_US);
        base_us == 0 || self.rtt_us == 0 || self.rtt_us.saturating_sub(base_us) >= queue_us
    }
}

/// Holds what the flows of a path have shown between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Look {
    sent_segments: u64,
    lost_segments: u64,
    /// Flows with losses had a queue at the look before, or have one now.
    was_queued: bool,
    is_queued: bool,
    reorderings: u64,
    /// How far it went: the median of the flows that have seen reordering.
    reordering_segments: Option<u32>,
}

impl Look {
    /// Takes what was counted of each flow, at the look before and now.
    pub fn new(flows: &[(FlowCounts, FlowCounts)], rtt_seconds: Option<f64>) -> Self {
        // Saturates; what is no number is 0, and then nothing is without a queue.
        let base_us = rtt_seconds.map_or(u32::MAX, |seconds| (seconds * 1e6) as u32);
        let mut look = Self::default();
        let mut distances = Vec::new();
        for (before, now) in flows {
            let since = |count: fn(&FlowCounts) -> u32| count(now).wrapping_sub(count(before));
            let resent = since(|flow| flow.resent_segments);
            let lost = resent.saturating_sub(since(|flow| flow.duplicate_segments));
            look.sent_segments += u64::from(since(|flow| flow.sent_segments));
            look.lost_segments += u64::from(lost);
            if lost > 0 {
                let is_marked = since(|flow| flow.marked_segments) > 0;
                look.was_queued |= before.is_queued(base_us);
                look.is_queued |= is_marked || now.is_queued(base_us);
            }
            let reorderings = since(|flow| flow.reorderings);
            if reorderings > 0 {
                look.reorderings += u64::from(reorderings);
                distances.push(now.reordering_segments);
            }
        }
        distances.sort_unstable();
        look.reordering_segments = distances.get(distances.len().saturating_sub(1) / 2).copied();
        look
    }

    /// Whether there were losses, and no queue to explain them.
    fn is_leak(&self) -> bool {
        (LEAST_LOSS..=MOST_LOSS).contains(&self.part(self.lost_segments)) && !self.is_queued
    }

    fn part(&self, segments: u64) -> f64 {
        segments as f64 / self.sent_segments.max(1) as f64
    }
}

/// Holds how often something is seen on a path, and what came since it was seen last.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    /// Parts of the segments that were sent.
    part: f64,
    at: Moment,
    looks_without: u32,
    sent_without: u64,
}

impl Seen {
    const fn new(part: f64, at: Moment) -> Self {
        Self { part, at, looks_without: 0, sent_without: 0 }
    }

    /// Takes in a look that does not show it. One at which nothing was sent says nothing.
    fn pass(&mut self, look: &Look) {
        if look.sent_segments > 0 {
            self.looks_without = self.looks_without.saturating_add(1);
            self.sent_without = self.sent_without.saturating_add(look.sent_segments);
        }
    }

    fn is_over(&self) -> bool {
        self.looks_without >= LOOKS_WITHOUT
            && self.sent_without as f64 * self.part >= EXPECTED_WITHOUT
    }

    fn is_stale(&self, now: Moment, stale_after: Duration) -> bool {
        now.saturating_sub(self.at) > stale_after
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Losses {
    /// By congestion, for all that is known; so many looks in a row showed no queue, the
    /// last of them then.
    Congestion {
        looks: u32,
        at: Option<Moment>,
    },
    Leak(Seen),
}

/// A path's traits lead to this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// Packets that may arrive before one that was sent ahead of them; None for what the
    /// kernel allows by itself.
    pub reorder_segments: Option<u32>,
    /// Packets are lost without a queue.
    pub is_leaky: bool,
}

impl Traits {
    /// The least change of the distance, as a part of it: a flow that sees a little more
    /// learns it by itself.
    const LEAST_CHANGE_SHIFT: u32 = 2;

    /// Whether others are another policy.
    pub const fn are_other(self, to: Self) -> bool {
        let is_other = match (self.reorder_segments, to.reorder_segments) {
            (None, None) => false,
            (Some(from), Some(to)) => from.abs_diff(to) > from >> Self::LEAST_CHANGE_SHIFT,
            _ => true,
        };
        is_other || self.is_leaky != to.is_leaky
    }
}

/// A behaviour is what is known of a path's reordering and losses, look by look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Behaviour {
    losses: Losses,
    /// The distance, and when it was seen.
    reordering: Option<(u32, Seen)>,
    /// The distance that was seen last, if it waits for a second look that agrees.
    doubted_segments: Option<u32>,
    stale_after: Duration,
}

impl Behaviour {
    /// Knows nothing: all is as the kernel has it. What was seen before `stale_after`
    /// counts no more.
    pub const fn unknown(stale_after: Duration) -> Self {
        Self {
            losses: Losses::Congestion { looks: 0, at: None },
            reordering: None,
            doubted_segments: None,
            stale_after,
        }
    }

    /// Returns what is known, with the time after which it counts no more of another one.
    #[must_use]
    pub const fn kept_for(self, next: &Self) -> Self {
        Self { stale_after: next.stale_after, ..self }
    }

    /// Returns what follows from it now.
    pub fn traits(&self, now: Moment) -> Traits {
        let holds = |seen: &Seen| !seen.is_over() && !seen.is_stale(now, self.stale_after);
        let reordering = self.reordering.filter(|(_, seen)| holds(seen));
        Traits {
            reorder_segments: reordering.map(|(segments, _)| segments),
            is_leaky: matches!(&self.losses, Losses::Leak(seen) if holds(seen)),
        }
    }

    /// Takes in what the path's flows have shown since the look before.
    pub fn add(&mut self, look: &Look, now: Moment) {
        self.forget(now);
        self.add_losses(look, now);
        self.add_reordering(look, now);
    }

    /// Begins anew where a trait is over or too old.
    fn forget(&mut self, now: Moment) {
        let stale_after = self.stale_after;
        let is_gone = |seen: &Seen| seen.is_over() || seen.is_stale(now, stale_after);
        let is_old = |at: Moment| now.saturating_sub(at) > stale_after;
        let forgets = match &self.losses {
            Losses::Leak(seen) => is_gone(seen),
            Losses::Congestion { at, .. } => at.is_some_and(is_old),
        };
        if forgets {
            self.losses = Losses::Congestion { looks: 0, at: None };
        }
        if self.reordering.is_some_and(|(_, seen)| is_gone(&seen)) {
            (self.reordering, self.doubted_segments) = (None, None);
        }
    }

    fn add_losses(&mut self, look: &Look, now: Moment) {
        let leak = Losses::Leak(Seen::new(look.part(look.lost_segments), now));
        match &mut self.losses {
            // The law fills the queue now and then: it is what it does not explain that
            // counts.
            Losses::Leak(_) if look.is_leak() => self.losses = leak,
            Losses::Leak(seen) => seen.pass(look),
            Losses::Congestion { looks, at } if look.is_leak() && !look.was_queued => {
                (*looks, *at) = (*looks + 1, Some(now));
                if *looks >= LEAKY_LOOKS {
                    self.losses = leak;
                }
            }
            Losses::Congestion { looks, .. } if look.was_queued || look.is_queued => *looks = 0,
            Losses::Congestion { .. } => {}
        }
    }

    fn add_reordering(&mut self, look: &Look, now: Moment) {
        let distance = look.reordering_segments.filter(|segments| *segments > KERNELS_SEGMENTS);
        let Some(segments) = distance.map(|segments| segments.min(MAX_REORDER_SEGMENTS)) else {
            if let Some((_, seen)) = &mut self.reordering {
                seen.pass(look);
            }
            return;
        };
        let seen = Seen::new(look.part(look.reorderings), now);
        // The range of the field is band enough.
        let band = f64::from(2 * MAX_REORDER_SEGMENTS);
        let expected = Expected { own: Some(KERNELS_SEGMENTS.into()), band };
        let held = self.reordering.map(|(held, _)| f64::from(held));
        let doubted = self.doubted_segments.map(f64::from);
        match expected.judge(segments.into(), held, doubted) {
            Ok(()) => (self.reordering, self.doubted_segments) = (Some((segments, seen)), None),
            Err(_) => {
                self.doubted_segments = Some(segments);
                // It goes as far as it will: there is reordering.
                self.reordering = self.reordering.map(|(held, _)| (held, seen));
            }
        }
    }
}

#[cfg(test)]
mod tests;
