//! A queue that stands when a loss is found is watched for a sixteenth of the RTT:
//! what is none, but a stall of the path or of a host, is over by then. The queue of
//! an overflow is not: nobody can have answered to it for an RTT.

use crate::law::curve::ticks;
use crate::record;

/// A sixteenth.
const TIME_SHIFT: u32 = 4;
/// The queue is kept in 64 microseconds.
const LEAST_SHIFT: u32 = 6;
const NOT_WATCHED: u16 = u16::MAX;

/// A watch has its begin, and the least that the queue took since then.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    begin_tick: u16,
    least: u16,
}
record!(Watch, size = 4);

impl Watch {
    pub const NONE: Self = Self { begin_tick: 0, least: NOT_WATCHED };

    #[inline(always)]
    pub const fn is_on(&self) -> bool {
        self.least != NOT_WATCHED
    }

    /// Begins, or goes on, with a queue that takes so long; once it was watched long
    /// enough, the least that it took.
    #[inline(always)]
    pub fn see(&mut self, now_us: u64, standing_us: u32, base_us: u32) -> Option<u32> {
        // 65 s around, which no watch lasts.
        let tick = ticks(now_us) as u16;
        let standing = (standing_us >> LEAST_SHIFT).min(u32::from(NOT_WATCHED) - 1) as u16;
        if !self.is_on() {
            self.begin_tick = tick;
        }
        self.least = self.least.min(standing);
        let watched_ticks = u32::from(tick.wrapping_sub(self.begin_tick));
        if watched_ticks < ticks(base_us.into()) >> TIME_SHIFT {
            return None;
        }
        let least_us = u32::from(self.least) << LEAST_SHIFT;
        *self = Self::NONE;
        Some(least_us)
    }
}
