//! Landed figures are what the repository keeps of results: of each run those that targets judge
//! and the book shows, and what was in force. The book's chapter is made of them. Rates are in
//! bits per second, other units are the measures' own.

mod file;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::Value;

pub use self::file::{LandedError, path};
use crate::{measure::median, scenario::Measure, study::Study};

/// This stands between the name of a measure and that of a group of flows.
const OF: &str = " of ";

/// The repository keeps these.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Landed {
    #[serde(default, rename = "experiment")]
    pub experiments: Vec<Experiment>,
    #[serde(default, rename = "study")]
    pub studies: Vec<Study>,
}

/// A scenario's results.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    pub scenario: String,
    /// The kernel and the processors.
    pub host: String,
    /// The names of its pictures, without a folder.
    #[serde(default)]
    pub pictures: Vec<String>,
    /// Notes on single variants, and what makes their figures doubtful.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// The policies, sysctls and queueing disciplines, as Markdown.
    #[serde(default)]
    pub settings: String,
    #[serde(default, rename = "variant")]
    pub variants: Vec<Figures>,
}

/// A variant's figures: of each measure one for each run that has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    pub name: String,
    /// The congestion control as ss saw it at the sender.
    pub law: String,
    /// The day on which it was measured; none where the results do not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// The commit of the `wad` that it was measured with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wad: Option<String>,
    #[serde(flatten, serialize_with = "file::short")]
    of: BTreeMap<String, Vec<f64>>,
}

impl Landed {
    /// Takes what was found this time; what is of others stays, with its own dates.
    pub fn take(&mut self, newer: Self) {
        for experiment in newer.experiments {
            self.experiments.retain(|other| other.scenario != experiment.scenario);
            self.experiments.push(experiment);
        }
        for study in newer.studies {
            self.studies.retain(|other| other.name != study.name);
            self.studies.push(study);
        }
        self.experiments.sort_by(|a, b| a.scenario.cmp(&b.scenario));
        self.studies.sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// Returns a scenario's results; none where it was never run.
    #[must_use]
    pub fn experiment(&self, scenario: &str) -> Option<&Experiment> {
        self.experiments.iter().find(|experiment| experiment.scenario == scenario)
    }

    /// Returns a study's results; none where it was never run.
    #[must_use]
    pub fn study(&self, name: &str) -> Option<&Study> {
        self.studies.iter().find(|study| study.name == name)
    }
}

impl Experiment {
    /// Returns the figures of the variant of that name.
    #[must_use]
    pub fn variant(&self, name: &str) -> Option<&Figures> {
        self.variants.iter().find(|variant| variant.name == name)
    }
}

impl Figures {
    /// Returns a variant that has no figures yet.
    #[must_use]
    pub fn new(name: &str, law: &str) -> Self {
        let (name, law) = (name.to_owned(), law.to_owned());
        Self { name, law, date: None, wad: None, of: BTreeMap::new() }
    }

    /// Keeps a measure of each run that has it, of all flows or of one group. What is no count is
    /// rounded to five digits: those behind them are chance.
    pub fn keep(&mut self, measure: Measure, flow: Option<&str>, figures: &[f64]) {
        let rounded = |value: &f64| match value.fract() == 0.0 {
            true => *value,
            false => format!("{value:.4e}").parse().unwrap_or(*value),
        };
        if !figures.is_empty() {
            self.of.insert(key(measure, flow), figures.iter().map(rounded).collect());
        }
    }

    /// Returns a measure of each run, of all flows or of one group.
    #[must_use]
    pub fn get(&self, measure: Measure, flow: Option<&str>) -> &[f64] {
        self.of.get(&key(measure, flow)).map_or(&[], Vec::as_slice)
    }

    /// Returns the median over the runs.
    #[must_use]
    pub fn median(&self, measure: Measure, flow: Option<&str>) -> Option<f64> {
        let figures = self.get(measure, flow);
        (!figures.is_empty()).then(|| median(figures.iter().copied()))
    }

    /// Returns the measures that it has figures of, each with the group of flows if it is of one.
    pub fn measures(&self) -> impl Iterator<Item = (Measure, Option<&str>)> {
        self.of.keys().filter_map(|key| {
            let (name, flow) = match key.split_once(OF) {
                Some((name, flow)) => (name, Some(flow)),
                None => (key.as_str(), None),
            };
            Some((Value::from(name).try_into().ok()?, flow))
        })
    }

    /// Returns how often it was run.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.get(Measure::Goodput, None).len()
    }

    /// Returns what the variants of a scenario are compared by, in bits per second: the goodput
    /// after the loss where there is one, else that of the whole run.
    #[must_use]
    pub fn compared(&self) -> f64 {
        let after = self.median(Measure::GoodputAfterLoss, None);
        after.or_else(|| self.median(Measure::Goodput, None)).unwrap_or(0.0)
    }
}

/// Returns the name of a measure in the file.
fn key(measure: Measure, flow: Option<&str>) -> String {
    let name = Value::try_from(measure).ok();
    let name = name.as_ref().and_then(Value::as_str).unwrap_or_default();
    flow.map_or_else(|| name.to_owned(), |flow| format!("{name}{OF}{flow}"))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns the results of a scenario, made up: of each variant the law and the goodput of
    /// each run, in megabits.
    pub fn experiment(scenario: &str, variants: &[(&str, &str, &[f64])]) -> Experiment {
        let figures = |(name, law, megabits): &(&str, &str, &[f64])| {
            let mut figures = Figures::new(name, law);
            let bits: Vec<f64> = megabits.iter().map(|megabits| megabits * 1e6).collect();
            figures.keep(Measure::Goodput, None, &bits);
            figures.keep(Measure::Retransmits, None, &vec![3.0; bits.len()]);
            figures
        };
        Experiment {
            scenario: scenario.to_owned(),
            host: "Linux 6.18, 2 processors".to_owned(),
            pictures: Vec::new(),
            remarks: Vec::new(),
            settings: String::new(),
            variants: variants.iter().map(figures).collect(),
        }
    }

    #[test]
    fn what_was_not_run_again_stays_with_its_date() {
        let of = |scenario: &str, megabits: f64, date: &str| {
            let mut experiment = experiment(scenario, &[("cubic", "cubic", &[megabits])]);
            experiment.variants[0].date = Some(date.to_owned());
            experiment
        };
        let before = [of("table1", 5.0, "2026-11-20"), of("burst", 6.0, "2026-11-21")];
        let mut landed = Landed { experiments: before.to_vec(), studies: Vec::new() };
        let newer = [of("table1", 7.0, "2026-11-27"), of("aimd-oc12", 8.0, "2026-11-27")];
        landed.take(Landed { experiments: newer.to_vec(), studies: Vec::new() });
        let all = landed.experiments.iter().map(|one| {
            let variant = &one.variants[0];
            (one.scenario.as_str(), variant.compared() / 1e6, variant.date.as_deref().unwrap())
        });
        assert_eq!(
            all.collect::<Vec<_>>(),
            [
                ("aimd-oc12", 8.0, "2026-11-27"),
                ("burst", 6.0, "2026-11-21"),
                ("table1", 7.0, "2026-11-27"),
            ]
        );
    }

    #[test]
    fn counts_are_kept_whole_and_other_figures_rounded() {
        let mut figures = Figures::new("a", "cubic");
        figures.keep(Measure::Retransmits, None, &[185_497.0]);
        figures.keep(Measure::Goodput, None, &[214_123_456.7, 214_000_000.0]);
        figures.keep(Measure::Share, Some("cubic"), &[0.123_456_7]);
        assert_eq!(figures.get(Measure::Retransmits, None), [185_497.0]);
        assert_eq!(figures.get(Measure::Goodput, None), [214_120_000.0, 214_000_000.0]);
        assert_eq!(figures.get(Measure::Share, Some("cubic")), [0.123_46]);
        assert_eq!((figures.get(Measure::Share, None), figures.runs()), (&[][..], 2));
    }
}
