//! A configuration comes into force, at the start and later, with what is known beside it.

use std::{collections::HashSet, sync::Arc};

use anyhow::Result;
use tracing::warn;
use wad_policy::{
    config::{Config, PathPolicy},
    learned::Covered,
};
use wad_toolbox::mutex::locked;

use super::Running;
use crate::{
    measured::Measured,
    reload::{Fingerprints, InForce},
    run::{
        change::{self, Installed, Wanted},
        force::Force,
        guarding::{Guarded, Subjects},
        known_pods,
        meant::{Beside, Meant},
        plan,
    },
    sets::Sets,
};

/// A configuration that is to come into force.
pub struct Next<'n> {
    pub config: Config,
    pub sets: &'n mut Sets,
    pub beside: Beside<'n>,
    /// The measurements that are known, which hold on.
    pub before: Option<&'n Measured>,
}

/// A configuration that has been put in force, for all beside the kernel.
pub struct Put {
    pub installed: Installed,
    pub in_force: InForce,
    pub measured: Measured,
    /// The paths in force, where peers are told of them.
    pub policies: Vec<PathPolicy>,
    pub guarded: Vec<Guarded>,
    /// Learned paths that are not in force, as paths of the file are for their prefixes.
    pub covered: Vec<Covered>,
}

impl Next<'_> {
    /// Puts it in force. If that fails, all is as before.
    pub fn put(self, force: &mut Force<'_>) -> Result<Put> {
        let Self { mut config, sets, beside, before } = self;
        let prints = Fingerprints::of(&config);
        let subjects = Subjects::of(&config);
        let has_pods = known_pods::are_named_by(&config.paths);
        let has_set = |path: &PathPolicy| path.origin.lists().next().is_some();
        let is_kept =
            config.learn.is_some() || config.peers.is_some() || config.paths.iter().any(has_set);
        let of_file = if is_kept { config.paths.clone() } else { Vec::new() };
        let all = (&mut config, sets, beside);
        let meant = Meant::of(force.agent, &force.journal, all, before)?;
        let Meant { policies, covered, unheard, measured, max_memory_bytes } = meant;
        let covered = covered.unwrap_or_else(|unfit| {
            warn!("no learned path is in force: {unfit}");
            Vec::new()
        });
        if let Some(unfit) = unheard {
            warn!("no path by a peer's word is in force: {unfit}");
        }
        let guarded = subjects.guarded(&policies, &config.guard);
        let wanted = Wanted { policies: &policies, host: &config.host };
        let installed = change::put(force, plan::CONFIGURATION, &wanted)?;
        force.buffers.bound(max_memory_bytes);
        force.pods.follow_for(&config.kubernetes, has_pods);
        // The kernel has the paths now.
        let policies = if config.peers.is_some() { policies } else { Vec::new() };
        let names = force.tuning().path_names();
        let in_force = InForce::new(config, prints, names).with_paths(of_file);
        Ok(Put { installed, in_force, measured, policies, guarded, covered })
    }
}

impl Running<'_> {
    /// Has all beside the kernel follow what has been put in force.
    pub(super) fn go_on_with(&mut self, put: Put) {
        self.in_force = put.in_force;
        self.live.set(self.in_force.derived().clone());
        let names: HashSet<Arc<str>> = self.force.tuning().path_names().into_iter().collect();
        self.live.keep_only(|path| names.contains(path));
        // The tasks that asked for the configuration before end here.
        self.measured = put.measured;
        self.measured.start(self.force.tuning(), self.probes.own());
        *locked(&self.board) = self.measured.board();
        self.hearing.ends.are_in_force(put.policies);
        let Self { guarding, in_force, force, evidence, .. } = self;
        guarding.follow(put.guarded, in_force.guards(), (force, evidence));
        self.learning.is_in_force(self.in_force.learn(), &put.covered);
    }
}
