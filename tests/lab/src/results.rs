//! Results that were found of what a report is to be of.

use std::path::Path;

use crate::{
    landed::Landed,
    landing,
    report::Report,
    scenario::Scenario,
    store::{self, StoreError},
    study::Study,
};

/// Results that were found, and the names of what has none.
pub struct Results {
    pub reports: Vec<(Scenario, Report)>,
    pub studies: Vec<Study>,
    pub missing: Vec<String>,
}

impl Results {
    /// Finds the results of these scenarios and studies in a folder.
    ///
    /// # Errors
    /// When there are some that cannot be read.
    pub fn find(
        scenarios: &[Scenario],
        studies: &[&str],
        folder: &Path,
    ) -> Result<Self, StoreError> {
        let mut found = Self { reports: Vec::new(), studies: Vec::new(), missing: Vec::new() };
        for scenario in scenarios {
            match store::find::<Report>(folder, &scenario.name)? {
                Some(report) => found.reports.push((scenario.clone(), report)),
                None => found.missing.push(scenario.name.clone()),
            }
        }
        for name in studies {
            match store::find::<Study>(folder, name)? {
                Some(study) => found.studies.push(study),
                None => found.missing.push((*name).to_owned()),
            }
        }
        Ok(found)
    }

    /// Returns what the repository keeps of them.
    #[must_use]
    pub fn landed(&self) -> Landed {
        let reports = self.reports.iter();
        let experiments = reports.map(|(scenario, report)| landing::of(scenario, report)).collect();
        Landed { experiments, studies: landing::studies(&self.studies) }
    }

    /// Says what has no results, and how old the oldest are.
    #[must_use]
    pub fn words(&self) -> String {
        let missing = match self.missing.as_slice() {
            [] => "all have results".to_owned(),
            names => format!("no results of {}", names.join(", ")),
        };
        let variants = self.reports.iter().flat_map(|(_, report)| &report.variants);
        let run = variants.filter(|variant| !variant.samples.is_empty());
        let findings = self.studies.iter().flat_map(|study| &study.findings);
        let measured = run.map(|one| &one.measured).chain(findings.map(|one| &one.measured));
        let days: Option<Vec<_>> = measured.map(|one| Some(one.as_ref()?.day())).collect();
        let oldest = match days.map(|days| days.into_iter().min()) {
            Some(Some(day)) => format!("; the oldest are of {day}"),
            Some(None) => String::new(),
            None => "; some do not say of which day they are".to_owned(),
        };
        missing + &oldest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{measured::Measured, report::tests::report, study::tests::study};

    #[test]
    fn what_is_missing_and_what_is_old_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let scenarios = ["aimd-oc12", "datatag"].map(|name| Scenario::load(name).unwrap());
        let find = || Results::find(&scenarios, &["guard"], folder.path()).unwrap();
        assert_eq!(find().words(), "no results of aimd-oc12, datatag, guard");
        store::keep(folder.path(), report()).unwrap();
        let said = find().words();
        assert_eq!(said, "no results of datatag, guard; some do not say of which day they are");
        let on =
            |day: &str| Measured { at: format!("{day}T08:00:00Z").parse().unwrap(), wad: None };
        let mut again = report();
        again.stamp(&on("2026-11-27"));
        store::keep(folder.path(), again).unwrap();
        let mut guard = study("guard", &["good"]);
        guard.stamp(&on("2026-11-20"));
        store::keep_study(folder.path(), guard).unwrap();
        assert_eq!(find().words(), "no results of datatag; the oldest are of 2026-11-20");
        let landed = find().landed();
        assert_eq!((landed.experiments.len(), landed.studies.len()), (1, 1));
        assert!(landed.studies[0].findings[0].outcome.is_null());
    }
}
