//! The pair of an AIMD, increase and decrease, as numbers, and what is fair.

use wad_common::law::{Aimd, aimd::ONE_Q16};

/// The additive increase at which `decrease` takes a standard flow's share at
/// the same losses and RTT: RFC 9438 section 4.3's alpha, whose beta is `1 - b`. CUBIC
/// takes no less at any RTT.
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
    use crate::response::Response;

    fn aimd(decrease: f64, increase_segments: f64) -> Aimd {
        let q16 = |number: f64| (number * f64::from(ONE_Q16)).round() as u32;
        Aimd { increase_q16: q16(increase_segments), keep_q16: ONE_Q16 - q16(decrease) }
    }

    #[test]
    fn a_fair_increase_takes_one_share() {
        for decrease in [0.01, 0.125, 0.3, 0.5, 0.9] {
            let fair = aimd(decrease, fair_increase_segments(decrease));
            let share = Response::aimd(fair).share(&Response::standard(), 1e-4);
            assert!((share - 1.0).abs() < 0.002, "{decrease}");
        }
    }
}
