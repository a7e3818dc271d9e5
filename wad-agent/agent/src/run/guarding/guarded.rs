//! Paths that have a guard, of those that come into force.

use std::collections::HashMap;

use tracing::warn;
use wad_policy::{
    config::{Config, MOST_GUARDS, PathGuards, PathPolicy, subject},
    guarded::is_guarded,
};

/// A path that has a guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarded {
    pub path: String,
    /// Whom it is for and what its flows get, in words; empty where no file has it.
    pub subject: String,
    pub neighbours: Vec<String>,
}

/// The subjects of the guarded paths of a file, before anything is measured.
pub struct Subjects(HashMap<String, String>);

impl Subjects {
    pub fn of(config: &Config) -> Self {
        let guarded = config.paths.iter().filter(|path| is_guarded(&config.guard, path));
        Self(guarded.take(MOST_GUARDS).map(|path| (path.name.clone(), subject(path))).collect())
    }

    /// Returns the guarded ones of the paths that come into force.
    pub fn guarded(mut self, policies: &[PathPolicy], guards: &PathGuards) -> Vec<Guarded> {
        let guarded = || policies.iter().filter(|path| is_guarded(guards, path));
        let paths = guarded().count();
        if paths > MOST_GUARDS {
            warn!("of {paths} paths that would have a guard, the first {MOST_GUARDS} have one");
        }
        let guarded = guarded().take(MOST_GUARDS).map(|path| Guarded {
            path: path.name.clone(),
            subject: self.0.remove(&path.name).unwrap_or_default(),
            neighbours: path.neighbours.clone(),
        });
        guarded.collect()
    }
}
