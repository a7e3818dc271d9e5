//! The agent at work: what it knows beside the kernel, and how it acts on each event.

use std::{
    collections::HashSet,
    ops::ControlFlow,
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

use anyhow::Result;
use tracing::{error, info, warn};
use wad_observing::{
    live_flows::LiveFlows,
    metrics::{Delays, Reloads},
    reading::{Filter, Instruments},
};
use wad_policy::{
    config::{Config, Learn, OnExit, PathPolicy},
    learned::{Covered, LearnedPath},
    switch::{self, Order},
};
use wad_toolbox::{causes::with_causes, mutex::locked, shortage};
use wad_tuning::journal::{Change, Journal};

use super::{
    Agent, Begin,
    change::{self, Installed, Wanted},
    events::{End, Event},
    force::Force,
    learning::{Learning, Seen},
    meant::Meant,
    memory::give_memory_back,
    parse, plan,
    preview::Now,
    servers::Servers,
};
use crate::{
    api::Command,
    handing_over::HandingOver,
    measured::{self, Board, Measured},
    otlp::Exporter,
    reload::{self, Diff, Fingerprints, InForce, Refusal, ReloadOutcome},
    service_manager,
    sets::{self, InUse, SetError, Sets},
    switched,
    traces::Traces,
};

pub struct Running<'a> {
    agent: &'a Agent<'a>,
    pub force: Force<'a>,
    in_force: InForce,
    measured: Measured,
    pub sets: Sets,
    pub traces: Traces,
    pub learning: Learning,
    pub exporter: Exporter,
    /// The texts of the configuration when last they were read, by their fingerprint.
    seen: Option<u64>,
    pub told: Arc<Mutex<Told>>,
    pub board: Arc<Mutex<Board>>,
    pub live: Arc<LiveFlows>,
    /// How late the event loop is.
    pub delays: Arc<Mutex<Delays>>,
    /// The servers; None until the start is over.
    pub servers: Option<Servers>,
}

/// Flows that run are given this time to follow before it is said that all is done; they
/// follow behind the answer where there are too many network namespaces to go through.
const RELOAD_PATIENCE: Duration = Duration::from_secs(5);
/// The kill switch answers within a second.
const SWITCH_PATIENCE: Duration = Duration::from_millis(700);

/// Holds what the answers to questions say beside the kernel's counts.
pub struct Told {
    /// The changes that the journal would undo.
    pub changes: Vec<Change>,
    pub reloads: Reloads,
}

impl<'a> Running<'a> {
    /// Puts a configuration in force where nothing is. If that fails, nothing is.
    pub fn start(
        agent: &'a Agent<'a>,
        journal: &Arc<Mutex<Journal>>,
        begin: Begin,
    ) -> Result<Self> {
        let Begin { config, seen, disabled, mut learning, pods } = begin;
        let mut force = Force::nothing(agent, journal, disabled, pods)?;
        force.name_by_pods();
        let mut sets = Sets::new(&config.lists(), agent.sets.clone(), None);
        let mut traces = Traces::default();
        let ready = traces.prepare(&config.traces)?;
        let mut exporter = Exporter::default();
        exporter.prepare(config.otlp.as_ref())?;
        let paths = learning.paths(config.learn);
        let put = put(agent, &mut force, (config, &mut sets, &paths), None)?;
        let Put { installed, in_force, mut measured, learn, covered } = put;
        installed.log_start(force.tuning().path_names().len());
        let live = LiveFlows::new(
            Arc::new(Instruments::with_owners(
                Arc::clone(force.tuning()),
                Arc::clone(&force.owners),
            )),
            Arc::clone(&agent.sinks),
            force.ends.clone(),
            in_force.derived().clone(),
        );
        let live = Arc::new(live);
        traces.put_in_force(ready, &live);
        exporter.put_in_force(in_force.otlp());
        let changes = locked(journal).changes().cloned().collect();
        let told = Told { changes, reloads: Reloads::start() };
        let board = Arc::new(Mutex::new(measured.board()));
        measured.start(force.tuning());
        sets.start(&in_use(&live));
        learning.is_in_force(learn, &covered);
        give_memory_back();
        Ok(Self {
            agent,
            force,
            in_force,
            measured,
            sets,
            traces,
            learning,
            exporter,
            seen,
            told: Arc::new(Mutex::new(told)),
            board,
            live,
            delays: Arc::default(),
            servers: None,
        })
    }

    /// Acts on an event. Breaks at the agent's end, with what it says of that.
    pub fn heed(&mut self, event: Event) -> ControlFlow<Result<End>> {
        match event {
            Event::Stop => return ControlFlow::Break(Ok(End::Stopped)),
            Event::FlowsEnded(ended) => return ControlFlow::Break(ended.map(|()| End::Stopped)),
            Event::Command(Command::HandOver(answer)) => {
                let leaves = self.agent.options.takes_over;
                let outcome = if leaves { HandingOver::leaving() } else { HandingOver::Staying };
                // Who asked and has gone does not want the place any more.
                if answer.send(outcome).is_ok() && leaves {
                    return ControlFlow::Break(Ok(End::HandedOver));
                }
            }
            Event::HangUp => {
                self.reload();
            }
            Event::File if self.has_other_texts() => {
                info!("the configuration's files have changed");
                self.reload();
            }
            Event::File => {}
            // Whoever asked may have gone when it is done.
            Event::Command(Command::Reload(answer)) => {
                let outcome = self.reload();
                self.force.when_followed(RELOAD_PATIENCE, move || _ = answer.send(outcome));
            }
            Event::Command(Command::Preview(other, answer)) => {
                let Self { agent, force, in_force, measured, sets, learning, servers, .. } = self;
                let servers = servers.as_ref().expect("one of them was asked");
                let now = Now { agent, force, in_force, measured, sets, learning, servers };
                let preview = now.preview(other);
                let _ = answer.send(preview);
                give_memory_back();
            }
            Event::Command(Command::Switch(order, answer)) => {
                let outcome = self.switch(&order);
                self.force.when_followed(SWITCH_PATIENCE, move || _ = answer.send(outcome));
            }
            Event::Adopted(ended) => self.force.adopted(ended),
            Event::Grown(ended) => self.force.grown(ended),
            Event::Retire => self.force.retire(),
            Event::Review => self.review(),
            Event::Recount => self.force.recount(),
            Event::Divide => self.force.divide(),
            Event::Grow => self.force.grow(),
            Event::Cgroups(changed) => self.force.follow_cgroups(changed),
            Event::Pods => self.force.follow_pods(),
            Event::Followed(followed) => {
                if self.force.followed(followed) {
                    self.tell(|_| {});
                }
            }
            Event::Set(news) => self.follow_set(news),
            Event::Learn(seen) => self.learn(seen),
            Event::Looked(looked) => {
                if self.force.put_back(looked) {
                    self.tell(|_| {});
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Leaves the kernel as the configuration says.
    pub async fn end(mut self, is_handed_over: bool) -> Result<()> {
        self.traces.stop();
        if let Some(servers) = &self.servers {
            servers.stop();
        }
        self.measured.save();
        self.learning.save();
        let takes_out = match self.in_force.on_exit() {
            _ if is_handed_over => {
                info!("another agent takes this one's place: tuning stays in the kernel");
                false
            }
            OnExit::Restore if service_manager::restarts() => {
                info!("stopping, to be started again: {KEPT}");
                false
            }
            OnExit::Restore => {
                info!("stopping: tuning is taken out of the kernel");
                true
            }
            OnExit::Keep => {
                info!("stopping: {KEPT}");
                false
            }
        };
        // Before there is nothing any more to be told of.
        self.exporter.finish().await;
        let ended = self.force.end(takes_out).await;
        let traces = self.traces;
        tokio::task::spawn_blocking(move || traces.finish()).await?;
        ended?;
        match self.servers {
            Some(servers) => servers.finish().await,
            None => Ok(()),
        }
    }

    /// Reads the configuration again, and puts it in force or changes nothing.
    fn reload(&mut self) -> ReloadOutcome {
        service_manager::reloading();
        let outcome = match self.read_again() {
            Err(error) => ReloadOutcome::Refused { reason: with_causes(&error) },
            Ok(config) => match self.apply(config) {
                Ok((policy_set, diff)) => {
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

    /// The configuration, if it is one that can be put in force without a restart.
    fn read_again(&mut self) -> Result<Config> {
        let options = self.agent.options;
        let texts = options.texts();
        self.seen = reload::fingerprint(&texts);
        let config = parse::configuration(&texts?, options)?;
        parse::tell_choices(&config.paths);
        let fields = self.in_force.restart_only(&config);
        if fields.is_empty() { Ok(config) } else { Err(Refusal::RestartOnly(fields).into()) }
    }

    fn has_other_texts(&self) -> bool {
        reload::fingerprint(&self.agent.options.texts()) != self.seen
    }

    /// Puts a configuration in force. If that fails, all is as before.
    fn apply(&mut self, config: Config) -> Result<(u64, Diff)> {
        let diff = self.in_force.diff(&config, &Fingerprints::of(&config));
        let log = config.log;
        let agent = self.agent;
        let servers = self.servers.as_mut().expect("they serve from the end of the start on");
        // What can fail for others' reasons comes before any change to the host.
        let listeners = servers.bind(&config, agent.lock)?;
        let sinks = agent.sinks.prepare(&config.sinks)?;
        let traces = self.traces.prepare(&config.traces)?;
        self.exporter.prepare(config.otlp.as_ref())?;
        let mut sets = Sets::new(&config.lists(), agent.sets.clone(), Some(&self.sets));
        let paths = self.learning.paths(config.learn);
        let all = (config, &mut sets, &*paths);
        let names = self.force.tuning().path_names();
        let put = put(agent, &mut self.force, all, Some(&self.measured))?;
        let new_names = self.force.tuning().path_names();
        let diff = diff.with_learned(&names, new_names.iter().map(|name| &**name));
        // The tasks that looked for the sets before end here.
        self.sets = sets;
        self.sets.start(&in_use(&self.live));
        let policy_set = put.installed.policy_set;
        servers.put_in_force(listeners, agent.lock);
        agent.sinks.put_in_force(sinks);
        self.go_on_with(put);
        self.traces.put_in_force(traces, &self.live);
        self.exporter.put_in_force(self.in_force.otlp());
        if let Err(error) = self.force.leave_out_events() {
            warn!("sinks get no kinds of events that none had: {}", with_causes(&error));
        }
        if let Err(error) = self.agent.log.change(log) {
            warn!("the log stays as it was: {}", with_causes(&error.into()));
        }
        Ok((policy_set, diff))
    }

    /// The list of a set has been read. If it is another one, its paths follow it, as they
    /// do at a reload.
    fn follow_set(&mut self, news: sets::News) {
        let paths = (self.in_force.of_file(), self.in_force.host());
        let Some(before) = self.sets.hear(news, paths) else { return };
        let Some(config) = self.in_force.config_for(self.sets.name(&before)) else {
            return self.sets.is_in_force(&before);
        };
        let paths = self.learning.paths(config.learn);
        let all = (config, &mut self.sets, &*paths);
        match put(self.agent, &mut self.force, all, Some(&self.measured)) {
            Ok(put) => {
                self.go_on_with(put);
                self.sets.is_in_force(&before);
            }
            Err(error) => {
                shortage::note(error.as_ref());
                let reason = with_causes(&error);
                self.sets.put_back(before, &SetError::NotInForce { reason });
            }
        }
        self.tell(|_| {});
        give_memory_back();
    }

    /// Has all beside the kernel follow what has been put in force.
    fn go_on_with(&mut self, put: Put) {
        self.in_force = put.in_force;
        self.live.set(self.in_force.derived().clone());
        let names: HashSet<Arc<str>> = self.force.tuning().path_names().into_iter().collect();
        self.live.keep_only(|path| names.contains(path));
        // The tasks that asked for the configuration before end here.
        self.measured = put.measured;
        self.measured.start(self.force.tuning());
        *locked(&self.board) = self.measured.board();
        self.learning.is_in_force(put.learn, &put.covered);
    }

    /// Connections have shown that others would have larger buffers, or which learned paths
    /// are used. If that changes what is to be in force, it is put in force as at a reload.
    fn learn(&mut self, seen: Seen) {
        if self.force.disabled.all {
            return;
        }
        let Seen { found, used } = seen;
        let Self { in_force, sets, learning, .. } = self;
        let found = learning.allowed(found, || {
            let mut paths = in_force.of_file().to_vec();
            sets.fill(&mut paths, in_force.host());
            paths
        });
        let interval = self.in_force.change_interval();
        let Some(news) = self.learning.hear(&found, &used, interval) else { return };
        let paths = news.paths();
        let all = (self.in_force.config(), &mut self.sets, &*paths);
        match put(self.agent, &mut self.force, all, Some(&self.measured)) {
            Ok(put) => {
                self.learning.has_changed(news);
                self.go_on_with(put);
            }
            Err(error) => {
                shortage::note(error.as_ref());
                self.learning.stays_as_it_was(&with_causes(&error));
            }
        }
        self.tell(|_| {});
        give_memory_back();
    }

    /// Disables or enables, first in the kernel: of all things this has to work.
    fn switch(&mut self, order: &Order) -> switched::SwitchOutcome {
        let force = &mut self.force;
        let disabled = match force.disabled.after(order, |path| force.tuning().has_path(path)) {
            Ok(disabled) => disabled,
            Err(refusal) => {
                return switched::SwitchOutcome::Refused { reason: refusal.to_string() };
            }
        };
        let policy_set = match force.tuning().switch(&disabled) {
            Ok(policy_set) => policy_set,
            Err(error) => {
                shortage::note(&error);
                let reason = with_causes(&error.into());
                error!("what is disabled stays as it was: {reason}");
                return switched::SwitchOutcome::Failed { reason };
            }
        };
        force.adopt_anew();
        info!(policy_set, "{}", switch::summary(&disabled));
        let noted = self.agent.note.write(&disabled);
        let warning = noted
            .err()
            .map(|error| format!("this ends with the agent: {}", with_causes(&error.into())));
        if let Some(warning) = &warning {
            warn!("{warning}");
        }
        force.host.follow(&disabled);
        force.disabled = disabled.clone();
        give_memory_back();
        service_manager::status(&self.summary());
        switched::SwitchOutcome::Done { policy_set, disabled, warning }
    }

    /// Says in a line how all is.
    pub fn summary(&self) -> String {
        let paths = match self.force.tuning().path_names().len() {
            1 => "1 path is in force".to_owned(),
            paths => format!("{paths} paths are in force"),
        };
        let disabled = &self.force.disabled;
        let switched = if disabled.is_nothing() {
            String::new()
        } else {
            format!("; {}", switch::summary(disabled))
        };
        let behind = if locked(&self.told).reloads.is_behind {
            "; the last reload was not applied, the log says why"
        } else {
            ""
        };
        format!("{paths}{switched}{behind}")
    }

    /// Measured paths follow what is measured.
    fn review(&mut self) {
        let (now, time) = (Instant::now(), SystemTime::now());
        self.measured.see_flows(self.force.flows(), now, time);
        self.measured.save_now_and_then(now);
        let plan = match self.measured.review(now, time) {
            measured::Change::Nothing => return,
            measured::Change::Values => plan::VALUES,
            measured::Change::Traits => plan::CONFIGURATION,
        };
        let Some(policies) = self.measured.policies() else { return };
        let wanted = Wanted { policies: &policies, host: self.in_force.host() };
        if let Err(error) = change::put(&mut self.force, plan, &wanted) {
            shortage::note(error.as_ref());
            error!("measured paths stay as they were: {error:#}");
            self.measured.stays_as_it_was();
        }
        self.tell(|_| {});
        give_memory_back();
    }

    fn tell(&self, change: impl FnOnce(&mut Told)) {
        let changes = locked(&self.force.journal).changes().cloned().collect();
        let mut told = locked(&self.told);
        told.changes = changes;
        change(&mut told);
    }
}

/// Looks which addresses flows have.
fn in_use(live: &Arc<LiveFlows>) -> InUse {
    let live = Arc::clone(live);
    Arc::new(move |addresses| {
        let remotes = addresses.iter().map(|address| address.to_string().parse());
        let remotes = remotes.collect::<Result<_, _>>().ok()?;
        let reading = live.read(&Filter { remotes, ..Filter::default() }).ok()?;
        Some(reading.flows.iter().map(|flow| flow.remote.ip().to_canonical()).collect())
    })
}

const KEPT: &str = "tuning stays in the kernel, and ceilings as they are: nobody watches; the \
                    next `wad run` takes over, `wad cleanup` takes it out";

/// A configuration that has been put in force.
struct Put {
    installed: Installed,
    in_force: InForce,
    measured: Measured,
    learn: Option<Learn>,
    /// Learned paths that are not in force, as paths of the file are for their prefixes.
    covered: Vec<Covered>,
}

/// Puts a configuration in force, and what is learned beside it, at the start and at a
/// reload. What is known of measured paths from `before` holds on.
fn put(
    agent: &Agent<'_>,
    force: &mut Force<'_>,
    (mut config, sets, learned): (Config, &mut Sets, &[LearnedPath]),
    before: Option<&Measured>,
) -> Result<Put> {
    let prints = Fingerprints::of(&config);
    let has_set = |path: &PathPolicy| path.origin.lists().next().is_some();
    let learn = config.learn;
    let is_kept = learn.is_some() || config.paths.iter().any(has_set);
    let of_file = if is_kept { config.paths.clone() } else { Vec::new() };
    force.pods.follow_for(&config.kubernetes, &config.paths);
    let meant = Meant::of(agent, &force.journal, (&mut config, sets, learned), before)?;
    let Meant { policies, covered, measured, max_memory_bytes } = meant;
    let covered = covered.unwrap_or_else(|unfit| {
        warn!("no learned path is in force: {unfit}");
        Vec::new()
    });
    let wanted = Wanted { policies: &policies, host: &config.host };
    let installed = change::put(force, plan::CONFIGURATION, &wanted)?;
    force.buffers.bound(max_memory_bytes);
    // The kernel has the paths now.
    drop(policies);
    let names = force.tuning().path_names();
    let in_force = InForce::new(config, prints, names).with_paths(of_file);
    Ok(Put { installed, in_force, measured, learn, covered })
}
