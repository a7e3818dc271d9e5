//! The laws are written as their papers have them, in floating point: windows of real
//! flows are compared with these. Windows count segments.

/// A window that does not follow its law.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{law:?}: {threshold} of {window} segments after a congestion event, not {expected:.1}")]
pub struct NotTheLaw {
    law: Law,
    window: u32,
    threshold: u32,
    expected: f64,
}

/// A law that answers to losses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// AIMD(b, a).
    Aimd { b: f64, a: f64 },
    /// RFC 3649.
    HighSpeed,
    /// Scalable TCP (T. Kelly, 2003).
    Scalable,
    /// Binomial: SQRT (Bansal and Balakrishnan, 2001).
    Sqrt,
    /// Binomial: IIAD.
    Iiad,
    /// RFC 9438, at an RTT of so many seconds, where it is not in its Reno-friendly region.
    /// Its windows lead to this part of the one before the loss: 1, or (1 + 0.7) / 2 where that was
    /// smaller than the one at the loss before (section 4.7).
    Cubic { rtt_seconds: f64, plateau: f64 },
}

impl Law {
    /// Segments more for each RTT, at this window.
    #[must_use]
    pub fn a(self, window: f64) -> f64 {
        match self {
            Self::Aimd { a, .. } => a,
            Self::Scalable => (window / 100.0).max(1.0),
            Self::Sqrt => 1.0 / window.sqrt(),
            Self::Iiad => 1.5 / window,
            // That of the time that has passed: see `grown`.
            Self::Cubic { .. } => 0.0,
            // In the table of Appendix B: whole numbers, rounded up.
            Self::HighSpeed => formula_a(window).ceil().max(1.0),
        }
    }

    /// Returns the part of this window that a congestion event takes.
    #[must_use]
    pub fn b(self, window: f64) -> f64 {
        match self {
            Self::Aimd { b, .. } => b,
            Self::Scalable => 0.125,
            Self::Sqrt => 2.0 / 3.0 / window.sqrt(),
            Self::Iiad => 1.0 / window,
            // As Linux has it: 717/1024 are left.
            Self::Cubic { .. } => 0.3,
            Self::HighSpeed => formula_b(window),
        }
    }

    /// Checks that a congestion event at a window leaves this threshold.
    ///
    /// # Errors
    /// When it leaves another one.
    pub fn check_decrease(self, window: u32, threshold: u32) -> Result<(), NotTheLaw> {
        let exact = f64::from(window);
        let kept = |b: f64| (1.0 - b) * exact;
        let expected = kept(self.b(exact));
        let most = if self == Self::HighSpeed { kept(formula_b(row(exact))) } else { expected };
        if (expected - 1.0..=most + 1.0).contains(&f64::from(threshold)) {
            Ok(())
        } else {
            Err(NotTheLaw { law: self, window, threshold, expected })
        }
    }

    /// Returns the window after so many RTTs of slow growth.
    #[must_use]
    pub fn grown(self, window: f64, rtts: f64) -> f64 {
        const STEPS: u32 = 1000;
        if let Self::Cubic { rtt_seconds, plateau } = self {
            // Figures 1 and 2, from what a decrease has left.
            let most = plateau * window / (1.0 - self.b(window));
            let k = ((most - window) / 0.4).cbrt();
            return most + 0.4 * (rtts * rtt_seconds - k).powi(3);
        }
        (0..STEPS).fold(window, |window, _| window + self.a(window) * rtts / f64::from(STEPS))
    }
}

/// Returns a(w) of RFC 3649 section 5: w^2 p(w) 2 b(w) / (2 - b(w)), with p(w) = 0.078
/// / w^1.2.
fn formula_a(window: f64) -> f64 {
    let b = formula_b(window);
    0.078 * window.powf(0.8) * 2.0 * b / (2.0 - b)
}

/// Returns b(w) of RFC 3649 section 5, with Low_Window 38, High_Window 83000,
/// High_Decrease 0.1.
fn formula_b(window: f64) -> f64 {
    let share = (window.max(38.0) / 38.0).ln() / (83_000_f64 / 38.0).ln();
    0.5 - 0.4 * share
}

/// Returns the row of the table that a window falls under: the next window with a whole
/// a, whose b goes for all windows from the row before.
fn row(window: f64) -> f64 {
    let a = formula_a(window).ceil();
    let mut row = window.ceil();
    while formula_a(row) < a {
        row += 1.0;
    }
    row
}

#[cfg(test)]
mod tests {
    use super::Law;

    #[test]
    fn rows_of_appendix_b() {
        for (window, a, b) in [(1058.0, 8.0, 0.33), (10_661.0, 30.0, 0.21), (83_981.0, 71.0, 0.1)] {
            assert!((Law::HighSpeed.a(window) - a).abs() <= 1.0, "{}", Law::HighSpeed.a(window));
            assert!((Law::HighSpeed.b(window) - b).abs() < 0.01, "{}", Law::HighSpeed.b(window));
        }
        assert!(Law::Scalable.check_decrease(800, 700).is_ok());
        assert!(Law::Scalable.check_decrease(800, 697).is_err());
        // Two thirds of a root of 100, and one.
        assert!(Law::Sqrt.check_decrease(100, 93).is_ok());
        assert!(Law::Sqrt.check_decrease(100, 95).is_err());
        assert!(Law::Iiad.check_decrease(100, 99).is_ok());
        assert!(Law::Iiad.check_decrease(100, 97).is_err());
        // The square of a window grows by 2 a.
        assert!((Law::Iiad.grown(20.0, 400.0) - 40.0).abs() < 0.1);
        // 0.3 of 1000 segments are back after the cube root of 750 seconds.
        let cubic = Law::Cubic { rtt_seconds: 0.1, plateau: 1.0 };
        assert!((cubic.grown(700.0, 90.856) - 1000.0).abs() < 0.01);
        assert!(
            cubic.check_decrease(1000, 700).is_ok() && cubic.check_decrease(1000, 697).is_err()
        );
        assert_eq!((Law::HighSpeed.a(38.0), Law::HighSpeed.b(38.0)), (1.0, 0.5));
    }

    #[test]
    fn a_window_between_two_rows_keeps_what_the_upper_one_says() {
        // 347 to 495 segments: a = 5, b = 0.37.
        assert!((Law::HighSpeed.a(369.0) - 5.0).abs() < f64::EPSILON);
        for (threshold, is_right) in [(226, false), (228, true), (233, true), (236, false)] {
            let seen = Law::HighSpeed.check_decrease(369, threshold).is_ok();
            assert_eq!(seen, is_right, "{threshold}");
        }
    }
}
