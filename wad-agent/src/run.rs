//! `wad run`: from a configuration to tuned flows, and back out again.

mod bound;
mod divisions;
mod memory;
mod running;

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Instant, SystemTime},
};

use anyhow::{Context as _, Result};
use tokio::{
    signal::unix::SignalKind,
    sync::{mpsc, watch},
    time,
};
use tracing::{error, info, warn};

use self::{
    bound::{kernel_buffers, max_memory_bytes},
    divisions::Divisions,
    memory::{give_memory_back, keep_little_memory},
    running::{Running, Told, adopt_running, in_a_handshake},
};
use crate::{
    api::{self, Api, Command},
    bpf::{self, Pins, Setup, Start, Tuning},
    causes::with_causes,
    ceilings::Ceilings,
    cgroup::Cgroup,
    cli,
    config::{Config, Host, OnExit, PathPolicy},
    disabled_note::Note,
    event_name::EventName,
    explainer::Explainer,
    flow_log::FlowLog,
    host,
    journal::Journal,
    kernel_modules,
    live_flows::LiveFlows,
    lock::{self, Lock},
    log,
    measured::{self, Board, Measured},
    metrics::{Readings, Reloads, Source},
    paths,
    privileges::{self, Privileges},
    reading::{self, Instruments},
    reload::{self, Fingerprints, InForce, Outcome, Refusal, Watch},
    routes::{Selection, Standing},
    signals::{Stop, handle},
    sinks::Sinks,
    sources::Cache,
    state_dir::StateDir,
    status::About,
    switch::{self, Disabled, Order},
    switched,
    sysctl::Sysctl,
};

/// Tunes until SIGTERM or SIGINT.
pub fn run(args: &cli::Run) -> Result<()> {
    keep_little_memory();
    let file = &args.config.file;
    let text = Config::text(file);
    let seen = reload::fingerprint(&text);
    let config = Config::parse(&file.display().to_string(), &text?, &Host::read()?)?;
    let _log = log::init(config.log.format)?;
    let privileges = privileges::check()?;
    privileges::lift_locked_memory();
    let cgroup = Cgroup::open(args.cgroup.as_deref())?;
    let instance = &args.instance.name;
    // From here on no other agent of this instance can run.
    let lock = Lock::take(Path::new(lock::RUN_DIR), instance.name())?;
    let noted = StateDir::of(&lock);
    let state_dir = noted.noted()?.unwrap_or_else(|| config.agent.state_dir.clone());
    let mut journal = Journal::open(&state_dir, instance.name(), Sysctl::default())?;
    let note = Note::of(&state_dir, instance.name());
    let disabled = note.read()?;
    if !disabled.is_nothing() {
        warn!("{}; `wad enable` ends that", switch::summary(&disabled));
    }
    noted.note(&state_dir)?;
    if let Some(damage) = journal.damage() {
        warn!("{damage}");
    }

    let cache = measured::cache(&state_dir, instance.name());
    let sinks = Arc::new(Sinks::start(&config.sinks, &state_dir, instance.name())?);
    let agent =
        Agent { args, cgroup, lock: &lock, privileges, note, cache, sinks: Arc::clone(&sinks) };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let result = runtime.block_on(agent.serve(config, seen, disabled, &mut journal));
    // A look-up of a name may take long: nobody waits for it any more.
    runtime.shutdown_background();
    sinks.finish();
    // Tuning that is to stay, or that a failed start could not take over, goes on and
    // keeps what it needs; but nobody follows routes any more.
    if bpf::exist(instance) {
        return first_error(result, journal.undo_routes().map_err(anyhow::Error::from));
    }
    first_error(result, undo(&mut journal, &noted))
}

fn undo(journal: &mut Journal, noted: &StateDir) -> Result<()> {
    for left in journal.undo()? {
        warn!("{left}");
    }
    Ok(noted.forget()?)
}

/// Both, as far as an exit status can tell: the second goes to the log.
fn first_error(first: Result<()>, second: Result<()>) -> Result<()> {
    if let (Err(_), Err(error)) = (&first, &second) {
        warn!("{error:#}");
    }
    first.and(second)
}

struct Agent<'a> {
    args: &'a cli::Run,
    cgroup: Cgroup,
    lock: &'a Lock,
    privileges: Privileges,
    /// Of what is disabled.
    note: Note,
    /// What sources said, across restarts.
    cache: Cache,
    sinks: Arc<Sinks>,
}

impl Agent<'_> {
    async fn serve(
        self,
        mut config: Config,
        seen: Option<u64>,
        disabled: Disabled,
        journal: &mut Journal,
    ) -> Result<()> {
        let mut stop = Stop::new()?;
        let mut hang_up = handle(SignalKind::hangup())?;
        // What can fail for others' reasons comes before any change to the host.
        let scrapes = api::bind_tcp("metrics", config.metrics.listen).await?;
        let paths = match config.api.listen {
            Some(address) => Some(api::bind_tcp("api", address).await?),
            None => None,
        };
        let control = api::bind_control(self.lock)?;
        kernel_modules::load(&config.paths)?;
        let max_memory_bytes = max_memory_bytes(&config, journal.sysctl())?;
        let prints = Fingerprints::of(&config);
        let kernel = kernel_buffers(journal);
        let measured = Measured::new(&config, max_memory_bytes, kernel, self.cache.clone());
        let policies = measured.policies().unwrap_or_else(|| std::mem::take(&mut config.paths));
        let tuning = Arc::new(self.tune(&policies, max_memory_bytes, &disabled, journal)?);
        let host_changes = config.host.clone();
        let host = host::Host::default();
        let told =
            Told { changes: journal.changes().cloned().collect(), reloads: Reloads::start() };
        let told = Arc::new(Mutex::new(told));
        let board = Arc::new(Mutex::new(measured.board()));
        let instruments = Arc::new(Instruments::new(Arc::clone(&tuning)));
        let live = LiveFlows::new(instruments, self.sinks.clone(), config.derived.clone());
        let live = Arc::new(live);
        let api = self.api(
            config.metrics.max_paths,
            &tuning,
            Arc::clone(&told),
            Arc::clone(&board),
            host.standing.clone(),
            Arc::clone(&live),
        );
        let api = Arc::new(api);
        let mut running = Running {
            ceilings: Ceilings::of(&policies),
            in_force: InForce::new(config, prints, tuning.path_names()),
            measured,
            tuning,
            journal,
            seen,
            disabled,
            divisions: Divisions::default(),
            // That of an agent before this one.
            retiring: in_a_handshake(),
            told,
            board,
            host,
            live,
        };
        running.host.put_in_force(
            &host_changes,
            Selection::of(&policies),
            &running.disabled,
            running.journal,
        );
        running.tell(|_| {});
        // The kernel has the paths now.
        drop(policies);
        give_memory_back();
        running.measured.start(&running.tuning);

        let (commands, mut asked) = mpsc::channel(1);
        let (stopping, stopped) = watch::channel(false);
        let scrapes =
            tokio::spawn(api::serve(scrapes, api::metrics_router(api.clone()), stopped.clone()));
        let paths = paths.map(|paths| {
            tokio::spawn(api::serve(paths, api::paths_router(api.clone()), stopped.clone()))
        });
        let control =
            tokio::spawn(api::serve(control, api::control_router(api, commands), stopped));

        let ends = running.live.ends.clone();
        let mut flows = FlowLog::open(&running.tuning, self.sinks.clone(), ends)?;
        let looking = tokio::spawn(Arc::clone(&running.live).watch());
        let mut reviews = measured::reviews();
        let mut looks = divisions::looks();
        let mut file = Watch::new(&self.args.config.file)
            .inspect_err(|error| warn!("{}: {error}", Self::UNWATCHED))
            .ok();
        let result = loop {
            tokio::select! {
                () = stop.asked() => break Ok(()),
                failed = flows.run() => break failed,
                _ = hang_up.recv() => { self.reload(&mut running, &mut flows); }
                // Whoever asked may have gone when it is done.
                Some(command) = asked.recv() => match command {
                    Command::Reload(answer) => {
                        let _ = answer.send(self.reload(&mut running, &mut flows));
                    }
                    Command::Switch(order, answer) => {
                        let _ = answer.send(self.switch(&mut running, &order));
                    }
                },
                () = at(running.retiring) => running.retire(),
                // A connection that is being made sees one change at most.
                _ = reviews.tick(), if running.retiring.is_none() => {
                    self.review(&mut running, &mut flows);
                }
                _ = looks.tick() => running.divide(),
                changed = changed(&mut file) => match changed {
                    Ok(()) if self.has_another_text(&running) => {
                        info!("the configuration's file has changed");
                        self.reload(&mut running, &mut flows);
                    }
                    Ok(()) => {}
                    Err(error) => {
                        warn!("{}: {error}", Self::UNWATCHED);
                        file = None;
                    }
                }
            }
        };
        looking.abort();
        stopping.send_replace(true);
        running.measured.save();
        match running.in_force.on_exit() {
            OnExit::Restore => {
                info!("stopping: tuning is taken out of the kernel");
                running.tuning.remove()?;
            }
            OnExit::Keep => info!("stopping: {}", Self::KEPT),
        }
        flows.finish();
        scrapes.await?;
        control.await?;
        if let Some(paths) = paths {
            paths.await?;
        }
        result
    }

    const KEPT: &'static str = "tuning stays in the kernel, and ceilings as they are: nobody \
                                watches; the next `wad run` takes over, `wad cleanup` takes \
                                it out";

    const UNWATCHED: &'static str = "changes of the configuration's file go unseen, use `wad \
                                     reload`; it cannot be watched";

    fn tune(
        &self,
        paths: &[PathPolicy],
        max_memory_bytes: u64,
        disabled: &Disabled,
        journal: &mut Journal,
    ) -> Result<Tuning> {
        journal.ensure_bpffs()?;
        let instance = &self.args.instance.name;
        let setup = Setup { instance, cgroup: &self.cgroup, paths, max_memory_bytes, disabled };
        let ceilings = Ceilings::of(paths);
        ceilings.raise(journal)?;
        let pins = Pins::new(self.lock, instance);
        if !self.privileges.maps_by_id && bpf::exist(instance) {
            warn!(
                "without CAP_SYS_ADMIN the tuning of the agent before this one cannot be taken \
                 over: it is set up anew, its counts start at zero"
            );
            pins.remove()?;
        }
        let (tuning, start) = Tuning::start(pins, &setup)?;
        tuning.tell_changes(self.sinks.want(EventName::Retuned))?;
        adopt_running(&tuning);
        // Until now the policies of the agent before were in force.
        if let Err(error) = ceilings.lower(journal).map_err(anyhow::Error::from) {
            warn!("{error:#}");
        }
        let paths = paths.len();
        match start {
            Start::Fresh => info!(paths, "tuning new flows"),
            Start::TakenOver => info!(paths, "took over the tuning of an agent before this one"),
            Start::Upgraded => info!(
                paths,
                "took over the tuning of another version of wad: its programs are replaced, counts \
                 start at zero"
            ),
        }
        Ok(tuning)
    }

    /// Reads the configuration again, and puts it in force or changes nothing.
    fn reload(&self, running: &mut Running<'_>, flows: &mut FlowLog) -> Outcome {
        let outcome = match self.read_again(running) {
            Err(error) => Outcome::Refused { reason: with_causes(&error) },
            Ok(config) => match running.apply(config, &self.cache, &self.args.instance.name) {
                Ok((policy_set, diff)) => Outcome::Applied { policy_set, diff },
                Err(error) => Outcome::Failed { reason: with_causes(&error) },
            },
        };
        match &outcome {
            Outcome::Applied { policy_set, diff } => {
                info!(policy_set, "the configuration's paths are in force: {diff}");
                flows.rename(&running.tuning);
            }
            Outcome::Refused { reason } | Outcome::Failed { reason } => {
                error!("the policy stays as it was: {reason}");
            }
        }
        running.tell(|told| outcome.count(&mut told.reloads));
        give_memory_back();
        outcome
    }

    /// The configuration, if it is one that can be put in force without a restart.
    fn read_again(&self, running: &mut Running<'_>) -> Result<Config> {
        let file = &self.args.config.file;
        let text = Config::text(file);
        running.seen = reload::fingerprint(&text);
        let config = Config::parse(&file.display().to_string(), &text?, &Host::read()?)?;
        let fields = running.in_force.restart_only(&config);
        if fields.is_empty() { Ok(config) } else { Err(Refusal::RestartOnly(fields).into()) }
    }

    fn has_another_text(&self, running: &Running<'_>) -> bool {
        reload::fingerprint(&Config::text(&self.args.config.file)) != running.seen
    }

    /// Disables or enables, first in the kernel: of all things this has to work.
    fn switch(&self, running: &mut Running<'_>, order: &Order) -> switched::Outcome {
        let disabled = match running.disabled.after(order, |path| running.tuning.has_path(path)) {
            Ok(disabled) => disabled,
            Err(refusal) => return switched::Outcome::Refused { reason: refusal.to_string() },
        };
        let policy_set = match running.tuning.switch(&disabled) {
            Ok(policy_set) => policy_set,
            Err(error) => {
                let reason = with_causes(&error.into());
                error!("what is disabled stays as it was: {reason}");
                return switched::Outcome::Failed { reason };
            }
        };
        running.adopt();
        running.retiring = in_a_handshake();
        info!(policy_set, "{}", switch::summary(&disabled));
        let noted = self.note.write(&disabled);
        let warning = noted
            .err()
            .map(|error| format!("this ends with the agent: {}", with_causes(&error.into())));
        if let Some(warning) = &warning {
            warn!("{warning}");
        }
        running.host.follow(&disabled);
        running.disabled = disabled.clone();
        give_memory_back();
        switched::Outcome::Done { policy_set, disabled, warning }
    }

    /// Measured paths follow what is measured.
    fn review(&self, running: &mut Running<'_>, flows: &mut FlowLog) {
        let (now, time) = (Instant::now(), SystemTime::now());
        running.measured.see_flows(flows, now, time);
        running.measured.save_now_and_then(now);
        if !running.measured.review(now, time) {
            return;
        }
        let Some(policies) = running.measured.policies() else { return };
        let max_memory_bytes = running.measured.max_memory_bytes();
        let changed = running.put_in_force(&policies, max_memory_bytes, &self.args.instance.name);
        if let Err(error) = changed {
            error!("measured paths stay as they were: {error:#}");
        }
        running.tell(|_| {});
        give_memory_back();
    }

    fn api(
        &self,
        max_paths: usize,
        tuning: &Arc<Tuning>,
        told: Arc<Mutex<Told>>,
        board: Arc<Mutex<Board>>,
        routes: Standing,
        live: Arc<LiveFlows>,
    ) -> Api {
        let (tuning, in_force) = (Arc::clone(tuning), Arc::clone(tuning));
        let (counted, sinks) = (routes.clone(), self.sinks.board());
        let completing = Arc::clone(&live);
        let (of_paths, known) = (Arc::clone(&tuning), Arc::clone(&board));
        let read =
            |board: &Mutex<Board>| board.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Api {
            about: About {
                instance: self.args.instance.name.name().to_owned(),
                config: self.args.config.file.clone(),
                cgroup: self.cgroup.path.clone(),
                started: Instant::now(),
                started_at: SystemTime::now(),
            },
            max_paths,
            source: Source::new(move || {
                let told = told.lock().unwrap_or_else(PoisonError::into_inner);
                let mut readings = Readings::from(tuning.readings()?);
                readings.changes.clone_from(&told.changes);
                readings.reloads = told.reloads;
                drop(told);
                readings.routes = counted.counts();
                completing.complete(&mut readings);
                read(&board).read(&mut readings);
                sinks.read(&mut readings);
                Ok(readings)
            }),
            paths: paths::Source::new(move || {
                let policies = of_paths.policies()?;
                Ok(paths::Paths::new(&policies, &read(&known), SystemTime::now()))
            }),
            explainer: Explainer::new(move |query| {
                Ok(in_force.explain(query)?.with_means(&routes.get()))
            }),
            flows: reading::Source::new(move |filter| live.read(filter)),
        }
    }
}

/// Never, if it has no time.
async fn at(when: Option<time::Instant>) {
    match when {
        Some(when) => time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}

/// Where it is not watched, it never changes.
async fn changed(file: &mut Option<Watch>) -> io::Result<()> {
    match file {
        Some(file) => file.changed().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_reported() {
        let failed = |what: &'static str| Err(anyhow::anyhow!(what));
        let said = |result: Result<()>| result.unwrap_err().to_string();
        assert_eq!(said(first_error(failed("start"), failed("undo"))), "start");
        assert_eq!(said(first_error(Ok(()), failed("undo"))), "undo");
        assert_eq!(said(first_error(failed("start"), Ok(()))), "start");
        assert!(first_error(Ok(()), Ok(())).is_ok());
    }
}
