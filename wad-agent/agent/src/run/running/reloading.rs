//! The configuration is read again while the agent runs: it comes into force whole, or all
//! stays as it was.

use anyhow::Result;
use tracing::{error, info, warn};
use wad_policy::config::{Config, Texts};
use wad_toolbox::{causes::with_causes, shortage};

use super::{Running, in_use, put::Next};
use crate::{
    reload::{self, Diff, Fingerprints, Refusal, ReloadOutcome},
    run::{meant::Beside, memory::give_memory_back, parse},
    service_manager,
    sets::Sets,
};

impl Running<'_> {
    /// Reads the configuration again, and puts it in force or changes nothing.
    pub(super) fn reload(&mut self) -> ReloadOutcome {
        service_manager::reloading();
        let outcome = match self.read_again() {
            Err(error) => ReloadOutcome::Refused { reason: with_causes(&error) },
            Ok((config, texts)) => match self.apply(config) {
                Ok((policy_set, diff)) => {
                    if let Some(in_force) = &mut self.texts {
                        *in_force = texts;
                    }
                    ReloadOutcome::Applied { policy_set, diff: Box::new(diff) }
                }
                Err(error) => {
                    shortage::note(error.as_ref());
                    ReloadOutcome::Failed { reason: with_causes(&error) }
                }
            },
        };
        match &outcome {
            ReloadOutcome::Applied { policy_set, diff } => {
                info!(policy_set, "the configuration's paths are in force: {diff}");
            }
            ReloadOutcome::Refused { reason } | ReloadOutcome::Failed { reason } => {
                error!("the policy stays as it was: {reason}");
            }
        }
        self.tell(|told| outcome.count(&mut told.reloads));
        give_memory_back();
        service_manager::ready(&self.summary());
        outcome
    }

    /// The configuration, if it is one that can be put in force without a restart, and its
    /// texts.
    fn read_again(&mut self) -> Result<(Config, Texts)> {
        let options = self.agent.options;
        let texts = options.texts();
        self.seen = reload::fingerprint(&texts);
        let texts = texts?;
        let (config, host) = parse::configuration(&texts, options)?;
        parse::tell_choices(&config.paths, &host);
        let fields = self.in_force.restart_only(&config);
        if fields.is_empty() {
            Ok((config, texts))
        } else {
            Err(Refusal::RestartOnly(fields).into())
        }
    }

    pub(super) fn has_other_texts(&self) -> bool {
        reload::fingerprint(&self.agent.options.texts()) != self.seen
    }

    /// Puts a configuration in force. If that fails, all is as before.
    fn apply(&mut self, config: Config) -> Result<(u64, Diff)> {
        let diff = self.in_force.diff(&config, &Fingerprints::of(&config));
        let (log, has_page) = (config.log, config.page.is_some());
        let agent = self.agent;
        let servers = self.servers.as_mut().expect("they serve from the end of the start on");
        // What can fail for others' reasons comes before any change to the host.
        let listeners = servers.bind(&config, agent.lock)?;
        let sinks = agent.sinks.prepare(&config.sinks)?;
        let traces = self.traces.prepare(&config.traces)?;
        self.exporter.prepare(config.otlp.as_ref())?;
        let probing = self.probes.prepare(config.probe.as_ref())?;
        let talking = self.peers.prepare(&config)?;
        let mut sets = Sets::new(&config.lists(), agent.sets.clone(), Some(&self.sets));
        let paths = self.learning.paths(config.learn);
        let heard = self.hearing.in_force();
        let beside = Beside { learned: &paths, heard: &heard };
        let names = self.force.tuning().path_names();
        let experiments = self.evidence.wanted(&config.paths);
        let before = Some(&self.measured);
        let next = Next { config, sets: &mut sets, beside, before };
        let put = next.put(&mut self.force)?;
        let new_names = self.force.tuning().path_names();
        let diff = diff.with_learned(&names, new_names.iter().map(|name| &**name));
        // The tasks that looked for the sets before end here.
        self.sets = sets;
        self.sets.start(&in_use(&self.live));
        let policy_set = put.installed.policy_set;
        servers.put_in_force(listeners, agent.lock);
        agent.sinks.put_in_force(sinks);
        agent.sinks.recent().keep(has_page);
        self.go_on_with(put);
        self.evidence.follow(&experiments, self.force.tuning());
        self.traces.put_in_force(traces, &self.live);
        self.exporter.put_in_force(self.in_force.otlp());
        self.probes.put_in_force(probing);
        self.peers.put_in_force(talking);
        if let Err(error) = self.force.leave_out_events() {
            warn!("sinks get no kinds of events that none had: {}", with_causes(&error));
        }
        if let Err(error) = self.force.tuning().forget_capacities() {
            warn!("what is saved of paths is kept: {}", with_causes(&error.into()));
        }
        if let Err(error) = self.agent.log.change(log) {
            warn!("the log stays as it was: {}", with_causes(&error.into()));
        }
        Ok((policy_set, diff))
    }
}
