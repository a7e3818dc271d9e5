//! The curve by which CUBIC's windows grow (RFC 9438 section 4.2), in fixed point: flat at the
//! window of the last decrease, W_max, and steeper the further from it in time.
//!
//! As k flows, one runs along it k times as fast: a k-th part of the window is lost at a time, k
//! times as often.

use core::hint::black_box;

use super::MAX_LAW_INCREASE_Q16;
use crate::record;

/// Bits of microseconds below a tick: 1.024 ms.
const TICK_SHIFT: u32 = 10;
/// A decrease leaves this, in 1/1024: 0.7, as the kernel's `tcp_cubic.c` has it.
pub const KEEP_Q10: u64 = 717;
/// C = 0.4 segments for each cubed second, in 2^-40 segments for each cubed tick.
const C_Q40: u64 = 472;
/// The cube of it times C fits, and 2^22 segments are less than so long away.
const MOST_TICKS: u64 = 1 << 18;
const MOST_SEGMENTS: u32 = 1 << 22;
/// About a second, or two RTTs: ACKs that far apart are of a flow that was idle.
const IDLE_TICKS: u32 = 1000;

/// Time in units of 1024 microseconds; wraps around after 50 days.
#[inline(always)]
#[must_use]
pub const fn ticks(now_us: u64) -> u32 {
    (now_us >> TICK_SHIFT) as u32
}

/// The curve of a flow.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Curve {
    /// `W_max`; 0 before there is one.
    plateau_segments: u32,
    /// The window gets there then, K after the epoch began.
    plateau_tick: u32,
    /// The window last grew then.
    grown_tick: u32,
}
record!(Curve, size = 12);

impl Curve {
    /// A flow that has none yet. The kernel gives it these zeros.
    pub const NONE: Self = Self { plateau_segments: 0, plateau_tick: 0, grown_tick: 0 };

    /// Lays the curve from one window now to another, for one that is as so many flows.
    #[inline(always)]
    pub fn rise(&mut self, now_us: u64, from_segments: u32, to_segments: u32, flows: u32) {
        let tick = ticks(now_us);
        let rise_segments = to_segments.saturating_sub(from_segments).min(MOST_SEGMENTS);
        let cubed = (u64::from(rise_segments) << 40) / C_Q40;
        self.plateau_segments = to_segments;
        self.plateau_tick = tick.wrapping_add(cube_root(cubed) / flows.max(1));
        self.grown_tick = tick;
    }

    /// Keeps this of a congestion event: the next curve is to lead to so many segments.
    #[inline(always)]
    pub const fn lead_to(&mut self, plateau_segments: u32) {
        self.plateau_segments = plateau_segments;
    }

    /// The window of the last decrease; 0 before there is one.
    #[inline(always)]
    #[must_use]
    pub const fn plateau_segments(&self) -> u32 {
        self.plateau_segments
    }

    /// The plateau after a congestion event at this window that leaves this part of it: lower than
    /// the window where that was not as large as the last plateau (RFC 9438 section 4.7).
    #[inline(always)]
    #[must_use]
    pub fn converged(&self, cwnd_segments: u32, keep_q10: u64) -> u32 {
        if cwnd_segments < self.plateau_segments {
            ((u64::from(cwnd_segments) * (1024 + keep_q10)) >> 11) as u32
        } else {
            cwnd_segments
        }
    }

    /// Segments to grow in an RTT from now on, in 1/65536: to where the curve is then, by half of
    /// the window at most (section 4.2). Below zero where the curve is below the window.
    #[inline(always)]
    #[must_use]
    pub fn growth_q16(&mut self, cwnd_segments: u32, now_us: u64, rtt_us: u32, flows: u32) -> i64 {
        let tick = ticks(now_us);
        let rtt_ticks = ticks(rtt_us.into());
        let idle_ticks = tick.wrapping_sub(self.grown_tick);
        self.grown_tick = tick;
        // The curve is of the time in which the window could grow (section 5.8).
        if idle_ticks > IDLE_TICKS.max(2 * rtt_ticks) {
            self.plateau_tick = self.plateau_tick.wrapping_add(idle_ticks);
        }
        let from_plateau = tick.wrapping_add(rtt_ticks).wrapping_sub(self.plateau_tick) as i32;
        let distance = (u64::from(from_plateau.unsigned_abs()) * u64::from(flows)).min(MOST_TICKS);
        // Fits: 2^54 times less than 2^9.
        let beyond_q16 = ((distance * distance * distance * C_Q40) >> 24) as i64;
        let plateau_q16 = i64::from(self.plateau_segments) << 16;
        let target_q16 =
            if from_plateau < 0 { plateau_q16 - beyond_q16 } else { plateau_q16 + beyond_q16 };
        let window_q16 = i64::from(cwnd_segments) << 16;
        let most_q16 = (window_q16 / 2).min(MAX_LAW_INCREASE_Q16.into());
        (target_q16 - window_q16).min(most_q16)
    }
}

/// Returns the cube root of a number below 2^63, bit by bit, without a division; and
/// without a branch, or the verifier would follow all two million ways through the
/// loop: the compiler must not know a comparison for one, or it makes a branch of it.
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
