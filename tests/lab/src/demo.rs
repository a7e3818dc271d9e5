//! The demonstration is two scenarios, each variant once, a table and a picture.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    lab::{Lab, LabError},
    progress::Line,
    scenario::{Scenario, ScenarioError},
    svg, table,
};

const SCENARIOS: [(&str, &[&str]); 2] = [
    ("buffers-oc12", &["untuned", "tuned"]),
    ("pasted-lossy", &["untuned-1e-6", "cubic-1e-6", "pasted-1e-6"]),
];

/// Tells what made the demonstration fail.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error(transparent)]
    Lab(#[from] LabError),
    #[error("cannot write the picture {path}", path = path.display())]
    Picture { path: PathBuf, source: io::Error },
}

/// Runs the demonstration; returns the table, and where the picture is.
///
/// # Errors
/// When a run fails, or the picture cannot be written to the folder.
pub fn run(lab: &Lab, folder: &Path) -> Result<String, DemoError> {
    let path = folder.join("demo.svg");
    let failed = |source| DemoError::Picture { path: path.clone(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    let mut reports = Vec::new();
    for (name, variants) in SCENARIOS {
        let variants: Vec<String> = variants.iter().map(|name| (*name).to_owned()).collect();
        let scenario = Scenario::load(name)?.only(&variants)?;
        reports.push(lab.run(&scenario, 1, &Line::new(&scenario, 1))?);
    }
    let rows: Vec<_> = reports.iter().flat_map(svg::rows).collect();
    let picture = svg::render("What tuning changes, over time", &rows);
    fs::write(&path, picture).map_err(failed)?;
    Ok(format!("{}\nWindows over time: {}", table::render(&reports), path.display()))
}
