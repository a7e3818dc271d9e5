//! The hands that carry out a plan on this host.

use std::sync::Arc;

use anyhow::Result;
use tracing::{info, warn};
use wad_observing::events;
use wad_policy::config::{HostChanges, PathPolicy, route_rules::Selection};
use wad_toolbox::mutex::locked;
use wad_tuning::{
    bpf::{Pins, Setup, Start, Started, Tuning},
    ceilings::{Ceilings, Raised, TooLow},
    kernel_modules,
};

use super::{
    force::Force,
    plan::{self, Hands, Step},
};
use crate::flow_log::{FlowLog, Hearers};

/// Holds what is to be in force.
pub struct Wanted<'w> {
    pub policies: &'w [PathPolicy],
    pub host: &'w HostChanges,
}

/// How the policy set that is in force has come there.
#[derive(Clone, Copy, Debug)]
pub struct Installed {
    pub policy_set: u64,
    /// How tuning started; None where tuning was there, and was given another policy
    /// set.
    start: Option<Start>,
}

/// Carries out a plan. If that fails, all is as before.
pub fn put(force: &mut Force<'_>, plan: &[Step], wanted: &Wanted<'_>) -> Result<Installed> {
    let mut change = Change { force, wanted, raised: Raised::default(), installed: None };
    plan::carry_out(plan, &mut change)?;
    let Change { force, raised, installed, .. } = change;
    force.have_too_low(raised.too_low);
    Ok(installed.expect("every plan installs a policy set"))
}

/// A change is one plan being carried out, with what its undo takes.
struct Change<'c, 'a, 'w> {
    force: &'c mut Force<'a>,
    wanted: &'c Wanted<'w>,
    raised: Raised,
    installed: Option<Installed>,
}

impl Hands for Change<'_, '_, '_> {
    fn carry_out(&mut self, step: Step) -> Result<()> {
        let Self { force, wanted, raised, installed } = self;
        match step {
            Step::LoadModules => kernel_modules::load(wanted.policies)?,
            Step::RaiseCeilings => {
                let mut journal = locked(&force.journal);
                *raised = Ceilings::of_file(wanted.policies).raise_what_may_be(&mut journal)?;
                // One path's number is no reason to leave the others' as they were.
                let measured = Ceilings::of(wanted.policies);
                raised.extend(measured.raise_what_can_be(&mut journal));
            }
            Step::InstallPolicySet => *installed = Some(force.install(wanted)?),
            Step::FollowFlows => force.follow_flows()?,
            Step::ChangeHost => force.host.put_in_force(
                wanted.host,
                Selection::of(wanted.policies),
                &force.left_alone.as_disabled(),
                &mut locked(&force.journal),
            ),
            Step::AdoptFlows => force.adopt_anew(),
            Step::LowerCeilings => {
                let lowered = Ceilings::of(wanted.policies).lower(&mut locked(&force.journal));
                if let Err(error) = lowered.map_err(anyhow::Error::from) {
                    warn!("{error:#}");
                }
                let names = force.tuning().names();
                force.host.want_in_namespaces(wanted.policies, &names);
            }
        }
        Ok(())
    }

    fn undo(&mut self, step: Step) {
        match step {
            Step::RaiseCeilings => {
                std::mem::take(&mut self.raised).undo(&mut locked(&self.force.journal));
            }
            Step::InstallPolicySet => {
                if let Some(installed) = self.installed.take() {
                    self.force.uninstall(installed);
                }
            }
            // A module serves others as well; after the other steps nothing fails.
            Step::LoadModules
            | Step::FollowFlows
            | Step::ChangeHost
            | Step::AdoptFlows
            | Step::LowerCeilings => {}
        }
    }
}

impl Force<'_> {
    fn install(&mut self, wanted: &Wanted<'_>) -> Result<Installed> {
        let Wanted { policies, .. } = *wanted;
        let instance = &self.agent.options.instance;
        self.cgroups.follow_for(policies)?;
        if let Some(tuning) = &self.tuning {
            let policy_set = tuning.change(policies, instance, self.groups())?;
            // A change that fails leaves paths that may depend on them.
            self.cgroups.leave_unless_for(policies);
            return Ok(Installed { policy_set, start: None });
        }
        // Unmounted with the rest of the journal, when the agent ends.
        locked(&self.journal).ensure_bpffs(self.agent.lock)?;
        let setup = Setup {
            instance,
            cgroup: &self.agent.cgroup,
            paths: policies,
            left_alone: &self.left_alone,
            groups: self.groups(),
        };
        let pins = Pins::new(self.agent.lock, instance);
        let Started { tuning, how, policy_set } = Tuning::start(pins, &setup)?;
        self.tuning = Some(Arc::new(tuning));
        Ok(Installed { policy_set, start: Some(how) })
    }

    /// Says which ceilings stay too low, of those that did not before.
    fn have_too_low(&mut self, too_low: Vec<TooLow>) {
        let is_new = |now: &&TooLow| self.too_low.iter().all(|before| before.key != now.key);
        too_low.iter().filter(is_new).for_each(|now| warn!("{now}"));
        self.too_low = too_low;
    }

    /// Takes out what the start has made. What it has taken over stays: flows of the
    /// agent before are under it.
    fn uninstall(&mut self, installed: Installed) {
        if installed.start == Some(Start::Fresh)
            && let Some(tuning) = self.tuning.take()
            && let Err(error) = tuning.remove().map_err(anyhow::Error::from)
        {
            warn!("{error:#}");
        }
    }

    fn follow_flows(&mut self) -> Result<()> {
        let tuning = Arc::clone(self.tuning());
        if let Some(flows) = &mut self.flows {
            flows.rename(&tuning);
            return Ok(());
        }
        self.leave_out_events()?;
        let sinks = &self.agent.sinks;
        let hearers = Hearers {
            sinks: Arc::clone(sinks),
            ends: self.ends.clone(),
            experiments: self.agent.experiments.clone(),
        };
        self.flows = Some(FlowLog::open(&tuning, hearers, Arc::clone(&self.owners))?);
        Ok(())
    }

    /// Has the kernel side send no events that no sink takes.
    pub fn leave_out_events(&self) -> Result<()> {
        let unwanted = events::unwanted(|event| self.agent.sinks.want(event));
        Ok(self.tuning().leave_out(&unwanted)?)
    }
}

impl Installed {
    /// Says in the log how tuning came about, where it did.
    pub fn log_start(self, paths: usize) {
        match self.start {
            None => {}
            Some(Start::Fresh) => info!(paths, "tuning new flows"),
            Some(Start::TakenOver) => {
                info!(paths, "took over the tuning of an agent before this one");
            }
            Some(Start::Upgraded) => info!(
                paths,
                "took over the tuning of another version of wad: its programs are replaced, \
                 counts start at zero"
            ),
        }
    }
}
