//! A scale is what an axis shows: round numbers, at a distance that leaves a few of them.

/// The numbers of an axis that begins with zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    pub step: f64,
    /// Where it ends.
    pub limit: f64,
}

impl Scale {
    /// Returns the scale that ends there.
    #[must_use]
    pub fn up_to(limit: f64) -> Self {
        Self { step: round_step(limit), limit }
    }

    /// Returns the scale that ends above there: half a step of air, so that no line runs along
    /// the frame.
    #[must_use]
    pub fn above(highest: f64, least_step: f64) -> Self {
        Self::in_steps(highest, round_step(highest).max(least_step))
    }

    /// Returns the scale that ends above there, in these steps.
    #[must_use]
    pub fn in_steps(highest: f64, step: f64) -> Self {
        Self { step, limit: ((highest / step + 0.5).ceil() * step).max(step) }
    }

    /// Returns its numbers.
    pub fn numbers(self) -> impl Iterator<Item = f64> {
        (0..=(self.limit / self.step + 1e-9) as u32)
            .map(move |number| f64::from(number) * self.step)
    }

    /// Writes a number with as many decimals as a step has, and a thin space between groups
    /// of three digits.
    #[must_use]
    pub fn written(self, value: f64) -> String {
        let decimals = if self.step < 1.0 { (-self.step.log10()).ceil() as usize } else { 0 };
        let text = format!("{value:.decimals$}");
        let (whole, fraction) = text.split_once('.').map_or((&*text, None), |(w, f)| (w, Some(f)));
        let groups = whole.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
        let whole = groups.collect::<Vec<_>>().join("\u{2009}");
        fraction.map_or(whole.clone(), |fraction| format!("{whole}.{fraction}"))
    }
}

/// Returns a step of 1, 2 or 5 times a power of ten that gives 4 to 10 of them.
fn round_step(limit: f64) -> f64 {
    let power = 10_f64.powf((limit.max(1e-9) / 4.0).log10().floor());
    let fits = [5.0, 2.0, 1.0].into_iter().find(|factor| factor * power * 4.0 <= limit);
    fits.unwrap_or(1.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_few() {
        for (limit, step) in [(622.0, 100.0), (15.0, 2.0), (3759.0, 500.0), (4.0, 1.0), (0.9, 0.2)]
        {
            assert!((round_step(limit) - step).abs() < 1e-9, "{limit}: {}", round_step(limit));
        }
        assert_eq!(Scale { step: 0.2, limit: 1.0 }.numbers().count(), 6);
        assert_eq!(Scale::above(622.0, 0.0), Scale { step: 100.0, limit: 700.0 });
        assert_eq!(Scale::above(3.0, 1.0), Scale { step: 1.0, limit: 4.0 });
        assert_eq!(Scale::above(0.0, 1.0), Scale { step: 1.0, limit: 1.0 });
    }

    #[test]
    fn numbers_have_the_decimals_of_their_steps() {
        let written = |value, step| Scale { step, limit: 1.0 }.written(value);
        assert_eq!(written(1_234_567.0, 500.0), "1\u{2009}234\u{2009}567");
        assert_eq!(
            (written(0.4, 0.2), written(0.25, 0.05), written(2.0, 1.0), written(0.0, 1.0)),
            ("0.4".into(), "0.25".into(), "2".into(), "0".into())
        );
    }
}
