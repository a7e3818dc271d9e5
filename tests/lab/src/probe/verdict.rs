//! Results of probes are held against the path, and shown.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde_json::Value;
use wad_testbed::emulated::path::Path;

use super::Outcome;
use crate::study::Judged;

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

/// Judges what was found out about a path.
pub fn judged(path: &Path, carries: f64, found: &Found) -> Result<Judged> {
    let mut judged = Judged::default();
    let error = number(found, "bandwidth", "/bandwidth/bits_per_second")? / carries - 1.0;
    if confidence(found) == "converged" {
        let what =
            format!("bandwidth is {:+.1}%; wanted within {:.0}%", 1e2 * error, 1e2 * MOST_ERROR);
        judged.hold(error.abs() <= MOST_ERROR, what);
    }
    let share = share_of_bytes(found)?;
    let what =
        format!("it takes {:.1}% of iperf3's bytes; wanted {:.0}%", 1e2 * share, 1e2 * MOST_BYTES);
    judged.hold(share <= MOST_BYTES, what);
    for tool in ["rtt", "ping"] {
        let error = number(found, tool, "/rtt/min_seconds")? - path.rtt.0.as_secs_f64();
        let within = 1e3 * MOST_RTT_ERROR_SECONDS;
        let what = format!("{tool} is {:+.2} ms; wanted within {within} ms", 1e3 * error);
        judged.hold(error.abs() <= MOST_RTT_ERROR_SECONDS, what);
    }
    let reorder = path.forward.reorder.map_or(0.0, |law| law.probability);
    for (what, expected) in [("loss", path.forward.loss), ("reordering", reorder)] {
        let part = number(found, "loss", &format!("/{what}/part"))?;
        let whole = number(found, "loss", &format!("/{what}/whole"))?;
        let is_so = holds(part, whole, expected);
        judged.hold(
            is_so,
            format!("{what} is {part} of {whole}; wanted what {expected} makes likely"),
        );
    }
    Ok(judged)
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

/// The headings over what is shown of a path.
pub const HEADINGS: [&str; 10] = [
    "carries, Mb/s",
    "found",
    "confidence",
    "iperf3",
    "MB sent",
    "of iperf3's",
    "rtt, ms",
    "ping, ms",
    "lost",
    "out of order",
];

/// Returns what is shown of a path.
pub fn cells(outcome: &Outcome) -> Result<Vec<String>> {
    let Outcome { carries_bits_per_second: carries, found, .. } = outcome;
    let bits = |tool| number(found, tool, "/bandwidth/bits_per_second");
    let ms = |tool| anyhow::Ok(format!("{:.2}", 1e3 * number(found, tool, "/rtt/min_seconds")?));
    let share = |what: &str| {
        let [part, whole] = ["part", "whole"].map(|end| &found["loss"][what][end]);
        format!("{part}/{whole}")
    };
    let own = bits("bandwidth")?;
    Ok(vec![
        format!("{:.1}", carries / 1e6),
        format!("{:.1}, {:+.1}%", own / 1e6, 1e2 * (own / carries - 1.0)),
        confidence(found).to_owned(),
        format!("{:.1}", bits("iperf3")? / 1e6),
        format!("{:.1}", number(found, "bandwidth", "/spent_bytes")? / 1e6),
        format!("{:.1}%", 1e2 * share_of_bytes(found)?),
        ms("rtt")?,
        ms("ping")?,
        share("loss"),
        share("reordering"),
    ])
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
