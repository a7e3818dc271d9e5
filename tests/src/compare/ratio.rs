//! The ratio of two means, and how well it is known.

use std::fmt;

/// Independent samples of one side.
#[derive(Default)]
pub struct Samples {
    values: Vec<f64>,
}

impl Samples {
    pub fn add(&mut self, value: f64) {
        self.values.push(value);
    }

    fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len() as f64
    }

    /// Variance of the mean, relative to its square.
    fn relative_variance(&self) -> f64 {
        let (count, mean) = (self.values.len() as f64, self.mean());
        let squares: f64 = self.values.iter().map(|value| (value - mean).powi(2)).sum();
        squares / (count * (count - 1.0) * mean * mean)
    }
}

/// Ours over the kernel's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    pub ours: f64,
    pub kernels: f64,
    /// Half of the interval that holds the true ratio with 95% confidence.
    pub half_interval: f64,
}

impl Ratio {
    /// By error propagation, which does for some per cent of uncertainty. With 30
    /// samples and more on each side Student's t is 2.0.
    pub fn of(ours: &Samples, kernels: &Samples) -> Self {
        const STUDENTS_T: f64 = 2.0;
        let variance = ours.relative_variance() + kernels.relative_variance();
        let (ours, kernels) = (ours.mean(), kernels.mean());
        let half_interval = STUDENTS_T * (ours / kernels) * variance.sqrt();
        Self { ours, kernels, half_interval }
    }

    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.ours / self.kernels
    }

    /// Whether the mean windows are equal to within 5%, as far as the samples tell.
    #[must_use]
    pub fn is_close(&self) -> bool {
        (self.ratio() - 1.0).abs() <= 0.05
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ours, kernels, half_interval } = self;
        let (low, high) = (self.ratio() - half_interval, self.ratio() + half_interval);
        write!(
            out,
            "{ours:.1} beside {kernels:.1} segments, ratio {:.3}, 95% of {low:.3} to {high:.3}",
            self.ratio()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[f64]) -> Samples {
        Samples { values: values.to_vec() }
    }

    #[test]
    fn an_interval_shrinks_with_the_samples() {
        let few = Ratio::of(&samples(&[9.0, 11.0]), &samples(&[18.0, 22.0]));
        assert_eq!(few.ratio(), 0.5);
        // Each mean is known to 10%.
        assert!((few.half_interval - 2.0 * 0.5 * 0.02_f64.sqrt()).abs() < 1e-12);
        let ours: Vec<f64> = [9.0, 11.0].repeat(50);
        let many = Ratio::of(&samples(&ours), &samples(&ours));
        assert!(many.is_close() && many.half_interval < 0.03, "{many}");
        assert!(!few.is_close());
    }
}
