//! Results of earlier runs, a file of JSON for each scenario and each study, so that a report can
//! be made of what took hours in all.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Serialize, de::DeserializeOwned};

use crate::{report::Report, study::Study};

/// Results that could not be kept or found again.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot write {path}", path = path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read {path}", path = path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is no result of this version: run the scenario again", path = path.display())]
    Parse { path: PathBuf, source: serde_json::Error },
}

/// Keeps results; those of variants that were not run this time stay.
///
/// # Errors
/// When the folder cannot be written.
pub fn keep(folder: &Path, mut report: Report) -> Result<(), StoreError> {
    // What cannot be read is of another version: only the new ones then.
    let before = find::<Report>(folder, &report.scenario).ok().flatten();
    for variant in before.map_or(Vec::new(), |before| before.variants) {
        if !report.variants.iter().any(|new| new.name == variant.name) {
            report.variants.push(variant);
        }
    }
    write(folder, &report.scenario, &report)
}

/// Keeps results of a study; those of cases that were not run this time stay, in their place.
///
/// # Errors
/// When the folder cannot be written.
pub fn keep_study(folder: &Path, mut study: Study) -> Result<(), StoreError> {
    let before = find::<Study>(folder, &study.name).ok().flatten();
    let mut findings = before.map_or(Vec::new(), |before| before.findings);
    for new in study.findings {
        match findings.iter_mut().find(|old| old.name == new.name) {
            Some(old) => *old = new,
            None => findings.push(new),
        }
    }
    study.findings = findings;
    write(folder, &study.name, &study)
}

fn write(folder: &Path, name: &str, results: &impl Serialize) -> Result<(), StoreError> {
    let path = file(folder, name);
    let failed = |source: io::Error| StoreError::Write { path: path.clone(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    let text = serde_json::to_string(results).map_err(|error| failed(error.into()))?;
    fs::write(&path, text).map_err(failed)
}

/// Returns the results of a scenario or a study; none where it has not been run.
///
/// # Errors
/// When there are some that cannot be read.
pub fn find<R: DeserializeOwned>(folder: &Path, name: &str) -> Result<Option<R>, StoreError> {
    match read(&file(folder, name)) {
        Err(StoreError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(None)
        }
        found => found.map(Some),
    }
}

/// Reads a file of results.
///
/// # Errors
/// When it cannot be read.
pub fn read<R: DeserializeOwned>(path: &Path) -> Result<R, StoreError> {
    let path = path.to_owned();
    match fs::read_to_string(&path) {
        Ok(text) => {
            serde_json::from_str(&text).map_err(|source| StoreError::Parse { path, source })
        }
        Err(source) => Err(StoreError::Read { path, source }),
    }
}

fn file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{report::tests::report, study::tests::study};

    #[test]
    fn cases_that_were_not_run_again_stay() {
        let folder = tempfile::tempdir().unwrap();
        keep_study(folder.path(), study("guard", &["one", "two", "three"])).unwrap();
        let mut again = study("guard", &["two", "four"]);
        again.findings[0].cells[0] = "9".to_owned();
        keep_study(folder.path(), again).unwrap();
        let found: Study = find(folder.path(), "guard").unwrap().unwrap();
        let cells = found.findings.iter().map(|one| (one.name.as_str(), one.cells[0].as_str()));
        let expected = [("one", "7"), ("two", "9"), ("three", "7"), ("four", "7")];
        assert_eq!(cells.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn variants_that_were_not_run_again_stay() {
        let folder = tempfile::tempdir().unwrap();
        keep(folder.path(), report()).unwrap();
        let mut again = report();
        again.variants.remove(0);
        again.variants[0].samples.truncate(1);
        keep(folder.path(), again).unwrap();
        let found = find::<Report>(folder.path(), "aimd-oc12").unwrap().unwrap();
        let samples: Vec<_> = found
            .variants
            .iter()
            .map(|variant| (variant.name.as_str(), variant.samples.len()))
            .collect();
        assert_eq!(samples, [("wad_aimd", 1), ("reno", 3)]);
        assert!(find::<Report>(folder.path(), "datatag").unwrap().is_none());
        fs::write(folder.path().join("datatag.json"), "{}").unwrap();
        let error = find::<Report>(folder.path(), "datatag").unwrap_err().to_string();
        assert!(error.contains("run the scenario again"), "{error}");
    }
}
