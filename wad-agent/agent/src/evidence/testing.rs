//! Experiments for tests.

use std::time::Duration;

use wad_evidence::experiment::Experiment;
use wad_policy::config::{AskedExperiment, PathPolicy};

use super::{Begun, Experiments, Kept};

/// Returns one that has just begun.
pub fn begun(path: &str) -> Experiments {
    let asked = AskedExperiment::default().settle(&PathPolicy::default()).expect("it fits");
    let settings = asked.begin(Duration::from_secs(1_800_000_000), 7).expect("a plan");
    let experiment = Experiment::new(settings);
    let (path, subject, begun) = (path.to_owned(), String::new(), Begun::ByFile);
    Experiments::new(vec![Kept { path, begun, subject, asked, experiment }])
}
