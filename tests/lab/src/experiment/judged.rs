//! Findings of experiments are held against what was to be found, and shown.

use serde::Deserialize;
use serde_json::Value;

use super::{Case, Compared, Outcome};
use crate::study::Judged;

/// A finding on a metric that there is to be.
#[derive(Deserialize)]
pub struct Wanted {
    verdict: String,
    #[serde(flatten)]
    times_better: Bounds,
}

/// Bounds of a ratio.
#[derive(Clone, Copy, Deserialize)]
pub struct Bounds {
    at_least: Option<f64>,
    at_most: Option<f64>,
}

impl Bounds {
    fn has(self, ratio: f64) -> bool {
        self.at_least.is_none_or(|least| ratio >= least)
            && self.at_most.is_none_or(|most| ratio <= most)
    }

    fn words(self) -> String {
        let bounds = [("at least", self.at_least), ("at most", self.at_most)];
        let bounds = bounds.iter().filter_map(|(words, end)| Some(format!("{words} {}", (*end)?)));
        format!("wanted {}", bounds.collect::<Vec<_>>().join(" and "))
    }
}

/// Returns the finding on goodput, of the path's own connections or of others'.
fn goodput<'t>(told: &'t Value, whose: &str) -> Option<&'t Value> {
    let found = told["found"].as_array()?;
    found.iter().find(|found| found["whose"] == whose && found["measure"] == "goodput")
}

fn verdict(told: &Value, whose: &str) -> String {
    let verdict = goodput(told, whose).and_then(|found| found["verdict"].as_str());
    verdict.map_or_else(|| "-".to_owned(), str::to_owned)
}

fn ratio(told: &Value, whose: &str) -> Option<f64> {
    goodput(told, whose)?["effect"]["ratio"].as_f64()
}

/// Judges what was found out about a path.
pub fn judged(case: &Case, told: &Value, compared: &Compared) -> Judged {
    let mut judged = Judged::default();
    let wanted = [("own", Some(&case.goodput)), ("neighbours", case.neighbours_goodput.as_ref())];
    for (whose, wanted) in wanted {
        let Some(wanted) = wanted else { continue };
        let (verdict, ratio) = (verdict(told, whose), ratio(told, whose));
        let is_so = verdict == wanted.verdict;
        judged.hold(is_so, format!("goodput ({whose}) is {verdict}; wanted {}", wanted.verdict));
        let is_within = ratio.is_some_and(|ratio| wanted.times_better.has(ratio));
        let (ratio, bounds) = (shown(ratio), wanted.times_better.words());
        judged.hold(is_within, format!("goodput ({whose}) is {ratio} times better; {bounds}"));
    }
    let (ratio, bounds) = (compared.ratio, case.compared.words());
    let is_so = case.compared.has(ratio);
    judged.hold(is_so, format!("compared, tuned connections have {ratio:.3}; {bounds}"));
    judged
}

fn shown(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"))
}

/// The headings over what is shown of a path.
pub const HEADINGS: [&str; 7] = [
    "pairs",
    "goodput",
    "times",
    "possible",
    "neighbours' goodput",
    "times",
    "tuned over untuned at the same time",
];

/// Returns what is shown of a path.
pub fn cells(outcome: &Outcome) -> Vec<String> {
    let Outcome { told, compared, .. } = outcome;
    let effect = goodput(told, "own").map(|found| &found["effect"]);
    let end = |end: &str| shown(effect.and_then(|effect| effect[end].as_f64()));
    let Compared { ratio: over, least, most, tuned, untuned } = compared;
    vec![
        told["counts"]["pairs"].to_string(),
        verdict(told, "own"),
        shown(ratio(told, "own")),
        format!("{} to {}", end("least"), end("most")),
        verdict(told, "neighbours"),
        shown(ratio(told, "neighbours")),
        format!("{over:.3}, {least:.3} to {most:.3}, of {tuned} and {untuned}"),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bounds_may_lack_an_end() {
        let bounds = |at_least, at_most| Bounds { at_least, at_most };
        assert!(bounds(None, None).has(9.0) && bounds(Some(1.0), None).has(9.0));
        assert!(!bounds(Some(1.0), Some(2.0)).has(9.0) && !bounds(Some(1.0), None).has(0.9));
    }

    #[test]
    fn what_nobody_has_found_is_none() {
        let effect = json!({ "ratio": 2.0, "least": 1.5, "most": null });
        let own = json!({ "whose": "own", "measure": "goodput", "verdict": "better",
            "effect": effect });
        let told = json!({ "found": [own] });
        assert_eq!((verdict(&told, "own"), ratio(&told, "own")), ("better".to_owned(), Some(2.0)));
        assert_eq!(
            (verdict(&told, "neighbours"), ratio(&told, "neighbours")),
            ("-".to_owned(), None)
        );
    }
}
