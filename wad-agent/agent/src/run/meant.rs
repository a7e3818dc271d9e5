//! A configuration comes to other policies by what is known here and now. Working them out
//! changes nothing: who puts them in force begins with it, and who says what would change.

use std::sync::Mutex;

use anyhow::Result;
use wad_policy::{
    config::{Config, PathPolicy, Unfit},
    heard::{self, Counted},
    learned::{self, Covered, LearnedPath},
    tuning_plan::Bounds,
};
use wad_toolbox::mutex::locked;
use wad_tuning::journal::Journal;

use super::{
    Agent,
    bound::{kernel_buffers, max_memory_bytes},
};
use crate::{measured::Measured, sets::Sets};

/// This is in force beside the configuration.
#[derive(Clone, Copy)]
pub struct Beside<'b> {
    pub learned: &'b [LearnedPath],
    /// The part of what peers say that counts.
    pub heard: &'b [Counted],
}

/// The paths of a configuration as flows are to have them, and what they are made of.
pub struct Meant {
    pub policies: Vec<PathPolicy>,
    /// Learned paths that are not among them, as paths of the file are for their prefixes; or
    /// why no learned path is.
    pub covered: Result<Vec<Covered>, Unfit>,
    /// The reason why no path by a peer's word is among them, where that is so.
    pub unheard: Option<Unfit>,
    /// It knows what is measured, and asks nobody yet.
    pub measured: Measured,
    /// How much memory TCP is to hold at most.
    pub max_memory_bytes: u64,
}

impl Meant {
    /// Works it out; the configuration's own paths move there. What is known of measured
    /// paths from `before` holds on.
    pub fn of(
        agent: &Agent<'_>,
        journal: &Mutex<Journal>,
        (config, sets, beside): (&mut Config, &mut Sets, Beside<'_>),
        before: Option<&Measured>,
    ) -> Result<Self> {
        sets.fill(&mut config.paths, &config.host);
        let journal = locked(journal);
        let max_memory_bytes = max_memory_bytes(config, journal.sysctl())?;
        let kernel = kernel_buffers(&journal);
        drop(journal);
        let bounds = Bounds::new(config.limits.max_buffer_bytes, max_memory_bytes, kernel);
        let Beside { learned, heard } = beside;
        let by_peers = heard::paths(heard, &config.paths, bounds);
        let covered = learned::add(learned, (&mut config.paths, &config.host), bounds);
        heard::follow(heard, &mut config.paths, bounds);
        let unheard = heard::add(by_peers, (&mut config.paths, &config.host)).err();
        let mut measured = Measured::new(config, max_memory_bytes, kernel, agent.cache.clone());
        if let Some(before) = before {
            measured.take_over(before);
        }
        let of_file = std::mem::take(&mut config.paths);
        let policies = measured.policies().unwrap_or(of_file);
        Ok(Self { policies, covered, unheard, measured, max_memory_bytes })
    }
}
