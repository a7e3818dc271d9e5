//! Response functions: the mean window of a loss-based law at a rate of losses,
//! and the rate of losses at which it has a mean window.
//!
//! Losses are single, random segments, as a fraction of those sent; windows are
//! in segments. A flow's rate is its window for each RTT, so at the same losses
//! and RTT the quotient of two windows is that of the flows' rates.

use std::ops::RangeInclusive;

use wad_common::law::{Aimd, MAX_LAW_INCREASE_Q16, highspeed, scalable};

use crate::pair::{decrease, increase_segments};

/// A share within half a percent of a CUBIC flow's counts as one: so much can come
/// from writing an increase with two digits.
const FAIR_SHARE: f64 = 1.005;

/// Whether a share, in those of a CUBIC flow, is more than one.
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

    /// Returns the loss rate at which two lines have the same window; None for parallel ones.
    fn crossing(self, other: Self) -> Option<f64> {
        let exponent = self.exponent - other.exponent;
        let loss = (self.factor / other.factor).powf(1.0 / exponent);
        (exponent != 0.0 && loss.is_finite()).then_some(loss)
    }
}

/// A share of another flow's rate, and the loss rate at which it is taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareAt {
    pub loss: f64,
    pub share: f64,
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
    /// the standard law where that has the larger window: section 4.3's Reno-friendly
    /// region, AIMD(0.3, 0.53), has that law's mean window. Where no RTT is known, all is
    /// that region: CUBIC has no less at any RTT.
    pub fn cubic(rtt_seconds: Option<f64>) -> Self {
        let friendly = Line::aimd(Aimd::STANDARD);
        let own = rtt_seconds.map_or(friendly, |rtt_seconds| Line {
            factor: 1.054 * rtt_seconds.powf(0.75),
            exponent: 0.75,
        });
        Self { least: friendly, own, most: Line::NONE }
    }

    /// So many flows of `wad_cubic` in one: their windows together.
    pub fn cubic_flows(flows: u32, rtt_seconds: Option<f64>) -> Self {
        let together = |line: Line| Line { factor: line.factor * f64::from(flows), ..line };
        let Self { least, own, most } = Self::cubic(rtt_seconds);
        Self { least: together(least), own: together(own), most }
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

    /// Rate of a flow under this law over that of one under the other beside it, at
    /// this loss rate and the same RTT.
    pub fn share(&self, other: &Self, loss: f64) -> f64 {
        self.mean_window_segments(loss) / other.mean_window_segments(loss)
    }

    /// Returns the most that a flow under this law takes beside one under the other, at loss
    /// rates of this range; of equal shares the one at the highest rate.
    ///
    /// Between the crossings of their lines both windows are powers of the loss rate, and so
    /// is the share: the most is at a crossing, or at an end of the range.
    pub fn most_share(&self, other: &Self, losses: RangeInclusive<f64>) -> ShareAt {
        let (least, most) = losses.clone().into_inner();
        let mut rates: Vec<_> = self.crossings().into_iter().chain(other.crossings()).collect();
        rates.retain(|loss| losses.contains(loss));
        rates.push(least);
        rates.sort_by(|a, b| b.total_cmp(a));
        let at = |loss| ShareAt { loss, share: self.share(other, loss) };
        // What differs by rounding alone is the same.
        let more = |first: ShareAt, next: ShareAt| {
            if next.share > first.share * (1.0 + 1e-9) { next } else { first }
        };
        rates.into_iter().map(at).fold(at(most), more)
    }

    /// Returns the loss rates at which another of the law's lines may begin to count.
    fn crossings(&self) -> Vec<f64> {
        let Self { least, own, most } = *self;
        [least.crossing(own), own.crossing(most), least.crossing(most)]
            .into_iter()
            .flatten()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use wad_common::law::aimd::ONE_Q16;

    use super::*;

    fn aimd(decrease: f64, increase_segments: f64) -> Aimd {
        let q16 = |number: f64| (number * f64::from(ONE_Q16)).round() as u32;
        Aimd { increase_q16: q16(increase_segments), keep_q16: ONE_Q16 - q16(decrease) }
    }

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
            near(Response::cubic(Some(0.1)).mean_window_segments(loss), cubic, 0.03);
        }
    }

    /// RFC 3649 Table 5: how a HighSpeed and a standard flow share a link.
    #[test]
    fn shares_are_those_of_the_rfc() {
        let table = [(-2, 1.0), (-3, 1.0), (-4, 2.2), (-5, 4.7), (-6, 10.2), (-7, 22.1)];
        for (exponent, share) in table {
            let standard = Response::standard();
            near(Response::highspeed().share(&standard, 10_f64.powi(exponent)), share, 0.03);
        }
    }

    #[test]
    fn cubic_without_an_rtt_is_its_reno_friendly_region() {
        for exponent in -7..=-1 {
            let loss = 10_f64.powi(exponent);
            let friendly = Response::aimd(aimd(0.3, 9.0 / 17.0)).mean_window_segments(loss);
            near(Response::cubic(None).mean_window_segments(loss), friendly, 1e-4);
            for rtt_seconds in [1e-4, 0.02, 0.2, 2.0] {
                let share = Response::cubic(None).share(&Response::cubic(Some(rtt_seconds)), loss);
                assert!(share <= 1.0, "{share} at {loss} and {rtt_seconds} s");
            }
        }
    }

    /// The most is no less than at any loss rate of a fine grid, and is taken at its own.
    #[test]
    fn the_most_share_is_that_of_a_search_over_all_loss_rates() {
        let laws = [
            Response::highspeed(),
            Response::scalable(),
            Response::aimd(aimd(0.3, 6.0)),
            Response::cubic(Some(0.05)),
        ];
        for law in laws {
            for rtt_seconds in [None, Some(1e-3), Some(0.02), Some(0.2), Some(1.0)] {
                let cubic = Response::cubic(rtt_seconds);
                let ShareAt { loss, share } = law.most_share(&cubic, 1e-9..=1e-3);
                assert_eq!(law.share(&cubic, loss), share);
                let grid =
                    (0..=6000).map(|n| law.share(&cubic, 10_f64.powf(-3.0 - f64::from(n) / 1e3)));
                near(grid.fold(0.0, f64::max), share, 1e-3);
            }
        }
        // A pair has the same share in all of the Reno-friendly region.
        let pair = Response::aimd(aimd(0.5, 4.0));
        assert_eq!(pair.most_share(&Response::cubic(Some(0.01)), 1e-9..=1e-3).loss, 1e-3);
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
            Response::cubic(Some(0.1)),
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
