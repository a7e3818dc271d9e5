//! Holds what is in force on this host: nothing at the start, and from then on what the
//! last plan left. Flows are brought under it here.

use std::sync::Arc;

use anyhow::Result;
use tokio::time::Instant;
use tracing::warn;
use wad_observing::metrics::Ends;
use wad_policy::switch::Disabled;
use wad_tuning::{
    bpf::{self, Tuning},
    host::Host,
    journal::Journal,
};

use super::{Agent, buffers::Buffers, divisions::Divisions, recounts::Recounts};
use crate::flow_log::FlowLog;

/// Holds what is in force.
pub struct Force<'a> {
    pub agent: &'a Agent<'a>,
    pub journal: &'a mut Journal,
    pub disabled: Disabled,
    pub host: Host,
    /// The tuning; None until the start has installed it.
    pub(super) tuning: Option<Arc<Tuning>>,
    /// The log of flows; None until the start follows them.
    pub(super) flows: Option<FlowLog>,
    /// The ends of flows that have ended, which they leave to the metrics.
    pub ends: Ends,
    divisions: Divisions,
    /// The buffers that grow, and the memory that flows hold.
    pub buffers: Buffers,
    pub(super) recounts: Recounts,
    /// When the policy set before the one in force is to go.
    pub retiring: Option<Instant>,
}

impl<'a> Force<'a> {
    pub fn nothing(agent: &'a Agent<'a>, journal: &'a mut Journal, disabled: Disabled) -> Self {
        Self {
            agent,
            journal,
            disabled,
            host: Host::default(),
            tuning: None,
            flows: None,
            ends: Ends::default(),
            divisions: Divisions::default(),
            buffers: Buffers::new(),
            recounts: Recounts::new(),
            retiring: None,
        }
    }

    pub fn tuning(&self) -> &Arc<Tuning> {
        self.tuning.as_ref().expect("the start has installed it")
    }

    pub fn flows(&mut self) -> &mut FlowLog {
        self.flows.as_mut().expect("the start follows them")
    }

    /// Brings running flows under the policy in force. A failure leaves new flows
    /// tuned, and the others as they are.
    pub fn adopt(&mut self) {
        let adopted = self.tuning().adopt_running().map_err(anyhow::Error::from);
        let some_wait = adopted.unwrap_or_else(|error| {
            warn!("not all flows that run follow the policy: {error:#}");
            false
        });
        self.divisions.visited(some_wait);
    }

    /// Has flows follow a policy set that has just come into force. The one before it
    /// stays for those that are in a handshake; at the start, for those of an agent
    /// before this one.
    pub fn adopt_anew(&mut self) {
        self.adopt();
        self.retiring = Some(Instant::now() + bpf::HANDSHAKE);
    }

    pub fn retire(&mut self) {
        self.retiring = None;
        // Those that were in a handshake got what the set before says.
        self.adopt();
        if let Err(error) = self.tuning().retire().map_err(anyhow::Error::from) {
            warn!("the policy set before the one in force keeps its memory: {error:#}");
        }
    }

    /// Flows of paths that divide their buffers follow those that have come or gone.
    pub fn divide(&mut self) {
        match self.tuning().divisions() {
            Ok(counted) if self.divisions.are_due(counted) => self.adopt(),
            Ok(_) => {}
            Err(error) => warn!("divided buffers stay as they are: {error}"),
        }
        if self.tuning().looked_at().is_ok_and(|counted| self.buffers.have_come(counted)) {
            self.grow();
        }
    }

    /// Buffers follow what their flows need, and what memory there is.
    pub fn grow(&mut self) {
        let tuning = Arc::clone(self.tuning());
        self.buffers.look(&tuning);
    }

    /// Counts follow the flows that there are.
    pub fn recount(&mut self) {
        let tuning = Arc::clone(self.tuning());
        self.recounts.look(&tuning);
    }

    /// Ends what the agent does beside the kernel. What is in force there stays, unless
    /// it is to be taken out.
    pub fn end(self, takes_out: bool) -> Result<()> {
        if takes_out {
            self.tuning().remove()?;
        }
        if let Some(flows) = self.flows {
            flows.finish();
        }
        Ok(())
    }
}
