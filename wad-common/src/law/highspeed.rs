//! HighSpeed TCP, RFC 3649: the larger the window, the faster the increase and
//! the smaller the decrease; up to 38 segments it is RFC 5681.
//!
//! The table of its Appendix B is derived here from the formulas, when this is
//! compiled: a row for each whole `a`. As in the kernel's `tcp_highspeed.c`, a
//! window between two rows follows the upper one. Two departures from the
//! kernel: the last row is the RFC's 73rd, not the 72nd, and `b` is not rounded
//! down to 1/256. Beyond the last row, 94,717 segments, nothing changes any
//! more: the RFC does not say that it should (section 5).

use super::aimd::{Aimd, ONE_Q16};

mod table;

use table::{LENGTH, Rows};

static ROWS: Rows = Rows::derive();

/// The law at this window: RFC 3649 Appendix B.
#[inline(always)]
#[must_use]
pub fn response(cwnd_segments: u32) -> Aimd {
    // Binary search for the first row whose window is not below. The mask says
    // to the compiler, and so to the verifier, that the index is within.
    let mut row = 0;
    let mut step = LENGTH / 2;
    while step > 0 {
        let last_below = ROWS.windows_segments[(row + step - 1) & (LENGTH - 1)];
        if last_below < cwnd_segments {
            row += step;
        }
        step /= 2;
    }
    ROWS.responses[row & (LENGTH - 1)]
}

/// Rows of the table: windows in segments, and the law up to and at each.
pub fn rows() -> impl Iterator<Item = (u32, Aimd)> {
    ROWS.windows_segments.into_iter().zip(ROWS.responses).take(table::ROWS)
}
