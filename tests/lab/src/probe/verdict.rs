//! Results of probes are held against the path, and shown.

use std::{collections::BTreeMap, fmt::Write as _};

use anyhow::{Context as _, Result};
use serde_json::Value;
use wad_testbed::emulated::path::Path;

use super::Outcome;

/// The targets: of the bandwidth where it is called converged, of the bytes beside those of
/// iperf3, and of the round trip time.
const MOST_ERROR: f64 = 0.1;
const MOST_BYTES: f64 = 0.1;
const MOST_RTT_ERROR_SECONDS: f64 = 1e-3;
/// An interval holds the true share but for one in some thousand times.
const DEVIATIONS: f64 = 3.5;

type Found = BTreeMap<&'static str, Value>;

fn number(found: &Found, tool: &str, pointer: &str) -> Result<f64> {
    let value = found.get(tool).and_then(|found| found.pointer(pointer)).and_then(Value::as_f64);
    value.with_context(|| format!("{tool} says nothing of {pointer}"))
}

fn confidence(found: &Found) -> &str {
    found["bandwidth"]["bandwidth"]["confidence"].as_str().unwrap_or_default()
}

/// Returns the bytes of our transfer over those of iperf3.
fn share_of_bytes(found: &Found) -> Result<f64> {
    Ok(number(found, "bandwidth", "/spent_bytes")? / number(found, "iperf3", "/spent_bytes")?)
}

/// Returns what is not as it should be.
pub fn missed(path: &Path, carries: f64, found: &Found) -> Result<Vec<String>> {
    let mut missed = Vec::new();
    let mut hold = |is_met: bool, what: String| {
        if !is_met {
            missed.push(what);
        }
    };
    let error = number(found, "bandwidth", "/bandwidth/bits_per_second")? / carries - 1.0;
    if confidence(found) == "converged" {
        hold(error.abs() <= MOST_ERROR, format!("bandwidth is {:+.1}%", 100.0 * error));
    }
    let share = share_of_bytes(found)?;
    hold(share <= MOST_BYTES, format!("it takes {:.1}% of iperf3's bytes", 100.0 * share));
    for tool in ["rtt", "ping"] {
        let error = number(found, tool, "/rtt/min_seconds")? - path.rtt.0.as_secs_f64();
        let what = format!("{tool} is {:+.2} ms", 1e3 * error);
        hold(error.abs() <= MOST_RTT_ERROR_SECONDS, what);
    }
    let reorder = path.forward.reorder.map_or(0.0, |law| law.probability);
    for (what, expected) in [("loss", path.forward.loss), ("reordering", reorder)] {
        let part = number(found, "loss", &format!("/{what}/part"))?;
        let whole = number(found, "loss", &format!("/{what}/whole"))?;
        hold(holds(part, whole, expected), format!("{what} is {part} of {whole}"));
    }
    Ok(missed)
}

/// Tells whether the count allows for that share: Wilson's interval.
fn holds(part: f64, whole: f64, share: f64) -> bool {
    let z2 = DEVIATIONS * DEVIATIONS;
    let seen = part / whole;
    let middle = (seen + z2 / (2.0 * whole)) / (1.0 + z2 / whole);
    let spread = DEVIATIONS / (1.0 + z2 / whole)
        * (seen * (1.0 - seen) / whole + z2 / (4.0 * whole * whole)).sqrt();
    // What is all or nothing is at the interval's end, but for rounding.
    (middle - spread - 1e-12..=middle + spread + 1e-12).contains(&share)
}

/// Shows paths with what was found out about each.
pub fn of_paths(outcomes: &[Outcome]) -> Result<String> {
    let mut text = format!(
        "{:<24}{:>9}{:>9}{:>8}  {:<20}{:>9}{:>9}{:>7}{:>8}{:>8}{:>10}{:>10}\n",
        "path",
        "carries",
        "found",
        "error",
        "confidence",
        "iperf3",
        "MB",
        "of its",
        "rtt ms",
        "ping ms",
        "lost",
        "disorder",
    );
    for Outcome { name, carries_bits_per_second: carries, found, .. } in outcomes {
        let mbit = |tool| anyhow::Ok(number(found, tool, "/bandwidth/bits_per_second")? / 1e6);
        let ms = |tool| anyhow::Ok(1e3 * number(found, tool, "/rtt/min_seconds")?);
        let share = |what: &str| {
            let [part, whole] = ["part", "whole"].map(|end| &found["loss"][what][end]);
            format!("{part}/{whole}")
        };
        writeln!(
            text,
            "{name:<24}{:>9.1}{:>9.1}{:>7.1}%  {:<20}{:>9.1}{:>9.1}{:>6.1}%{:>8.2}{:>8.2}{:>10}{:>10}",
            carries / 1e6,
            mbit("bandwidth")?,
            100.0 * (1e6 * mbit("bandwidth")? / carries - 1.0),
            confidence(found),
            mbit("iperf3")?,
            number(found, "bandwidth", "/spent_bytes")? / 1e6,
            100.0 * share_of_bytes(found)?,
            ms("rtt")?,
            ms("ping")?,
            share("loss"),
            share("reordering"),
        )?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_allows_for_shares_near_its_own() {
        assert!(holds(0.0, 5000.0, 0.0) && holds(0.0, 5000.0, 1e-4) && holds(50.0, 5000.0, 0.01));
        assert!(!holds(0.0, 5000.0, 0.01) && !holds(200.0, 5000.0, 0.01));
    }
}
