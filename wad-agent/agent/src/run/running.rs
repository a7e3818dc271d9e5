//! The agent at work: what it knows beside the kernel, and how it acts on each event.

mod experiments;
mod guards;
mod put;
mod reloading;
mod renewing;
mod switching;

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::Result;
use tracing::info;
use wad_observing::{
    live_flows::LiveFlows,
    metrics::{Delays, Reloads},
    reading::{Filter, Instruments},
};
use wad_policy::{
    config::{OnExit, Texts},
    switch::{self, LeftAlone},
};
use wad_toolbox::mutex::locked;
use wad_tuning::{
    ceilings::TooLow,
    journal::{Change, Journal},
};

use self::put::{Next, Put};
use super::{
    Agent, Begin,
    events::{End, Event},
    evidence::Evidence,
    force::Force,
    guarding::Guarding,
    hearing::Hearing,
    learning::Learning,
    meant::Beside,
    memory::give_memory_back,
    preview::Now,
    servers::Servers,
};
use crate::{
    api::Command,
    handing_over::HandingOver,
    measured::{Board, Measured},
    otlp::Exporter,
    page,
    peers::Peers,
    probes::Probes,
    reload::{self, InForce},
    service_manager,
    sets::{InUse, Sets},
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
    pub hearing: Hearing,
    pub evidence: Evidence,
    pub guarding: Guarding,
    pub exporter: Exporter,
    pub probes: Probes,
    pub peers: Peers,
    /// The gate of the page.
    pub gate: page::Gate,
    /// The texts of the configuration when last they were read, by their fingerprint.
    seen: Option<u64>,
    /// The texts in force, to begin with again where another agent fails in this one's place;
    /// None where that is left to nobody.
    texts: Option<Texts>,
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
    /// The ceilings that could not be raised.
    pub too_low: Vec<TooLow>,
    pub reloads: Reloads,
}

impl<'a> Running<'a> {
    /// Puts a configuration in force where nothing is. If that fails, nothing is.
    pub fn start(
        agent: &'a Agent<'a>,
        journal: &Arc<Mutex<Journal>>,
        begin: Begin,
    ) -> Result<Self> {
        let Begin { config, texts, disabled, mut learning, mut evidence, mut guarding, pods } =
            begin;
        // What guards held back is so from the start.
        let left_alone = LeftAlone { disabled, held_back: guarding.guards.held_back() };
        let mut force = Force::nothing(agent, journal, left_alone, pods)?;
        force.name_by_pods();
        let mut sets = Sets::new(&config.lists(), agent.sets.clone(), None);
        let mut traces = Traces::default();
        let ready = traces.prepare(&config.traces)?;
        let mut exporter = Exporter::default();
        exporter.prepare(config.otlp.as_ref())?;
        let mut peers = Peers::default();
        let instance = agent.options.instance.name();
        let mut probes = Probes::new(agent.probes.clone(), instance, peers.ask());
        let probing = probes.prepare(config.probe.as_ref())?;
        peers.answer_by(probes.desk());
        let talking = peers.prepare(&config)?;
        let paths = learning.paths(config.learn);
        let hearing = Hearing::new(peers.board().clone());
        let experiments = evidence.wanted(&config.paths);
        // Nobody has said anything yet.
        let beside = Beside { learned: &paths, heard: &[] };
        let next = Next { config, sets: &mut sets, beside, before: None };
        let put = next.put(&mut force)?;
        let Put { installed, in_force, mut measured, policies, guarded, covered } = put;
        hearing.ends.are_in_force(policies);
        installed.log_start(force.tuning().path_names().len());
        guarding.follow(guarded, in_force.guards(), (&mut force, &evidence));
        evidence.follow(&experiments, force.tuning());
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
        let too_low = force.too_low.clone();
        let told = Told { changes, too_low, reloads: Reloads::start() };
        let board = Arc::new(Mutex::new(measured.board()));
        probes.see_flows(&board);
        peers.see(force.tuning(), &board, &hearing.ends);
        measured.start(force.tuning(), probes.own());
        sets.start(&in_use(&live));
        learning.is_in_force(in_force.learn(), &covered);
        probes.put_in_force(probing);
        peers.put_in_force(talking);
        give_memory_back();
        Ok(Self {
            agent,
            force,
            in_force,
            measured,
            sets,
            traces,
            learning,
            hearing,
            evidence,
            guarding,
            exporter,
            probes,
            peers,
            gate: page::Gate::default(),
            seen: reload::fingerprint(&Ok::<_, ()>(&texts)),
            texts: agent.options.takes_over.then_some(texts),
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
                let leaves = self.texts.is_some();
                let outcome = if leaves { HandingOver::leaving() } else { HandingOver::Staying };
                // Who asked and has gone does not want the place any more.
                if answer.send(outcome).is_ok()
                    && let Some(texts) = self.texts.take()
                {
                    return ControlFlow::Break(Ok(End::HandedOver(texts)));
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
                let Self { agent, force, in_force, measured, sets, probes, .. } = self;
                let servers = self.servers.as_ref().expect("one of them was asked");
                let (learning, hearing) = (&self.learning, &self.hearing);
                let now = Now {
                    agent,
                    force,
                    in_force,
                    measured,
                    sets,
                    learning,
                    hearing,
                    servers,
                    probes,
                };
                let preview = now.preview(other);
                let _ = answer.send(preview);
                give_memory_back();
            }
            Event::Command(Command::Switch(order, answer)) => {
                let outcome = self.switch(&order);
                self.force.when_followed(SWITCH_PATIENCE, move || _ = answer.send(outcome));
            }
            Event::Command(Command::Experiment(order, answer)) => {
                let _ = answer.send(self.experiment(order));
            }
            Event::Command(Command::Release(order, answer)) => {
                let outcome = self.release(&order.path);
                self.force.when_followed(SWITCH_PATIENCE, move || _ = answer.send(outcome));
            }
            Event::Adopted(ended) => self.force.adopted(ended),
            Event::Grown(ended) => self.force.grown(ended),
            Event::Retire => self.force.retire(),
            Event::Review => self.review(),
            Event::Recount => self.force.recount(),
            Event::Divide => self.force.divide(),
            Event::Grow => self.force.grow(),
            Event::Cgroups => self.force.follow_groups(),
            Event::Pods => self.force.follow_pods(),
            Event::Followed(followed) => {
                if self.force.followed(followed) {
                    self.tell(|_| {});
                }
            }
            Event::Set(news) => self.follow_set(news),
            Event::Learn(seen) => self.learn(seen),
            Event::Heard => self.hear(),
            Event::Experiments => {
                // What has ended before a block has is of that block.
                self.force.flows().take_waiting();
                self.evidence.look(self.force.tuning());
            }
            Event::Guards(read) => {
                let Self { guarding, force, evidence, .. } = self;
                guarding.tick(read, force, evidence);
            }
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
        self.evidence.end(self.force.tuning());
        self.guarding.end();
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
        self.probes.finish().await;
        self.peers.finish().await;
        let ended = self.force.end(takes_out).await;
        let traces = self.traces;
        tokio::task::spawn_blocking(move || traces.finish()).await?;
        ended?;
        match self.servers {
            Some(servers) => servers.finish().await,
            None => Ok(()),
        }
    }

    /// Says in a line how all is.
    pub fn summary(&self) -> String {
        let paths = match self.force.tuning().path_names().len() {
            1 => "1 path is in force".to_owned(),
            paths => format!("{paths} paths are in force"),
        };
        let disabled = &self.force.left_alone.disabled;
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

    fn tell(&self, change: impl FnOnce(&mut Told)) {
        let changes = locked(&self.force.journal).changes().cloned().collect();
        let mut told = locked(&self.told);
        told.changes = changes;
        told.too_low.clone_from(&self.force.too_low);
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
