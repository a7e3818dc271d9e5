//! The derived table of HighSpeed TCP is held beside what RFC 3649 prints, what the
//! kernel has, and the formulas themselves, in floating point.

use rfc3649::{KERNEL_DECREASES_Q8, TABLE};
use wad_common::law::{Aimd, aimd::ONE_Q16, highspeed};

mod rfc3649;

fn a(aimd: Aimd) -> u32 {
    assert_eq!(aimd.increase_q16 % ONE_Q16, 0, "a is whole");
    aimd.increase_q16 / ONE_Q16
}

fn b(aimd: Aimd) -> f64 {
    f64::from(ONE_Q16 - aimd.keep_q16) / f64::from(ONE_Q16)
}

/// Windows and `a` are the RFC's to the digit, and so is `b`, to which the RFC's
/// two decimals are rounded to the nearest.
#[test]
fn each_row_is_as_printed() {
    let rows: Vec<_> = highspeed::rows()
        .map(|(window, aimd)| (window, a(aimd), format!("{:.2}", b(aimd))))
        .collect();
    let printed: Vec<_> = TABLE.iter().map(|(w, a, b)| (*w, *a, (*b).to_owned())).collect();
    assert_eq!(rows, printed);
}

/// The kernel rounds `b` down to 1/256; here it is within half of 1/65536.
#[test]
fn the_kernel_has_the_same_rows() {
    for ((_, aimd), kernel_q8) in highspeed::rows().zip(KERNEL_DECREASES_Q8) {
        let exact = b(aimd) * 256.0;
        let rounding = 256.0 / f64::from(2 * ONE_Q16);
        let kernel = f64::from(kernel_q8);
        assert!(kernel <= exact + rounding && exact - rounding < kernel + 1.0, "{exact} {kernel}");
    }
}

/// Each window, and not only a row's, has the law of the first row at or above.
#[test]
fn between_rows_the_upper_one_applies() {
    let mut row = 0;
    for window in 0..=100_000 {
        while TABLE.get(row).is_some_and(|(at, ..)| *at < window) {
            row += 1;
        }
        let (at, increase, _) = TABLE[row.min(TABLE.len() - 1)];
        let response = highspeed::response(window);
        assert_eq!(a(response), increase, "at {window}");
        assert_eq!(response, highspeed::response(at), "at {window}");
    }
}

#[test]
fn below_the_table_it_is_standard_and_beyond_nothing_changes() {
    for window in [0, 1, 2, 37, 38] {
        assert_eq!(highspeed::response(window), Aimd::STANDARD);
    }
    assert_ne!(highspeed::response(39), Aimd::STANDARD);
    for window in [94_717, 94_718, 1 << 20, u32::MAX - 1, u32::MAX] {
        assert_eq!(highspeed::response(window), highspeed::response(94_717));
    }
}

/// `Low_P` = 10^-3 at 38 segments and `High_P` = 10^-7 at 83,000 give the rounded
/// p(w) = 1 / (12.8 w^1.2) of which the table is made, and b(w), from 0.5 to
/// `High_Decrease` = 0.1; and a(w) = w^2 p 2b / (2 - b) is less than one row off.
#[test]
fn the_rows_follow_from_the_parameters() {
    let (low, high) = (38_f64, 83_000_f64);
    let exponent = (1e-3_f64 / 1e-7).ln() / (high / low).ln();
    assert_eq!(format!("{exponent:.1}"), "1.2");
    assert_eq!(format!("{:.1}", 1.0 / (1e-3 * low.powf(exponent))), "12.8");
    for (window, aimd) in highspeed::rows() {
        let w = f64::from(window);
        let decrease = 0.5 - 0.4 * (w / low).ln() / (high / low).ln();
        assert!((b(aimd) - decrease).abs() <= 0.5 / f64::from(ONE_Q16), "b({window})");
        let increase = w.powf(0.8) / 12.8 * 2.0 * decrease / (2.0 - decrease);
        // At the first row the RFC has 1 for 0.957.
        let over = increase - f64::from(a(aimd));
        assert!((0.0..0.08).contains(&over) || window == 38, "a({window}) = {increase}");
    }
}
