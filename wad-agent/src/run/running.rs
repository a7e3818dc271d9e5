//! What changes while the agent runs, and how it is changed: whole, or not at all.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use tokio::time;
use tracing::warn;

use super::{
    bound::{kernel_buffers, max_memory_bytes},
    divisions::Divisions,
};
use crate::{
    bpf::{self, Tuning},
    ceilings::Ceilings,
    config::{Config, PathPolicy},
    host::Host,
    instance::Instance,
    journal::{Change, Journal},
    kernel_modules,
    live_flows::LiveFlows,
    measured::{Board, Measured},
    metrics::Reloads,
    reload::{Diff, Fingerprints, InForce},
    routes::Selection,
    sources::Cache,
    switch::Disabled,
};

/// What changes while it runs.
pub struct Running<'a> {
    pub tuning: Arc<Tuning>,
    pub journal: &'a mut Journal,
    pub in_force: InForce,
    pub measured: Measured,
    /// Those that the paths in force need.
    pub ceilings: Ceilings,
    /// The text of the configuration when last it was read, by its fingerprint.
    pub seen: Option<u64>,
    pub disabled: Disabled,
    pub divisions: Divisions,
    /// When the policy set before the one in force is to go.
    pub retiring: Option<time::Instant>,
    pub told: Arc<Mutex<Told>>,
    pub board: Arc<Mutex<Board>>,
    pub host: Host,
    pub live: Arc<LiveFlows>,
}

/// What the answers to questions say beside the kernel's counts.
pub struct Told {
    /// What the journal would undo.
    pub changes: Vec<Change>,
    pub reloads: Reloads,
}

impl Running<'_> {
    /// Puts a configuration in force. If that fails, all is as before.
    pub fn apply(
        &mut self,
        mut config: Config,
        cache: &Cache,
        instance: &Instance,
    ) -> Result<(u64, Diff)> {
        let prints = Fingerprints::of(&config);
        let diff = self.in_force.diff(&config, &prints);
        kernel_modules::load(&config.paths)?;
        let max_memory_bytes = max_memory_bytes(&config, self.journal.sysctl())?;
        let kernel = kernel_buffers(self.journal);
        let mut measured = Measured::new(&config, max_memory_bytes, kernel, cache.clone());
        measured.take_over(&self.measured);
        let policies = measured.policies().unwrap_or_else(|| std::mem::take(&mut config.paths));
        let policy_set = self.put_in_force(&policies, max_memory_bytes, instance)?;
        let selection = Selection::of(&policies);
        self.host.put_in_force(&config.host, selection, &self.disabled, self.journal);
        self.live.set(config.derived.clone());
        self.in_force = InForce::new(config, prints, self.tuning.path_names());
        // The tasks that asked for the configuration before end here.
        self.measured = measured;
        self.measured.start(&self.tuning);
        *self.board.lock().unwrap_or_else(PoisonError::into_inner) = self.measured.board();
        Ok((policy_set, diff))
    }

    /// Returns the number of the policy set. If it fails, all is as before.
    pub fn put_in_force(
        &mut self,
        policies: &[PathPolicy],
        max_memory_bytes: u64,
        instance: &Instance,
    ) -> Result<u64> {
        let ceilings = Ceilings::of(policies);
        let changed = ceilings
            .raise(self.journal)
            .map_err(anyhow::Error::from)
            .and_then(|()| Ok(self.tuning.change(policies, max_memory_bytes, instance)?));
        if changed.is_ok() {
            self.adopt();
            self.ceilings = ceilings;
            self.retiring = in_a_handshake();
        }
        // To what is needed by what is in force now.
        if let Err(error) = self.ceilings.lower(self.journal).map_err(anyhow::Error::from) {
            warn!("{error:#}");
        }
        changed
    }

    pub fn retire(&mut self) {
        self.retiring = None;
        // Those that were in a handshake got what the set before says.
        self.adopt();
        if let Err(error) = self.tuning.retire().map_err(anyhow::Error::from) {
            warn!("the policy set before the one in force keeps its memory: {error:#}");
        }
    }

    /// Brings running flows under the policy in force.
    pub fn adopt(&mut self) {
        let some_wait = adopt_running(&self.tuning);
        self.divisions.visited(some_wait);
    }

    /// Flows of paths that divide their buffers follow those that have come or gone.
    pub fn divide(&mut self) {
        match self.tuning.divisions() {
            Ok(counted) if self.divisions.are_due(counted) => self.adopt(),
            Ok(_) => {}
            Err(error) => warn!("divided buffers stay as they are: {error}"),
        }
    }

    pub fn tell(&self, change: impl FnOnce(&mut Told)) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.changes = self.journal.changes().cloned().collect();
        change(&mut told);
    }
}

pub fn in_a_handshake() -> Option<time::Instant> {
    Some(time::Instant::now() + bpf::HANDSHAKE)
}

/// A failure leaves new flows tuned, and the others as they are. Whether some wait to
/// be visited again.
pub fn adopt_running(tuning: &Tuning) -> bool {
    tuning.adopt_running().map_err(anyhow::Error::from).unwrap_or_else(|error| {
        warn!("not all flows that run follow the policy: {error:#}");
        false
    })
}
