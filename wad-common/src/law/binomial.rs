//! Binomial congestion control (Bansal and Balakrishnan, "Binomial Congestion Control
//! Algorithms", INFOCOM 2001): a window `w` gains `a / w^k` segments for each RTT
//! (equation 1) and loses `b w^l` on a congestion event (equation 2).
//!
//! AIMD is `k = 0`, `l = 1`. The two members here give up less of a window at a time,
//! and are as slow to take it back: for flows whose rate is not to swing. Both have
//! `k + l = 1`, under which the mean window falls with the loss rate `p` as a standard
//! flow's does: it is `sqrt(a / (b p))` where a decrease is small beside the window,
//! and a standard flow's is `sqrt(1.5 / p)`. So both have `a / b = 1.5`.
//!
//! Windows are whole segments, so that what is left of one is rounded down, and growth
//! that is no segment yet is lost with it, where the paper's simulator counts fractions.
//! That costs IIAD a part of its share, and least with a `b` of a whole segment.

use super::{
    MAX_LAW_INCREASE_Q16,
    aimd::{Aimd, MIN_KEEP_Q16, ONE_Q16},
};

/// A member of the family with `k + l = 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binomial {
    /// `k = l = 1/2`: it gains `1 / sqrt(w)`, and loses `2/3 sqrt(w)`.
    Sqrt,
    /// Inverse increase and additive decrease, `k = 1` and `l = 0`: it gains `1.5 / w`,
    /// and loses one segment.
    Iiad,
}

impl Binomial {
    /// IIAD, or SQRT in its place.
    #[inline(always)]
    #[must_use]
    pub const fn of(is_iiad: bool) -> Self {
        if is_iiad { Self::Iiad } else { Self::Sqrt }
    }

    /// `a`, segments for each RTT at a window of one, in 1/65536.
    const fn increase_q16(self) -> u64 {
        match self {
            Self::Sqrt => ONE_Q16 as u64,
            Self::Iiad => ONE_Q16 as u64 * 3 / 2,
        }
    }

    /// `b`, segments on a congestion event at a window of one, in 1/65536. Rounded up: a
    /// flow is to take no more than a standard one.
    const fn decrease_q16(self) -> u64 {
        (self.increase_q16() * 2).div_ceil(3)
    }

    /// The law at this window. Both parts are rounded down to a 65,536th, of a segment and
    /// of the window, though not to nothing: above 98,304 segments IIAD is AIMD with that
    /// much of both. The loss is 0.9 of the window at most, as any path's.
    #[inline(always)]
    #[must_use]
    pub const fn response(self, cwnd_segments: u32) -> Aimd {
        let window = if cwnd_segments == 0 { 1 } else { cwnd_segments as u64 };
        // The window to the power of k, and of 1 - l, which is the same.
        let power_q16 = match self {
            Self::Sqrt => sqrt_q16(window),
            Self::Iiad => window << 16,
        };
        let increase_q16 = divide(self.increase_q16() << 16, power_q16);
        let loss_q16 = divide(self.decrease_q16() << 16, power_q16);
        Aimd {
            increase_q16: within(increase_q16, MAX_LAW_INCREASE_Q16),
            keep_q16: ONE_Q16 - within(loss_q16, ONE_Q16 - MIN_KEEP_Q16),
        }
    }
}

/// The number, not to be nothing, and no more than this.
#[inline(always)]
const fn within(number: u64, most: u32) -> u32 {
    if number == 0 {
        1
    } else if number < most as u64 {
        number as u32
    } else {
        most
    }
}

/// The square root of a window, in 1/65536, rounded down or up: Newton's method. The
/// library's takes a product of 128 bits, which BPF has not.
#[inline(always)]
const fn sqrt_q16(window_segments: u64) -> u64 {
    let square = window_segments << 32;
    // No less than the root, and less than twice that: the error of 1 falls to 1/4, 1/40,
    // 1/3281, 5e-8 and 1e-15 of the root.
    let mut root = 1 << (64 - square.leading_zeros()).div_ceil(2);
    let mut steps = 0;
    while steps < 5 {
        root = (root + divide(square, root)) / 2;
        steps += 1;
    }
    root
}

/// The quotient. A division by zero, which there is none of, would be a panic that the
/// compiler cannot rule out and the verifier does not take.
#[inline(always)]
const fn divide(number: u64, by: u64) -> u64 {
    match number.checked_div(by) {
        Some(quotient) => quotient,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::{Aimd, Binomial, MAX_LAW_INCREASE_Q16, MIN_KEEP_Q16, ONE_Q16, sqrt_q16};

    const ONE: f64 = ONE_Q16 as f64;
    const ALL: [Binomial; 2] = [Binomial::Sqrt, Binomial::Iiad];

    #[test]
    fn gains_and_losses_are_those_of_the_paper() {
        for law in ALL {
            for window in (2..300_u32).chain([1000, 4321, 30_000]) {
                let w = f64::from(window);
                let (gain, loss) = match law {
                    Binomial::Sqrt => (1.0 / w.sqrt(), 2.0 / 3.0 * w.sqrt()),
                    Binomial::Iiad => (1.5 / w, 1.0),
                };
                let seen = law.response(window);
                let gained = f64::from(seen.increase_q16) / ONE;
                assert!((gained - gain).abs() < 1.5 / ONE, "{law:?} {w}: {gained}");
                let lost = 1.0 - f64::from(seen.keep_q16) / ONE;
                assert!((lost - loss / w).abs() < 1.5 / ONE, "{law:?} {w}: {lost}");
                // Of whole segments, the one that the loss is part of goes, too.
                let left = f64::from(window - seen.on_congestion(window));
                assert!(w < 4.0 || left == loss.ceil(), "{law:?} {w}: {left}");
            }
        }
    }

    #[test]
    fn a_root_is_a_root() {
        for window in (1..10_000).chain((0..32).flat_map(|bit| [1 << bit, (2 << bit) - 1])) {
            let (seen, exact) = (sqrt_q16(window), (window << 32).isqrt());
            assert!((exact..=exact + 1).contains(&seen), "{window}: {seen} for {exact}");
        }
    }

    #[test]
    fn no_window_is_too_small_or_too_large() {
        for law in ALL {
            for window in [0, 1, 2, 65_535, 98_304, 98_305, 1 << 20, u32::MAX] {
                let seen = law.response(window);
                assert!((1..=MAX_LAW_INCREASE_Q16).contains(&seen.increase_q16), "{window}");
                assert!((MIN_KEEP_Q16..ONE_Q16).contains(&seen.keep_q16), "{window}");
                assert!(window < 3 || seen.on_congestion(window) < window, "{window}");
            }
            // IIAD at one segment would lose all of it.
            assert_eq!(law.response(0), law.response(1));
        }
        let huge = Aimd { increase_q16: 1, keep_q16: ONE_Q16 - 1 };
        assert_eq!(Binomial::Iiad.response(98_305), huge);
        assert_eq!(Binomial::Iiad.response(u32::MAX), huge);
    }
}
