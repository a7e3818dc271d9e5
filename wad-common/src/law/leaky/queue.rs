//! The standing queue that a flow's RTT shows.

use crate::{
    law::{Sample, curve::ticks},
    record,
};

/// Samples of a group. The least of the last group and the one that is being
/// gathered, hence of the last 8 to 16 samples, is without the bursts of hosts
/// and the delays of receivers, and not an RTT late, as a minimum of a round is.
const GROUP_SAMPLES: u8 = 8;
/// A span of the base RTT: 16.8 s.
const SPAN_TICKS: u32 = 1 << 14;

/// Below 1/32 of the base RTT, though not below the first and not above the second
/// of these, it is no queue but noise. The bursts of those who fill a queue empty it
/// by half in between: one of a tenth of the RTT is hardly ever above a sixteenth of
/// it for as long as a group takes.
const NOISE_SHIFT: u32 = 5;
const LEAST_NOISE_US: u32 = 1000;
const MOST_NOISE_US: u32 = 4000;

/// The samples of a flow tell this.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Least RTT of the last span and this one, and of this one alone. A route
    /// that became longer, or a base that others' queue is in, is forgotten after
    /// two spans at most.
    base_us: u32,
    next_base_us: u32,
    span_tick: u32,
    /// Least of the last group, and of this one so far.
    group_us: u32,
    next_group_us: u32,
    next_group_samples: u8,
    pad: [u8; 3],
}
record!(Queue, size = 24);

impl Queue {
    pub const UNKNOWN: Self = Self {
        base_us: u32::MAX,
        next_base_us: u32::MAX,
        span_tick: 0,
        group_us: u32::MAX,
        next_group_us: u32::MAX,
        next_group_samples: 0,
        pad: [0; 3],
    };

    /// Takes the sample of an ACK; whether a span has ended with it.
    #[inline(always)]
    pub fn add(&mut self, sample: &Sample) -> bool {
        let Some(rtt_us) = sample.rtt_us else { return false };
        let tick = ticks(sample.now_us);
        let age_ticks = tick.wrapping_sub(self.span_tick);
        let is_over = age_ticks >= SPAN_TICKS;
        if is_over {
            // Idle for as long: nothing is known of the last span either.
            let is_stale = age_ticks >= 2 * SPAN_TICKS;
            self.base_us = if is_stale { rtt_us } else { self.next_base_us };
            self.next_base_us = rtt_us;
            self.span_tick = tick;
        }
        self.base_us = self.base_us.min(rtt_us);
        self.next_base_us = self.next_base_us.min(rtt_us);
        self.next_group_us = self.next_group_us.min(rtt_us);
        self.next_group_samples += 1;
        if self.next_group_samples >= GROUP_SAMPLES {
            self.group_us = self.next_group_us;
            self.next_group_us = u32::MAX;
            self.next_group_samples = 0;
        }
        is_over
    }

    /// RTT without a queue, as far as it is known; at least 1.
    #[inline(always)]
    pub fn base_us(&self) -> u32 {
        self.base_us.max(1)
    }

    /// RTT now, 0 before it is known.
    #[inline(always)]
    pub fn rtt_us(&self) -> u32 {
        match self.group_us.min(self.next_group_us) {
            u32::MAX => 0,
            rtt_us => rtt_us,
        }
    }

    /// Returns what the queue adds to the base RTT now.
    #[inline(always)]
    pub fn standing_us(&self) -> u32 {
        self.group_us.min(self.next_group_us).saturating_sub(self.base_us)
    }

    /// Returns what it has to add to be one.
    #[inline(always)]
    pub fn noise_us(&self) -> u32 {
        (self.base_us >> NOISE_SHIFT).clamp(LEAST_NOISE_US, MOST_NOISE_US)
    }

    #[inline(always)]
    pub fn is_standing(&self) -> bool {
        self.standing_us() >= self.noise_us()
    }
}
