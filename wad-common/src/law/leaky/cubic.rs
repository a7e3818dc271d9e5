//! How CUBIC grows (RFC 9438), in fixed point.

use core::hint::black_box;

use super::queue::ticks;
use crate::{
    law::{MAX_LAW_INCREASE_Q16, Sample, Window},
    record,
};

/// What a decrease leaves, in 1/1024: 0.7, as the kernel's `tcp_cubic.c` has it.
pub const KEEP_Q10: u64 = 717;
/// What is left of the plateau where there is less than before: (1 + 0.7) / 2.
const CONVERGED_Q10: u64 = (1024 + KEEP_Q10) / 2;
/// C = 0.4 segments for each cubed second, in 2^-40 segments for each cubed tick.
const C_Q40: u64 = 472;
/// Increase for each RTT that makes a flow which keeps 0.7 as fast as a standard
/// one: 3 (1 - 0.7) / (1 + 0.7), in 1/65536 (RFC 9438 section 4.3).
const FRIENDLY_INCREASE_Q16: i64 = 34_695;
/// The cube of it times C fits, and 2^22 segments are less than so long away.
const MOST_TICKS: u32 = 1 << 18;
const MOST_SEGMENTS: u32 = 1 << 22;
/// About a second, or two RTTs: ACKs that far apart are of a flow that was idle.
const IDLE_TICKS: u32 = 1000;

/// The curve that the window follows: flat at the window of the last decrease.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cubic {
    /// `W_max`; 0 before there is one.
    plateau_segments: u32,
    /// When the window gets there, K after the decrease.
    plateau_tick: u32,
    /// When it last grew.
    grown_tick: u32,
}
record!(Cubic, size = 12);

impl Cubic {
    pub const NONE: Self = Self { plateau_segments: 0, plateau_tick: 0, grown_tick: 0 };

    /// The curve from one window now to another.
    #[inline(always)]
    pub fn rise(&mut self, now_us: u64, from_segments: u32, to_segments: u32) {
        let tick = ticks(now_us);
        let rise_segments = to_segments.saturating_sub(from_segments).min(MOST_SEGMENTS);
        let cubed = (u64::from(rise_segments) << 40) / C_Q40;
        self.plateau_segments = to_segments;
        self.plateau_tick = tick.wrapping_add(cube_root(cubed));
        self.grown_tick = tick;
    }

    /// The window of the last decrease; 0 before there is one.
    #[inline(always)]
    pub const fn plateau_segments(&self) -> u32 {
        self.plateau_segments
    }

    /// The plateau after a congestion event at this window: lower than it where
    /// it was not as large as the last one (RFC 9438 section 4.7).
    #[inline(always)]
    pub fn converged(&self, cwnd_segments: u32) -> u32 {
        if cwnd_segments < self.plateau_segments {
            ((u64::from(cwnd_segments) * CONVERGED_Q10) >> 10) as u32
        } else {
            cwnd_segments
        }
    }

    /// Segments to grow in an RTT from now on, in 1/65536: to where the curve is
    /// then, though as fast as a standard flow, and by half of the window at
    /// most. That is at most a little more than RFC 9438 asks for, which compares
    /// windows, not growth, with those of a standard flow.
    #[inline(always)]
    pub fn increase_q16(&mut self, window: Window, sample: &Sample, rtt_us: u32) -> u32 {
        if self.plateau_segments == 0 {
            self.rise(sample.now_us, window.cwnd_segments, window.cwnd_segments);
        }
        let tick = ticks(sample.now_us);
        let rtt_ticks = ticks(rtt_us.into());
        let idle_ticks = tick.wrapping_sub(self.grown_tick);
        self.grown_tick = tick;
        // The curve is of the time in which the window could grow (section 5.8).
        if idle_ticks > IDLE_TICKS.max(2 * rtt_ticks) {
            self.plateau_tick = self.plateau_tick.wrapping_add(idle_ticks);
        }
        let from_plateau = tick.wrapping_add(rtt_ticks).wrapping_sub(self.plateau_tick) as i32;
        let distance = u64::from(from_plateau.unsigned_abs().min(MOST_TICKS));
        // Fits: 2^54 times less than 2^9.
        let beyond_q16 = ((distance * distance * distance * C_Q40) >> 24) as i64;
        let plateau_q16 = i64::from(self.plateau_segments) << 16;
        let target_q16 =
            if from_plateau < 0 { plateau_q16 - beyond_q16 } else { plateau_q16 + beyond_q16 };
        let window_q16 = i64::from(window.cwnd_segments) << 16;
        let most_q16 = (window_q16 / 2).min(MAX_LAW_INCREASE_Q16.into());
        (target_q16 - window_q16).min(most_q16).max(FRIENDLY_INCREASE_Q16) as u32
    }
}

/// Of a number below 2^63, bit by bit, without a division; and without a branch,
/// or the verifier would follow all two million ways through the loop: the compiler
/// must not know a comparison for one, or it makes a branch of it.
///
/// Not a function of its own: Linux 6.1 does not trace what matters through calls
/// (`backtrack_insn()`), then takes every number for what matters, and finds hardly
/// two states alike: "BPF program is too large. Processed 1000001 insn".
#[inline(always)]
const fn cube_root(number: u64) -> u32 {
    let mut root: u64 = 0;
    let mut bit: u64 = 1 << 20;
    while bit > 0 {
        let next = root | bit;
        let is_too_large = black_box(number.wrapping_sub(next * next * next) >> 63);
        root |= bit & is_too_large.wrapping_sub(1);
        bit >>= 1;
    }
    root as u32
}

#[cfg(test)]
mod tests {
    use super::cube_root;

    #[test]
    fn cube_roots_are_rounded_down() {
        for root in [0, 1, 2, 9, 1000, 117_000, 1_290_000] {
            let cube = u64::from(root) * u64::from(root) * u64::from(root);
            assert_eq!(cube_root(cube), root);
            assert_eq!(cube_root(cube + 1), root.max(u32::from(cube == 0)));
        }
        assert_eq!(cube_root(999), 9);
    }
}
