//! Benchmarks say what wad costs, measured by ratio in alternated runs: two arms differ
//! in one thing only, and the noise of the machine hits both.

pub mod ack;
mod clock;
pub mod connect;
pub mod containers;
mod first_tuned;
pub mod instruments;
pub mod page;
mod proc;
mod programs;
pub mod reload;
pub mod scan;

use anyhow::{Result, ensure};
use serde::Serialize;

/// One benchmark's results, as `--json` prints them.
#[derive(Debug, Serialize)]
pub struct Report {
    pub bench: &'static str,
    pub results: Vec<Outcome>,
}

/// One figure of a benchmark.
#[derive(Debug, Serialize)]
pub struct Outcome {
    pub name: String,
    pub unit: &'static str,
    pub median: f64,
    pub samples: Vec<f64>,
    pub target: Option<Target>,
}

/// Tells what the figure should be.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    AtMost(f64),
    AtLeast(f64),
}

impl Target {
    const fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }
}

impl Outcome {
    fn new(name: impl Into<String>, unit: &'static str, target: Target, samples: Vec<f64>) -> Self {
        Self { target: Some(target), ..Self::alone(name, unit, samples) }
    }

    /// Returns a figure that others are seen beside.
    fn alone(name: impl Into<String>, unit: &'static str, samples: Vec<f64>) -> Self {
        let mut sorted = samples.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Self { name: name.into(), unit, median, samples, target: None }
    }
}

impl Report {
    /// Returns a table for people, with a line for each figure.
    #[must_use]
    pub fn table(&self) -> String {
        self.results.iter().map(Outcome::line).collect()
    }

    /// Ensures that all targets are met.
    ///
    /// # Errors
    /// Names the figures whose median misses its target.
    pub fn ensure_met(&self) -> Result<()> {
        let missed: Vec<_> = self.results.iter().filter(|outcome| outcome.is_missed()).collect();
        let names: Vec<_> = missed.iter().map(|outcome| outcome.name.as_str()).collect();
        ensure!(missed.is_empty(), "targets are missed: {}", names.join(", "));
        Ok(())
    }
}

impl Outcome {
    fn is_missed(&self) -> bool {
        self.target.is_some_and(|target| !target.is_met(self.median))
    }

    fn line(&self) -> String {
        let least = self.samples.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let verdict = self.target.map_or_else(String::new, |target| {
            let (relation, bound) = match target {
                Target::AtMost(bound) => ("at most", bound),
                Target::AtLeast(bound) => ("at least", bound),
            };
            let verdict = if self.is_missed() { "MISSED" } else { "met" };
            format!("  target {relation} {bound}: {verdict}")
        });
        format!(
            "{:<36} {:>14.3} {:<10} [{least:.3} .. {most:.3}]{verdict}\n",
            self.name, self.median, self.unit
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_two_in_the_middle() {
        let outcome = Outcome::new("x", "s", Target::AtMost(1.0), vec![4.0, 1.0, 3.0, 2.0]);
        assert!((outcome.median - 2.5).abs() < 1e-9);
        assert!(outcome.line().contains("MISSED"));
    }

    #[test]
    fn a_missed_target_is_named() {
        let missed = |most| Outcome::new("x", "s", Target::AtMost(most), vec![2.0]);
        let report = |results| Report { bench: "b", results };
        let error = report(vec![missed(1.0), missed(3.0)]).ensure_met().unwrap_err();
        assert_eq!(error.to_string(), "targets are missed: x");
        assert!(
            report(vec![missed(3.0), Outcome::alone("y", "s", vec![9.0])]).ensure_met().is_ok()
        );
    }
}
