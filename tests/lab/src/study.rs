//! Studies are experiments that are no transfers under variants of a policy: probes, guards, and
//! experiments of the agent itself. Each has cases, which are paths with what happens there, and
//! says of each what was found, and which targets it met or missed.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{measured::Measured, report::host, table::aligned};

/// A study's results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    pub name: String,
    /// The kernel and the processors.
    pub host: String,
    /// The headings over the cells of its cases.
    pub headings: Vec<String>,
    #[serde(rename = "finding")]
    pub findings: Vec<Finding>,
}

/// The results of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    /// Figures for people, under the study's headings.
    pub cells: Vec<String>,
    /// Targets.
    pub met: Vec<String>,
    pub missed: Vec<String>,
    /// All that was found, for programs.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub outcome: Value,
}

/// The targets of a case, as they are judged.
#[derive(Debug, Default, Serialize)]
pub struct Judged {
    pub met: Vec<String>,
    pub missed: Vec<String>,
}

impl Finding {
    /// Makes a finding of an outcome that programs get whole, and of what people see of it.
    ///
    /// # Errors
    /// When it has no form as JSON.
    pub fn new(
        name: &str,
        outcome: &impl Serialize,
        judged: &Judged,
        cells: Vec<String>,
    ) -> serde_json::Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            measured: None,
            cells,
            met: judged.met.clone(),
            missed: judged.missed.clone(),
            outcome: serde_json::to_value(outcome)?,
        })
    }
}

impl Judged {
    /// Adds a target.
    pub fn hold(&mut self, is_met: bool, what: String) {
        if is_met { &mut self.met } else { &mut self.missed }.push(what);
    }
}

impl Study {
    /// Returns a study on this host.
    #[must_use]
    pub fn new(name: &str, headings: &[&str], findings: Vec<Finding>) -> Self {
        let headings = headings.iter().map(|heading| (*heading).to_owned()).collect();
        Self { name: name.to_owned(), host: host(), headings, findings }
    }

    /// Says of all cases when and with which `wad` they were measured.
    pub fn stamp(&mut self, measured: &Measured) {
        self.findings.iter_mut().for_each(|case| case.measured = Some(measured.clone()));
    }

    /// Returns what was missed, each with the names of the study and the case.
    #[must_use]
    pub fn missed(&self) -> Vec<String> {
        let of = |case: &Finding| {
            let head = format!("{}: {}", self.name, case.name);
            case.missed.iter().map(move |missed| format!("{head}: {missed}")).collect::<Vec<_>>()
        };
        self.findings.iter().flat_map(of).collect()
    }

    /// Returns the cases as a plain table, and under it the targets.
    #[must_use]
    pub fn text(&self) -> String {
        let headings = ["path".to_owned()].into_iter().chain(self.headings.clone());
        let mut rows: Vec<Vec<String>> = vec![headings.collect()];
        rows.extend(self.findings.iter().map(|case| {
            let name = std::iter::once(case.name.clone());
            name.chain(case.cells.clone()).collect::<Vec<_>>()
        }));
        let mut text = aligned(&rows, rows[0].len());
        for case in &self.findings {
            let met = case.met.iter().map(|what| ("met", what));
            for (word, what) in met.chain(case.missed.iter().map(|what| ("MISSED", what))) {
                // A string takes it all.
                let _ = writeln!(text, "  {word}: {}: {what}", case.name);
            }
        }
        text
    }

    /// Returns all that was found, for programs.
    #[must_use]
    pub fn outcomes(&self) -> Vec<&Value> {
        self.findings.iter().map(|case| &case.outcome).collect()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns a study of one case for each name: a target that was met, and one that was missed
    /// where the name is `bad`.
    pub fn study(name: &str, cases: &[&str]) -> Study {
        let case = |name: &&str| {
            let mut judged = Judged::default();
            judged.hold(true, "it is there".to_owned());
            judged.hold(*name != "bad", "it is good".to_owned());
            let Judged { met, missed } = judged;
            let (name, cells) = ((*name).to_owned(), vec!["7".to_owned()]);
            Finding { name, measured: None, cells, met, missed, outcome: Value::from(7) }
        };
        Study::new(name, &["looks"], cases.iter().map(case).collect())
    }

    #[test]
    fn a_study_shows_its_cases_and_what_they_missed() {
        let study = study("guard", &["good", "bad"]);
        assert_eq!(study.missed(), ["guard: bad: it is good"]);
        let text = study.text();
        assert!(text.starts_with("path  looks\ngood  7\nbad   7\n"), "{text}");
        assert!(
            text.contains("  met: good: it is good\n")
                && text.ends_with("MISSED: bad: it is good\n")
        );
        assert_eq!(study.outcomes(), [&Value::from(7), &Value::from(7)]);
    }
}
