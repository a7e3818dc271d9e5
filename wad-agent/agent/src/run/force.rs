//! Holds what is in force on this host: nothing at the start, and from then on what the
//! last plan left. Flows are brought under it here.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::Result;
use tokio::time::{Instant, timeout};
use tracing::warn;
use wad_linux::netns::Skipped;
use wad_observing::{metrics::Ends, owners::Owners};
use wad_policy::switch::LeftAlone;
use wad_toolbox::{mutex::locked, seldom::Seldom, shortage};
use wad_tuning::{
    bpf::{self, BroughtAlong, Tuning, TuningError},
    ceilings::TooLow,
    cgroup_bits::Groups,
    host::Host,
    journal::Journal,
    namespaces::Followed,
};

use super::{
    Agent,
    adopting::{Adopting, Ended, Pass},
    beside::Beside,
    buffers::{Buffers, processor_time},
    cgroups,
    divisions::Divisions,
    following::Following,
    known_pods,
    links::Watch,
    recounts::Recounts,
};
use crate::flow_log::FlowLog;

/// Holds what is in force.
pub struct Force<'a> {
    pub agent: &'a Agent<'a>,
    /// Passes over network namespaces have it meanwhile, for one of these at a time.
    pub journal: Arc<Mutex<Journal>>,
    pub left_alone: LeftAlone,
    pub host: Host,
    /// The ceilings that could not be raised for the policy in force.
    pub too_low: Vec<TooLow>,
    /// The tuning; None until the start has installed it.
    pub(super) tuning: Option<Arc<Tuning>>,
    /// The log of flows; None until the start follows them.
    pub(super) flows: Option<FlowLog>,
    /// The ends of flows that have ended, which they leave to the metrics.
    pub ends: Ends,
    divisions: Divisions,
    /// That flows that run cannot be brought along.
    unadopted: Seldom,
    /// The last pass over flows that run has failed, and is to be made again.
    adopts_again: bool,
    /// The buffers that grow, and the memory that flows hold.
    pub buffers: Buffers,
    pub(super) recounts: Recounts,
    pub(super) adopting: Adopting,
    pub(super) following: Following,
    /// Visits to flows whose buffers grow.
    pub(super) growing: Beside<Grown>,
    /// Network namespaces that passes over flows have left out.
    pub skipped: Arc<Mutex<Skipped>>,
    /// The watch for parts that others take off the kernel.
    pub links: Watch,
    /// When the policy set before the one in force is to go.
    pub retiring: Option<Instant>,
    /// The cgroups that paths depend on.
    pub(super) cgroups: cgroups::Followed,
    /// The pods that paths and the names of flows depend on.
    pub(super) pods: known_pods::Followed,
    /// Names whose flows are, for all who tell of them.
    pub owners: Arc<Owners>,
    /// The pass over all flows that follows what was heard of pods last.
    pods_after: Option<u64>,
    /// The pass over all flows after which it goes.
    retires_after: Option<u64>,
}

/// A visit to flows whose buffers grow came to this, and took so much of a processor's
/// time.
pub type Grown = (Result<Skipped, TuningError>, Duration);

/// Whoever can ask the agent finds flows tuned that ran before it: so long it waits for
/// that, and goes on if there are too many network namespaces.
const START_PATIENCE: Duration = Duration::from_secs(10);

impl<'a> Force<'a> {
    pub fn nothing(
        agent: &'a Agent<'a>,
        journal: &Arc<Mutex<Journal>>,
        left_alone: LeftAlone,
        pods: known_pods::Followed,
    ) -> Result<Self> {
        Ok(Self {
            agent,
            journal: Arc::clone(journal),
            left_alone,
            host: Host::new(&locked(journal))?,
            too_low: Vec::new(),
            tuning: None,
            flows: None,
            ends: Ends::default(),
            divisions: Divisions::default(),
            unadopted: Seldom::new(),
            adopts_again: false,
            buffers: Buffers::new(),
            recounts: Recounts::new(),
            adopting: Adopting::new(),
            following: Following::new(),
            growing: Beside::idle(),
            skipped: Arc::default(),
            links: Watch::default(),
            retiring: None,
            cgroups: cgroups::Followed::nothing(),
            pods,
            owners: Arc::default(),
            pods_after: None,
            retires_after: None,
        })
    }

    pub fn tuning(&self) -> &Arc<Tuning> {
        self.tuning.as_ref().expect("the start has installed it")
    }

    pub fn flows(&mut self) -> &mut FlowLog {
        self.flows.as_mut().expect("the start follows them")
    }

    /// Has flows follow a policy set that has just come into force. The one before it
    /// stays for those that are in a handshake; at the start, for those of an agent
    /// before this one.
    pub fn adopt_anew(&mut self) {
        self.adopt(Pass::All);
        self.retires_after = None;
        self.retiring = Some(Instant::now() + bpf::HANDSHAKE);
    }

    /// Leaves the flows of other paths alone from now on, and tunes all others. Returns the number of
    /// the policy set. If it fails, nothing is changed.
    pub fn leave_alone(&mut self, left_alone: LeftAlone) -> Result<u64, TuningError> {
        let policy_set = self.tuning().switch(&left_alone)?;
        self.adopt_anew();
        self.host.follow(&left_alone.as_disabled());
        self.left_alone = left_alone;
        Ok(policy_set)
    }

    /// Returns the cgroups that there are, and whose they are.
    pub fn groups(&self) -> Groups<'_> {
        Groups { cgroups: self.cgroups.cgroups(), pods: self.pods.pods() }
    }

    /// There are other pods, or they have other labels.
    pub fn follow_pods(&mut self) {
        self.name_by_pods();
        self.follow_groups();
    }

    /// Has connections matched by the cgroups and pods that there are now. Those that were made
    /// before these were known are brought along.
    pub fn follow_groups(&mut self) {
        match self.tuning().follow_groups(self.groups()).map_err(anyhow::Error::from) {
            Ok(true) => {
                let pass = self.adopt(Pass::All);
                if self.pods.paths_depend() {
                    self.pods_after = Some(pass);
                }
            }
            Ok(false) => {}
            Err(error) => warn!("paths for cgroups and pods do not match new ones: {error:#}"),
        }
        self.keep_pods();
    }

    /// Has the pods that are known now kept for the next agent.
    pub fn keep_pods(&mut self) {
        self.pods.keep(self.cgroups.cgroups());
    }

    /// Has connections named by the pods that there are now.
    pub fn name_by_pods(&self) {
        self.owners.set_pods(Arc::clone(self.pods.pods()));
    }

    /// Brings running flows under the policy in force, beside the event loop. Returns the
    /// number of the pass.
    pub fn adopt(&mut self, pass: Pass) -> u64 {
        let tuning = Arc::clone(self.tuning());
        self.adopting.ask(pass, &tuning)
    }

    /// Flows have been brought along. A failure leaves new flows tuned, and the others as
    /// they are.
    pub fn adopted(&mut self, ended: Ended) {
        self.adopts_again = ended.is_err();
        let BroughtAlong { skipped, adopted } = match ended.map_err(anyhow::Error::from) {
            Ok(brought) => {
                self.unadopted.forget();
                brought
            }
            Err(error) => {
                shortage::note(error.as_ref());
                if self.unadopted.may_say() {
                    warn!(
                        "not all flows that run follow the policy, which is tried again: {error:#}"
                    );
                }
                BroughtAlong::default()
            }
        };
        locked(&self.skipped).add(skipped);
        // Buffers that shrink go on with it.
        self.buffers.look_soon();
        let tuning = Arc::clone(self.tuning());
        let done = self.adopting.go_on_after(&tuning);
        if self.pods_after.is_some_and(|pass| pass <= done) {
            self.pods_after = None;
            self.pods.count_adopted(adopted);
        }
        if self.retires_after.is_some_and(|pass| pass <= done) {
            self.retires_after = None;
            if let Err(error) = tuning.retire().map_err(anyhow::Error::from) {
                shortage::note(error.as_ref());
                warn!("the policy set before the one in force keeps its memory: {error:#}");
            }
        }
    }

    /// Waits at the start until flows that run have followed.
    pub async fn follow_at_start(&mut self) {
        if let Ok(ended) = timeout(START_PATIENCE, self.adopting.ended()).await {
            self.adopted(ended);
        }
    }

    /// Does something when flows that run have followed what is in force, or when it takes
    /// too long.
    pub fn when_followed(&self, patience: Duration, then: impl FnOnce() + Send + 'static) {
        let followed = self.adopting.followed(patience);
        tokio::spawn(async move {
            followed.await;
            then();
        });
    }

    /// The policy set before the one in force goes, when those that were in a handshake
    /// have got what it says.
    pub fn retire(&mut self) {
        self.retiring = None;
        self.retires_after = Some(self.adopt(Pass::All));
    }

    /// Whether the set before is about to go.
    pub const fn is_retiring(&self) -> bool {
        self.retires_after.is_some()
    }

    /// Flows of paths that divide their buffers follow those that have come or gone.
    pub fn divide(&mut self) {
        if self.adopting.is_at_rest() {
            match self.tuning().divisions() {
                _ if self.adopts_again => {
                    self.adopt(Pass::All);
                }
                Ok(counted) if self.divisions.are_due(counted) => {
                    self.adopt(Pass::Tuned);
                }
                Ok(_) => {}
                Err(error) => warn!("divided buffers stay as they are: {error}"),
            }
        }
        if self.tuning().looked_at().is_ok_and(|counted| self.buffers.have_come(counted)) {
            self.grow();
        }
    }

    /// Buffers follow what their flows need, and what memory there is; and the network
    /// namespaces that flows are in.
    pub fn grow(&mut self) {
        let tuning = Arc::clone(self.tuning());
        let (namespaces, flows) = self.buffers.look(&tuning);
        if !namespaces.is_empty() {
            self.growing.start(move || {
                let begun = processor_time();
                let skipped = tuning.grow(&namespaces);
                (skipped, processor_time().saturating_sub(begun))
            });
        }
        self.following.look(flows, &self.host, &self.journal);
    }

    /// Flows have been followed into their network namespaces. Whether the journal has
    /// changed.
    pub fn followed(&mut self, followed: Followed) -> bool {
        locked(&self.skipped).add(followed.skipped);
        followed.has_changed
    }

    /// Flows have been visited whose buffers grow. What failed is tried again at the next
    /// look.
    pub fn grown(&mut self, (skipped, took): Grown) {
        match skipped {
            Ok(skipped) => locked(&self.skipped).add(skipped),
            Err(error) => self.buffers.failed(&error.into()),
        }
        self.buffers.visits_took = took;
    }

    /// Counts follow the flows that there are.
    pub fn recount(&mut self) {
        let tuning = Arc::clone(self.tuning());
        self.recounts.look(&tuning);
    }

    /// Ends what the agent does beside the kernel. What is in force there stays, unless
    /// it is to be taken out.
    pub async fn end(mut self, takes_out: bool) -> Result<()> {
        // No flow is to come under what is taken out, and no namespace to get what is undone.
        self.adopting.stop().await;
        self.following.stop().await;
        if takes_out {
            self.tuning().remove()?;
        }
        if let Some(flows) = self.flows {
            flows.finish();
        }
        Ok(())
    }
}
