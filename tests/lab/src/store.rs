//! Results of earlier runs, a file of JSON per scenario, so that a report can be
//! made of what took hours in all.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::report::Report;

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
    let path = file(folder, &report.scenario);
    let failed = |source: io::Error| StoreError::Write { path: path.clone(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    // What cannot be read is of another version: only the new ones then.
    let before = find(folder, &report.scenario).ok().flatten();
    for variant in before.map_or(Vec::new(), |before| before.variants) {
        if !report.variants.iter().any(|new| new.name == variant.name) {
            report.variants.push(variant);
        }
    }
    let text = serde_json::to_string(&report).map_err(|error| failed(error.into()))?;
    fs::write(&path, text).map_err(failed)
}

/// Returns the results of a scenario; none where it has not been run.
///
/// # Errors
/// When there are some that cannot be read.
pub fn find(folder: &Path, scenario: &str) -> Result<Option<Report>, StoreError> {
    match read(&file(folder, scenario)) {
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
pub fn read(path: &Path) -> Result<Report, StoreError> {
    let path = path.to_owned();
    match fs::read_to_string(&path) {
        Ok(text) => {
            serde_json::from_str(&text).map_err(|source| StoreError::Parse { path, source })
        }
        Err(source) => Err(StoreError::Read { path, source }),
    }
}

fn file(folder: &Path, scenario: &str) -> PathBuf {
    folder.join(format!("{scenario}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;

    #[test]
    fn variants_that_were_not_run_again_stay() {
        let folder = tempfile::tempdir().unwrap();
        keep(folder.path(), report()).unwrap();
        let mut again = report();
        again.variants.remove(0);
        again.variants[0].samples.truncate(1);
        keep(folder.path(), again).unwrap();
        let found = find(folder.path(), "aimd-oc12").unwrap().unwrap();
        let samples: Vec<_> = found
            .variants
            .iter()
            .map(|variant| (variant.name.as_str(), variant.samples.len()))
            .collect();
        assert_eq!(samples, [("wad_aimd", 1), ("reno", 3)]);
        assert!(find(folder.path(), "datatag").unwrap().is_none());
        fs::write(folder.path().join("datatag.json"), "{}").unwrap();
        let error = find(folder.path(), "datatag").unwrap_err().to_string();
        assert!(error.contains("run the scenario again"), "{error}");
    }
}
