//! Response functions: the mean window of a loss-based law at a rate of losses,
//! and the rate of losses at which it has a mean window.
//!
//! Losses are single, random segments, as a fraction of those sent; windows are
//! in segments. A flow's rate is its window for each RTT, so at the same losses
//! and RTT the quotient of two windows is that of the flows' rates.

use wad_common::law::{Aimd, MAX_LAW_INCREASE_Q16, highspeed, scalable};

use crate::pair::{decrease, increase_segments};

/// A share within half a percent of a standard flow's counts as one: so much can come
/// from writing an increase with two digits.
const FAIR_SHARE: f64 = 1.005;

/// Whether a share, in those of a standard flow, is more than one.
pub fn is_more_than_fair(share: f64) -> bool {
    share > FAIR_SHARE
}

/// A window of `factor / p^exponent` at loss rate `p`: a line on log-log paper.
#[derive(Clone, Copy, Debug)]
struct Line {
    factor: f64,
    exponent: f64,
}

impl Line {
    /// The response where no line bounds the window.
    const NONE: Self = Self { factor: f64::INFINITY, exponent: 1.0 };

    /// `sqrt(a (2 - b) / (2 b p))` (Floyd, Handley and Padhye, "A Comparison of
    /// Equation-Based and AIMD Congestion Control", 2000); for the standard
    /// law sqrt(1.5 / p).
    fn aimd(aimd: Aimd) -> Self {
        let (a, b) = (increase_segments(aimd), decrease(aimd));
        Self { factor: (a * (2.0 - b) / (2.0 * b)).sqrt(), exponent: 0.5 }
    }

    fn window_segments(self, loss: f64) -> f64 {
        self.factor / loss.powf(self.exponent)
    }

    fn loss(self, window_segments: f64) -> f64 {
        (self.factor / window_segments).powf(1.0 / self.exponent)
    }
}

/// A law's response function: its own line between two that bound it.
#[derive(Clone, Copy, Debug)]
pub struct Response {
    /// The law at small windows.
    least: Line,
    own: Line,
    /// The law at windows where it does not change any more.
    most: Line,
}

impl Response {
    /// AIMD(b, a).
    pub fn aimd(aimd: Aimd) -> Self {
        let line = Line::aimd(aimd);
        Self { least: line, own: line, most: line }
    }

    /// RFC 5681, AIMD(0.5, 1).
    pub fn standard() -> Self {
        Self::aimd(Aimd::STANDARD)
    }

    /// HighSpeed TCP: RFC 3649 section 5, equation (1), 0.12 / p^0.835; the
    /// standard law at small windows, and beyond its table that of the last row.
    /// The table in force rounds `a` up to whole segments, so that the law gets
    /// 1.12 times this at 1e-4, and 1.45 times at 1e-3.
    pub fn highspeed() -> Self {
        Self {
            least: Line::aimd(highspeed::response(0)),
            own: Line { factor: 0.12, exponent: 0.835 },
            most: Line::aimd(highspeed::response(u32::MAX)),
        }
    }

    /// Scalable TCP: 0.01 / 0.125 / p (T. Kelly, 2003, section 2).
    pub fn scalable() -> Self {
        let (small, large) = (scalable::response(0), scalable::response(u32::MAX));
        debug_assert_eq!(large.increase_q16, MAX_LAW_INCREASE_Q16);
        Self {
            least: Line::aimd(small),
            own: Line { factor: 0.01 / decrease(small), exponent: 1.0 },
            most: Line::aimd(large),
        }
    }

    /// The kernel's `cubic`: RFC 9438 section 5.1, 1.054 (RTT / p)^(3/4), and
    /// the standard law where that has the larger window (section 4.3).
    pub fn cubic(rtt_seconds: f64) -> Self {
        Self {
            least: Line::aimd(Aimd::STANDARD),
            own: Line { factor: 1.054 * rtt_seconds.powf(0.75), exponent: 0.75 },
            most: Line::NONE,
        }
    }

    /// Mean window at this loss rate, which is above 0 and at most 1.
    pub fn mean_window_segments(&self, loss: f64) -> f64 {
        let own = self.own.window_segments(loss).max(self.least.window_segments(loss));
        own.min(self.most.window_segments(loss))
    }

    /// Loss rate at which the mean window is this, at most 1.
    pub fn loss(&self, mean_window_segments: f64) -> f64 {
        let own = self.own.loss(mean_window_segments).max(self.least.loss(mean_window_segments));
        own.min(self.most.loss(mean_window_segments)).min(1.0)
    }

    /// Rate of a flow under this law over that of a standard one beside it, at
    /// this loss rate and the same RTT.
    pub fn share(&self, loss: f64) -> f64 {
        self.mean_window_segments(loss) / Self::standard().mean_window_segments(loss)
    }
}

#[cfg(test)]
mod tests {
    use wad_common::law::aimd::ONE_Q16;

    use super::*;

    fn near(found: f64, expected: f64, tolerance: f64) {
        assert!((found / expected - 1.0).abs() <= tolerance, "{found} for {expected}");
    }

    /// RFC 3649 Tables 2 and 3, RFC 9438 Table 1 (RTT of 0.1 s): mean windows of
    /// the standard law, HighSpeed TCP and CUBIC. The RFCs have 1.2 / sqrt(p) for
    /// sqrt(1.5 / p), two percent less; here HighSpeed TCP ends with its table.
    #[test]
    fn windows_are_those_of_the_rfcs() {
        for (exponent, standard, highspeed, cubic) in [
            (-2, 12.0, 12.0, 12.0),
            (-3, 38.0, 38.0, 38.0),
            (-4, 120.0, 263.0, 187.0),
            (-5, 379.0, 1795.0, 1054.0),
            (-6, 1200.0, 12_279.0, 5926.0),
            (-7, 3795.0, 83_981.0, 33_325.0),
        ] {
            let loss = 10_f64.powi(exponent);
            near(Response::standard().mean_window_segments(loss), standard, 0.03);
            near(Response::highspeed().mean_window_segments(loss), highspeed, 0.03);
            near(Response::cubic(0.1).mean_window_segments(loss), cubic, 0.03);
        }
    }

    /// RFC 3649 Table 5: how a HighSpeed and a standard flow share a link.
    #[test]
    fn shares_are_those_of_the_rfc() {
        let table = [(-2, 1.0), (-3, 1.0), (-4, 2.2), (-5, 4.7), (-6, 10.2), (-7, 22.1)];
        for (exponent, share) in table {
            near(Response::highspeed().share(10_f64.powi(exponent)), share, 0.03);
        }
        assert_eq!(Response::standard().share(1e-4), 1.0);
    }

    #[test]
    fn scalable_is_inverse_to_the_loss_rate_above_a_hundred_segments() {
        near(Response::scalable().mean_window_segments(1e-4), 800.0, 1e-9);
        near(Response::scalable().mean_window_segments(1e-6), 80_000.0, 1e-9);
        let small = Aimd { increase_q16: ONE_Q16, keep_q16: ONE_Q16 / 8 * 7 };
        let small = Response::aimd(small).mean_window_segments(1e-2);
        near(Response::scalable().mean_window_segments(1e-2), small, 1e-9);
    }

    #[test]
    fn beyond_the_table_highspeed_is_the_aimd_of_its_last_row() {
        let last = Response::aimd(highspeed::response(94_717));
        let window = Response::highspeed().mean_window_segments(1e-9);
        assert_eq!(window, last.mean_window_segments(1e-9));
        assert!(window < 0.12 / 1e-9_f64.powf(0.835) / 3.0);
    }

    #[test]
    fn each_function_has_an_inverse() {
        let laws = [
            Response::standard(),
            Response::highspeed(),
            Response::scalable(),
            Response::cubic(0.1),
        ];
        for law in laws {
            for exponent in 1..=12 {
                let loss = 10_f64.powi(-exponent);
                near(law.loss(law.mean_window_segments(loss)), loss, 1e-9);
            }
            assert_eq!(law.loss(0.1), 1.0);
        }
    }
}
