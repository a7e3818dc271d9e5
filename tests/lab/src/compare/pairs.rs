//! Pairs of samples tell the ratio of two means, and how well it is known.

use std::fmt;

/// Samples in pairs: both of a pair under the same losses, each pair under others.
/// What the losses do to both does not count.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    values: Vec<(f64, f64)>,
}

impl Pairs {
    pub fn add(&mut self, ours: f64, kernels: f64) {
        self.values.push((ours, kernels));
    }

    /// Returns the geometric mean of the ratios of all pairs, which are independent.
    /// There have to be two or more.
    #[must_use]
    pub fn ratio(&self) -> Ratio {
        let count = self.values.len() as f64;
        let mean_of =
            |each: fn(&(f64, f64)) -> f64| self.values.iter().map(each).sum::<f64>() / count;
        let log = |(ours, kernels): &(f64, f64)| (ours / kernels).ln();
        let mean = mean_of(log);
        let squares: f64 = self.values.iter().map(|pair| (log(pair) - mean).powi(2)).sum();
        let error = (squares / (count * (count - 1.0))).sqrt();
        let reach = students_t(self.values.len() - 1) * error;
        Ratio {
            ours: mean_of(|(ours, _)| *ours),
            kernels: mean_of(|(_, kernels)| *kernels),
            ratio: mean.exp(),
            low: (mean - reach).exp(),
            high: (mean + reach).exp(),
        }
    }
}

/// Returns Student's t for 95% on both sides, by degrees of freedom; 1 or more.
fn students_t(degrees: usize) -> f64 {
    const QUANTILES: [f64; 10] =
        [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    // Of more than ten, a little too large.
    QUANTILES[degrees.clamp(1, QUANTILES.len()) - 1]
}

/// The ratio of ours over the kernel's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    pub ours: f64,
    pub kernels: f64,
    pub ratio: f64,
    /// The true ratio is between the two with 95% confidence.
    pub low: f64,
    pub high: f64,
}

impl Ratio {
    /// Tells whether the mean windows are equal to within 5%, and known as well as
    /// that.
    #[must_use]
    pub fn is_close(&self) -> bool {
        const TOLERANCE: f64 = 0.05;
        let is_known = self.high - self.low <= 2.0 * TOLERANCE;
        is_known && (self.ratio - 1.0).abs() <= TOLERANCE
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ours, kernels, ratio, low, high } = self;
        write!(
            out,
            "{ours:.1} beside {kernels:.1} segments, ratio {ratio:.3}, 95% of {low:.3} to {high:.3}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(values: &[(f64, f64)]) -> Ratio {
        Pairs { values: values.to_vec() }.ratio()
    }

    #[test]
    fn what_both_of_a_pair_have_in_common_does_not_count() {
        let same = pairs(&[(10.0, 20.0), (30.0, 60.0), (50.0, 100.0)]);
        assert!((same.ratio - 0.5).abs() < 1e-12 && same.high - same.low < 1e-12, "{same}");
        assert_eq!((same.ours, same.kernels), (30.0, 60.0));
        assert!(!same.is_close());
    }

    #[test]
    fn an_interval_is_as_wide_as_the_pairs_differ() {
        let two = pairs(&[(1.1, 1.0), (1.0, 1.1)]);
        assert!((two.ratio - 1.0).abs() < 1e-12);
        // The standard error of two values is half of what is between them.
        assert!((two.high.ln() - 12.706 * 1.1_f64.ln()).abs() < 1e-9, "{two}");
        assert!(!two.is_close(), "too little is known");
        let ten = pairs(&[(1.1, 1.0), (1.0, 1.1)].repeat(5));
        assert!((ten.high.ln() - 2.262 * 1.1_f64.ln() / 3.0).abs() < 1e-9, "{ten}");
    }
}
