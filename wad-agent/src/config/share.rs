//! What share of a link an AIMD flow takes beside standard ones.

use wad_common::law::{Aimd, aimd::ONE_Q16};

/// Rate of AIMD(b, a) over that of a standard flow, AIMD(0.5, 1), at the same
/// rate of losses and the same RTT.
///
/// A window that grows by `a` for each RTT and keeps `1 - b` at a loss averages
/// `sqrt(a (2 - b) / (2 b p))` segments at loss rate `p` (Floyd, Handley and
/// Padhye, "A Comparison of Equation-Based and AIMD Congestion Control", 2000;
/// RFC 9438 section 4.3, whose beta is `1 - b`). For the standard flow that is
/// `sqrt(3 / (2 p))`; the quotient is free of `p`.
pub fn share(aimd: Aimd) -> f64 {
    let (increase, decrease) = (increase_segments(aimd), decrease(aimd));
    (increase * (2.0 - decrease) / (3.0 * decrease)).sqrt()
}

/// The additive increase at which `decrease` takes a standard flow's share:
/// [`share`] solved for 1, RFC 9438 section 4.3's alpha.
pub fn fair_increase_segments(decrease: f64) -> f64 {
    3.0 * decrease / (2.0 - decrease)
}

/// `a`, segments for each RTT.
pub fn increase_segments(aimd: Aimd) -> f64 {
    f64::from(aimd.increase_q16) / f64::from(ONE_Q16)
}

/// `b`, the fraction given up.
pub fn decrease(aimd: Aimd) -> f64 {
    f64::from(ONE_Q16 - aimd.keep_q16) / f64::from(ONE_Q16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aimd(decrease: f64, increase_segments: f64) -> Aimd {
        let q16 = |number: f64| (number * f64::from(ONE_Q16)).round() as u32;
        Aimd { increase_q16: q16(increase_segments), keep_q16: ONE_Q16 - q16(decrease) }
    }

    #[test]
    fn standard_flows_take_one_share() {
        assert_eq!(share(Aimd::STANDARD), 1.0);
        assert!((share(aimd(0.3, 6.0)) - 3.367).abs() < 0.001);
        assert!((share(aimd(0.125, 4.0)) - 4.472).abs() < 0.001);
    }

    #[test]
    fn a_fair_increase_takes_one_share() {
        for decrease in [0.01, 0.125, 0.3, 0.5, 0.9] {
            let fair = aimd(decrease, fair_increase_segments(decrease));
            assert!((share(fair) - 1.0).abs() < 0.002, "{decrease}");
        }
    }
}
