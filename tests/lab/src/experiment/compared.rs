//! Connections that had tuning are held against those that had none at the same time: the plain
//! comparison, whose bias experiments are without.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// A comparison says what tuned connections got beside untuned ones: a ratio of geometric means.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Compared {
    pub ratio: f64,
    /// The interval that who takes them for independent calls 95 %.
    pub least: f64,
    pub most: f64,
    pub tuned: usize,
    pub untuned: usize,
}

/// An event `closed`, as far as it counts here.
#[derive(Deserialize)]
struct Closed {
    ts: Timestamp,
    path: String,
    values: Values,
}

#[derive(Deserialize)]
struct Values {
    outcome: String,
    seconds: f64,
    goodput_bits_per_second: f64,
}

/// Compares the connections of a path that were made since then.
pub fn compare(events: &Path, path: &str, since: Timestamp) -> Result<Compared> {
    let text = fs::read_to_string(events).with_context(|| events.display().to_string())?;
    let (mut tuned, mut untuned) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let Closed { ts, path: own, values } = serde_json::from_str(line).context("no event")?;
        let made = ts - SignedDuration::try_from_secs_f64(values.seconds)?;
        if own == path && made >= since {
            match values.outcome.as_str() {
                "tuned" => tuned.push(values.goodput_bits_per_second.ln()),
                "untuned" => untuned.push(values.goodput_bits_per_second.ln()),
                _ => {}
            }
        }
    }
    ensure!(tuned.len() > 1 && untuned.len() > 1, "there is nothing to compare: {text}");
    Ok(of(&tuned, &untuned))
}

/// Compares two samples of logarithms, of two or more each.
fn of(tuned: &[f64], untuned: &[f64]) -> Compared {
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    let variance = |all: &[f64]| {
        let mean = mean(all);
        let squares: f64 = all.iter().map(|value| (value - mean).powi(2)).sum();
        squares / (all.len() - 1) as f64 / all.len() as f64
    };
    let difference = mean(tuned) - mean(untuned);
    let half = 1.96 * (variance(tuned) + variance(untuned)).sqrt();
    Compared {
        ratio: difference.exp(),
        least: (difference - half).exp(),
        most: (difference + half).exp(),
        tuned: tuned.len(),
        untuned: untuned.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_as_much_is_a_ratio_of_two() {
        let ln = |values: [f64; 3]| values.map(f64::ln);
        let compared = of(&ln([2e6, 4e6, 8e6]), &ln([1e6, 2e6, 4e6]));
        assert!((compared.ratio - 2.0).abs() < 1e-9);
        // 1.96 times the root of two thirds of the squared logarithm of 2.
        assert!(
            (compared.most / 2.0 - (1.96 * 2_f64.ln() * (2.0_f64 / 3.0).sqrt()).exp()).abs() < 1e-9
        );
        assert!((compared.least * compared.most - 4.0).abs() < 1e-9);
    }
}
