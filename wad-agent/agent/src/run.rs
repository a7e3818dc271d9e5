//! `wad run`: from a configuration to tuned flows, and back out again.

mod adopting;
mod answers;
mod beside;
mod bound;
mod buffers;
mod cgroups;
mod change;
mod divisions;
mod events;
mod evidence;
mod following;
mod force;
mod guarding;
mod hearing;
mod known_pods;
mod learning;
mod links;
mod loop_delay;
mod meant;
mod memory;
mod parse;
mod plan;
mod preview;
mod putting_back;
mod recounts;
mod running;
mod servers;
mod turn;

use std::{
    io,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result};
use tokio::{runtime::Runtime, sync::mpsc};
use tracing::{info, warn};
use wad_linux::{
    cgroup::Cgroup,
    confinement::confine,
    lock::{self, Lock},
    privileges::{self, Privileges},
};
use wad_observing::{
    log::{self, Logging},
    sinks::Sinks,
};
use wad_policy::{
    config::{Config, ConfigError, Texts},
    switch::Disabled,
};
use wad_toolbox::{causes::told, own_folder, signals::Stop};
use wad_tuning::{disabled_note::Note, instance::Instance, journal::Journal};

use self::{
    events::{End, Events},
    evidence::Evidence,
    guarding::Guarding,
    learning::Learning,
    memory::keep_little_memory,
    running::Running,
    servers::Listeners,
};
use crate::{
    api,
    evidence::Experiments,
    guards::Guards,
    handing_over, otlp,
    own_lock::{self, Folders},
    service_manager, sets,
    sources::Cache,
};

/// Says how the agent is to be run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The configuration's file.
    pub config: PathBuf,
    /// The cgroup; None for the root of cgroup v2: all flows.
    pub cgroup: Option<PathBuf>,
    pub instance: Instance,
    /// An agent that runs already leaves its place to this one, and this one to the next.
    pub takes_over: bool,
    /// Paths are learned, whether the configuration has `[learn]` or not.
    pub learn: bool,
    /// No file is as an empty one.
    pub may_lack_file: bool,
}

impl Options {
    /// Reads the texts of the configuration.
    fn texts(&self) -> Result<Texts, ConfigError> {
        match Texts::read(&self.config) {
            Err(ConfigError::Read { file, source })
                if self.may_lack_file
                    && file == self.config
                    && source.kind() == io::ErrorKind::NotFound =>
            {
                Ok(Texts::of(&file.display().to_string(), ""))
            }
            read => read,
        }
    }

    /// Adds to a configuration what was asked for beside it.
    fn complete(&self, config: &mut Config) {
        if self.learn {
            config.learn.get_or_insert_default();
        }
    }
}

/// Tunes until SIGTERM or SIGINT.
pub fn run(options: &Options) -> Result<()> {
    keep_little_memory();
    privileges::lift_locked_memory();
    privileges::lift_descriptors();
    let unconfined = confine();
    let texts = options.texts()?;
    let (config, host) = parse::configuration(&texts, options)?;
    let log = log::init(config.log)?;
    parse::tell_choices(&config.paths, &host);
    let privileges = privileges::check()?;
    unconfined.iter().for_each(|error| warn!("{}", told(error)));
    privileges.lacking().for_each(|lacking| info!("{lacking}"));
    let cgroup = Arc::new(Cgroup::open(options.cgroup.as_deref())?);
    own_folder::make_private(Path::new(lock::RUN_DIR))?;
    let runtime = runtime()?;
    let own = Own { options, cgroup, log, privileges, runtime };
    let result = own.take_turns((config, texts));
    // A look-up of a name may take long: nobody waits for it any more.
    own.runtime.shutdown_background();
    result
}

impl Own<'_> {
    /// Tunes whenever it has the place, until it is told to stop.
    fn take_turns(&self, mut wanted: (Config, Texts)) -> Result<()> {
        let instance = &self.options.instance;
        // From here on no other agent of this instance can run.
        let folders = Folders::of_host();
        let mut lock = if self.options.takes_over {
            self.runtime.block_on(async { servers::try_out(&wanted.0) })?;
            handing_over::take_place(&folders, instance)?
        } else {
            own_lock::take(&folders, instance)?
        };
        let mut stop = self.runtime.block_on(async { Stop::new() })?;
        while let End::HandedOver(texts) = turn::take(self, lock, &mut stop, wanted)? {
            // Whoever holds this process would start it again, and it would ask for the place.
            let again = self.runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = stop.asked() => None,
                    lock = handing_over::take_back(instance) => Some(lock),
                }
            });
            let Some(again) = again else { break };
            warn!("the agent that took this one's place is gone: it is taken back");
            // The file may be the one by which that agent failed. It is read as any change.
            let (config, host) = parse::configuration(&texts, self.options)?;
            parse::tell_choices(&config.paths, &host);
            wanted = (config, texts);
            lock = again;
        }
        Ok(())
    }
}

/// Threads for work that may block, at most.
const BLOCKING_THREADS: usize = 16;

/// Makes a runtime that has a thread for work that may block from the start, and keeps it:
/// with none, tokio panics where no other can be had.
fn runtime() -> Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_keep_alive(Duration::MAX)
        .build()
        .context("cannot start the runtime")?;
    let tried = thread::Builder::new().spawn(|| ());
    let _ = tried.context("cannot start a thread; see pids.max and `ulimit -u`")?.join();
    // What could be had just now can be had once more.
    runtime.block_on(runtime.spawn_blocking(|| ())).context("cannot start a thread")?;
    Ok(runtime)
}

/// Holds what the agent has whether it has the place or not.
struct Own<'a> {
    options: &'a Options,
    cgroup: Arc<Cgroup>,
    log: Logging,
    privileges: Privileges,
    runtime: Runtime,
}

struct Agent<'a> {
    options: &'a Options,
    cgroup: Arc<Cgroup>,
    lock: &'a Lock,
    log: &'a Logging,
    privileges: Privileges,
    /// The note of what is disabled.
    note: Note,
    /// The cache of what sources said, across restarts.
    cache: Cache,
    /// The cache of what sets hold, across restarts.
    sets: sets::Cache,
    /// The file of results of probes.
    probes: PathBuf,
    sinks: Arc<Sinks>,
    experiments: Experiments,
    guards: Guards,
}

/// Holds what the agent begins with.
struct Begin {
    pub config: Config,
    /// The texts that the configuration is of.
    pub texts: Texts,
    pub disabled: Disabled,
    pub learning: Learning,
    pub evidence: Evidence,
    pub guarding: Guarding,
    pub pods: known_pods::Followed,
}

impl Agent<'_> {
    async fn serve(
        &self,
        journal: &Arc<Mutex<Journal>>,
        stop: &mut Stop,
        mut begin: Begin,
    ) -> Result<End> {
        let (commands, asked) = mpsc::channel(1);
        let mut events = Events::new(&self.options.config, asked, stop)?;
        // What can fail for others' reasons comes before any change to the host.
        let listeners = Listeners::bind(&begin.config, self.lock)?;
        let control = api::bind_control(self.lock)?;
        let max_paths = begin.config.metrics.max_paths;
        let has_pods = known_pods::are_named_by(&begin.config.paths);
        begin.pods.follow_for(&begin.config.kubernetes, has_pods);
        begin.pods.first().await;
        let mut running = Running::start(self, journal, begin)?;
        running.force.follow_at_start().await;
        let api = answers::api(self, &running, max_paths);
        running.exporter.begin(otlp::metrics(&api));
        let gate = running.gate.clone();
        running.servers = Some(listeners.serve((api, gate), self.lock, (control, commands)));
        service_manager::ready(&running.summary());
        let looking = tokio::spawn(Arc::clone(&running.live).watch());
        let ends = running.hearing.ends.clone();
        let shown = tokio::spawn(ends.watch(running.live.source()));
        let late = tokio::spawn(loop_delay::watch(Arc::clone(&running.delays)));
        let result = loop {
            let Running { force, sets, learning, hearing, evidence, guarding, .. } = &mut running;
            let hearers = (sets, learning, hearing);
            let event = events.next(force, hearers, guarding, evidence.next_look).await;
            if let ControlFlow::Break(result) = running.heed(event) {
                break result;
            }
        };
        service_manager::stopping();
        looking.abort();
        shown.abort();
        late.abort();
        let is_handed_over = matches!(result, Ok(End::HandedOver(_)));
        turn::both(result, running.end(is_handed_over).await)
    }
}
