//! RFC 3649's formulas, and the rows that its Appendix B derives from them.
//!
//! Fixed point with 40 binary places (`_q40`): at a row's window `a` grows by a
//! 5000th of a segment for each, and the errors here are below 2^-30.

use super::{Aimd, ONE_Q16};

/// Rows of Appendix B: those up to its `$top`, 100,000 segments.
pub(super) const ROWS: usize = 73;
/// Rows, and what fills up a power of two for the search: the law beyond.
pub(super) const LENGTH: usize = 128;

/// Section 5: up to `Low_Window`, the standard law.
const LOW_WINDOW: u32 = 38;
/// Section 5: where `b` is `High_Decrease`.
const HIGH_WINDOW: u32 = 83_000;

const ONE_Q40: u64 = 1 << 40;
/// `b` at `Low_Window`, and what is less of it at `High_Window`: 0.5 - 0.1.
const LOW_DECREASE_Q40: u64 = ONE_Q40 / 2;
const DECREASE_RANGE_Q40: u64 = ONE_Q40 * 2 / 5;
/// p(w) = 1 / (12.8 w^1.2): section 5's 0.078 / w^1.2 as Appendix B has it,
/// which follows from `Low_P` = 10^-3 and `High_P` = 10^-7, rounded.
const INVERSE_FACTOR_Q40: u64 = ONE_Q40 * 128 / 10;

pub(super) struct Rows {
    pub(super) windows_segments: [u32; LENGTH],
    pub(super) responses: [Aimd; LENGTH],
}

impl Rows {
    /// As the program in Appendix B: the next row is at the first window whose
    /// `a` exceeds that of the last row by more than one. There `a` is the
    /// row's number and a fraction, which is left out.
    pub(super) const fn derive() -> Self {
        let mut windows_segments = [u32::MAX; LENGTH];
        let mut responses = [Aimd::STANDARD; LENGTH];
        windows_segments[0] = LOW_WINDOW;
        let mut increase_q40 = ONE_Q40;
        let mut row = 1;
        while row < ROWS {
            let last = windows_segments[row - 1];
            windows_segments[row] = first_above(increase_q40 + ONE_Q40, last);
            increase_q40 = increase_at_q40(windows_segments[row]);
            let decrease_q16 = rounded(decrease_at_q40(windows_segments[row]), 40 - 16) as u32;
            responses[row] = Aimd {
                increase_q16: (increase_q40 / ONE_Q40) as u32 * ONE_Q16,
                keep_q16: ONE_Q16 - decrease_q16,
            };
            row += 1;
        }
        while row < LENGTH {
            responses[row] = responses[ROWS - 1];
            row += 1;
        }
        Self { windows_segments, responses }
    }
}

/// The first window above `window` at which `a` exceeds this.
const fn first_above(increase_q40: u64, window: u32) -> u32 {
    // `a` grows with the window, so bisect.
    let mut not_above = window;
    let mut above = 1 << 17;
    assert!(increase_at_q40(above) > increase_q40);
    while above - not_above > 1 {
        let middle = u32::midpoint(not_above, above);
        if increase_at_q40(middle) > increase_q40 {
            above = middle;
        } else {
            not_above = middle;
        }
    }
    above
}

/// Section 5, equation for b(w): from 0.5 at `Low_Window` to 0.1 at
/// `High_Window`, linear in log(w).
const fn decrease_at_q40(window: u32) -> u64 {
    let low = log2_q40(LOW_WINDOW as u64) as u128;
    let above_low = log2_q40(window as u64) as u128 - low;
    let range = log2_q40(HIGH_WINDOW as u64) as u128 - low;
    LOW_DECREASE_Q40 - (DECREASE_RANGE_Q40 as u128 * above_low / range) as u64
}

/// Section 5, equation for a(w): w^2 p(w) 2 b / (2 - b), that is
/// w^0.8 / 12.8 times 2 b / (2 - b).
const fn increase_at_q40(window: u32) -> u64 {
    let decrease = decrease_at_q40(window) as u128;
    let power = exp2_q40((log2_q40(window as u64) as u128 * 4 / 5) as u64) as u128;
    let decreased = power * 2 * decrease / (2 * ONE_Q40 as u128 - decrease);
    ((decreased << 40) / INVERSE_FACTOR_Q40 as u128) as u64
}

/// Binary logarithm of a whole number, 1 or more: its binary places come one by
/// one from squaring what is left, which is in [1, 2).
const fn log2_q40(number: u64) -> u64 {
    let whole = number.ilog2();
    let mut left_q62 = number << (62 - whole);
    let mut log = whole as u64;
    let mut places = 0;
    while places < 40 {
        log <<= 1;
        left_q62 = ((left_q62 as u128 * left_q62 as u128) >> 62) as u64;
        if left_q62 >= 2 << 62 {
            left_q62 >>= 1;
            log |= 1;
        }
        places += 1;
    }
    log
}

/// 2 to the power of this: for each binary place of the exponent that is set, a
/// factor.
const fn exp2_q40(exponent_q40: u64) -> u64 {
    let mut power_q62: u64 = 1 << 62;
    let mut place = 0;
    while place < 40 {
        if exponent_q40 & (ONE_Q40 >> (place + 1)) != 0 {
            power_q62 = ((power_q62 as u128 * ROOTS_Q62[place] as u128) >> 62) as u64;
        }
        place += 1;
    }
    (((power_q62 as u128) << (exponent_q40 >> 40)) >> 22) as u64
}

/// 2^(1/2), 2^(1/4), 2^(1/8), ...
const ROOTS_Q62: [u64; 40] = {
    let mut roots = [0; 40];
    let mut root: u128 = 2 << 62;
    let mut place = 0;
    while place < roots.len() {
        root = (root << 62).isqrt();
        roots[place] = root as u64;
        place += 1;
    }
    roots
};

/// Without its last places, rounded to the nearest.
const fn rounded(number: u64, places: u32) -> u64 {
    (number + (1 << (places - 1))) >> places
}
