//! Works out what a reload would change: the same steps as far as they change nothing.

use std::collections::{HashMap, HashSet};

use anyhow::Result;
use wad_common::policy::Policy;
use wad_policy::config::{
    Config, Host, InForce as Known, Origin, PathPolicy, Settings, Texts, route_rules::Selection,
};
use wad_toolbox::{causes::with_causes, mutex::locked};
use wad_tuning::{
    ceilings::Ceilings,
    explain::{Offline, RuleSet as _},
    kernel_modules,
    preview::HostPreview,
    readings::PathState,
};

use super::{
    Agent,
    force::Force,
    hearing::Hearing,
    learning::Learning,
    meant::{Beside, Meant},
    servers::Servers,
};
use crate::{
    measured::Measured,
    probes::Probes,
    reload::{Changes, Fingerprints, InForce, PathPreview, Refusal, ReloadPreview, SettingPreview},
    sets::Sets,
};

/// Holds what is in force.
pub struct Now<'n> {
    pub agent: &'n Agent<'n>,
    pub force: &'n Force<'n>,
    pub in_force: &'n InForce,
    pub measured: &'n Measured,
    pub sets: &'n Sets,
    pub learning: &'n Learning,
    pub hearing: &'n Hearing,
    pub servers: &'n Servers,
    pub probes: &'n Probes,
}

impl Now<'_> {
    /// Returns what a reload of the agent's own files would change, or of other texts.
    pub fn preview(&self, others: Option<Texts>) -> ReloadPreview {
        self.would_apply(others)
            .unwrap_or_else(|error| ReloadPreview::WouldRefuse { reason: with_causes(&error) })
    }

    fn would_apply(&self, others: Option<Texts>) -> Result<ReloadPreview> {
        let texts = match others {
            Some(others) => others,
            None => self.agent.options.texts()?,
        };
        // The kernel is not asked for modules: it would load them.
        let host = Host::read()?;
        let mut config = Config::check(&texts, &host)?;
        self.agent.options.complete(&mut config);
        let fields = self.in_force.restart_only(&config);
        if !fields.is_empty() {
            return Err(Refusal::RestartOnly(fields).into());
        }
        // They are left again at once.
        drop(self.servers.bind(&config, self.agent.lock)?);
        self.probes.try_out(config.probe.as_ref())?;
        let diff = self.in_force.diff(&config, &Fingerprints::of(&config));
        let policies = self.policies(&mut config)?;
        let names = policies.iter().map(|policy| &*policy.name);
        let diff = diff.with_learned(&self.force.tuning().path_names(), names);
        let changed = diff.changed.iter().map(String::as_str).collect();
        let flows = self.flows(&policies, &changed)?;
        let host = self.host(&config, &policies, &host)?;
        Ok(ReloadPreview::WouldApply(Box::new(Changes { diff, flows, host })))
    }

    /// Returns the paths with what their lists hold and what is measured of them, and those
    /// that are learned.
    fn policies(&self, config: &mut Config) -> Result<Vec<PathPolicy>> {
        let mut sets = Sets::new(&config.lists(), self.agent.sets.clone(), Some(self.sets));
        let paths = self.learning.paths(config.learn);
        let beside = Beside { learned: &paths, heard: &self.hearing.in_force() };
        let all = (config, &mut sets, beside);
        let meant = Meant::of(self.agent, &self.force.journal, all, Some(self.measured))?;
        Ok(meant.policies)
    }

    fn host(&self, config: &Config, policies: &[PathPolicy], host: &Host) -> Result<HostPreview> {
        let force = self.force;
        let journal = locked(&force.journal);
        let selection = Selection::of(policies);
        let mut preview = force.host.preview(
            &config.host,
            &selection,
            &force.left_alone.as_disabled(),
            &journal,
        )?;
        preview.modules = kernel_modules::missing(policies, host);
        preview.congestion_controls =
            force.tuning().unregistered(policies, &self.agent.options.instance);
        preview.sysctls.extend(Ceilings::of(policies).moves(&journal)?);
        Ok(preview)
    }

    /// Returns what flows would get anew, of the paths that change.
    fn flows(&self, policies: &[PathPolicy], changed: &HashSet<&str>) -> Result<Vec<PathPreview>> {
        let before: HashMap<_, _> = self.force.tuning().policies()?.into_iter().collect();
        let disabled = self.force.left_alone.as_disabled();
        let next = Offline::new(policies, &self.agent.options.instance, &disabled);
        let origin = Origin::default();
        let mut flows = Vec::new();
        for (index, path) in (0..).zip(policies) {
            if !changed.contains(path.name.as_str()) {
                continue;
            }
            let Ok(known) = next.policy(index);
            let Some(before) = before.get(path.name.as_str()) else { continue };
            let after = match known.state {
                PathState::Tuned => known.policy,
                PathState::Observed => Policy::observing(known.policy.name),
                // Nothing changes for flows that get nothing.
                PathState::Disabled | PathState::HeldBack => continue,
            };
            let settings = |policy| Settings::of_path(Known { policy, origin: &origin });
            let settings = differing(&settings(before), &settings(&after));
            if !settings.is_empty() {
                flows.push(PathPreview { path: path.name.clone(), settings });
            }
        }
        Ok(flows)
    }
}

/// Returns the settings that are not the same in both.
fn differing(before: &Settings, after: &Settings) -> Vec<SettingPreview> {
    let differs = |(name, before): (&str, Option<&_>)| {
        let after = after.get(name);
        let (before, after) = (before.cloned(), after.cloned());
        (before != after).then(|| SettingPreview { name: name.to_owned(), before, after })
    };
    before.iter().filter_map(differs).collect()
}
