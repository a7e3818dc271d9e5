//! `wad run`: from a configuration to tuned flows, and back out again.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Instant, SystemTime},
};

use anyhow::{Context as _, Result};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};
use tracing::{error, info, warn};

use crate::{
    api::{self, Api},
    bpf::{self, Cgroup, Pins, Setup, Start, Tuning},
    bpffs,
    ceilings::Ceilings,
    cli,
    config::{Config, Host, PathPolicy},
    flow_log::FlowLog,
    journal::{Change, Journal},
    kernel_modules,
    lock::{self, Lock},
    log,
    measured::{self, Board, Measured},
    metrics::Source,
    paths,
    privileges::{self, Privileges},
    sources::Cache,
    state_dir::StateDir,
    status::About,
    sysctl::Sysctl,
};

/// Tunes until SIGTERM or SIGINT; SIGHUP has it read the configuration again.
pub fn run(args: &cli::Run) -> Result<()> {
    keep_little_memory();
    let config = Config::load(&args.config.file, &Host::read()?)?;
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
    noted.note(&state_dir)?;
    if let Some(damage) = journal.damage() {
        warn!("{damage}");
    }

    let cache = measured::cache(&state_dir, instance.name());
    let agent = Agent { args, config, cgroup, lock: &lock, privileges, cache };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let result = runtime.block_on(agent.serve(&mut journal));
    // A look-up of a name may take long: nobody waits for it any more.
    runtime.shutdown_background();
    // Tuning that a failed start could not take over goes on, and keeps what it
    // needs.
    if bpf::exist(instance) {
        return result;
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
    config: Config,
    cgroup: Cgroup,
    lock: &'a Lock,
    privileges: Privileges,
    /// What sources said, across restarts.
    cache: Cache,
}

impl Agent<'_> {
    async fn serve(mut self, journal: &mut Journal) -> Result<()> {
        let mut stop = Stop::new()?;
        let mut hang_up = handle(SignalKind::hangup())?;
        // What can fail for others' reasons comes before any change to the host.
        let scrapes = api::bind_metrics(self.config.metrics.listen).await?;
        let commands = api::bind_control(self.lock)?;
        kernel_modules::load(&self.config.paths)?;
        let max_memory_bytes = max_memory_bytes(&self.config, journal.sysctl())?;
        let mut measured = Measured::new(&self.config, max_memory_bytes, self.cache.clone());
        if let Some(policies) = measured.policies() {
            self.config.paths = policies;
        }
        let tuning = Arc::new(self.tune(max_memory_bytes, journal)?);
        // The kernel has the paths now.
        self.config.paths = Vec::new();
        give_memory_back();
        measured.start();
        let board = Arc::new(Mutex::new(measured.board()));

        let changes = Arc::new(Mutex::new(journal.changes().cloned().collect()));
        let api = Arc::new(self.api(&tuning, Arc::clone(&changes), Arc::clone(&board)));
        let (stopping, stopped) = watch::channel(false);
        let scrapes =
            tokio::spawn(api::serve(scrapes, api::metrics_router(api.clone()), stopped.clone()));
        let commands = tokio::spawn(api::serve(commands, api::control_router(api), stopped));

        let mut flows = FlowLog::open(&tuning)?;
        let mut reviews = measured::reviews();
        let result = loop {
            tokio::select! {
                () = stop.asked() => break Ok(()),
                failed = flows.run() => break failed,
                _ = reviews.tick() => {
                    if let Err(error) = self.review(&mut measured, &tuning, journal) {
                        error!("measured paths stay as they were: {error:#}");
                    }
                }
                _ = hang_up.recv() => {
                    if let Err(error) = self.reload(&mut measured, &tuning, journal) {
                        error!("the policy stays as it was: {error:#}");
                    }
                    *board.lock().unwrap_or_else(PoisonError::into_inner) = measured.board();
                    flows.rename(&tuning);
                    *changes.lock().unwrap_or_else(PoisonError::into_inner) =
                        journal.changes().cloned().collect();
                    give_memory_back();
                }
            }
        };
        info!("stopping: tuning is taken out of the kernel");
        stopping.send_replace(true);
        measured.save();
        tuning.remove()?;
        flows.finish();
        scrapes.await?;
        commands.await?;
        result
    }

    fn tune(&self, max_memory_bytes: u64, journal: &mut Journal) -> Result<Tuning> {
        bpffs::ensure(journal)?;
        let instance = &self.args.instance.name;
        let setup =
            Setup { instance, cgroup: &self.cgroup, paths: &self.config.paths, max_memory_bytes };
        let ceilings = Ceilings::of(&self.config.paths);
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
        // Until now the policies of the agent before were in force.
        if let Err(error) = ceilings.lower(journal).map_err(anyhow::Error::from) {
            warn!("{error:#}");
        }
        let paths = self.config.paths.len();
        match start {
            Start::Fresh => info!(paths, "tuning new flows"),
            Start::TakenOver => info!(paths, "took over the tuning of an agent before this one"),
        }
        Ok(tuning)
    }

    /// Reads the configuration again, and puts its paths and limits in force. What
    /// else it says holds from the next start on.
    fn reload(
        &self,
        measured: &mut Measured,
        tuning: &Tuning,
        journal: &mut Journal,
    ) -> Result<()> {
        let config = Config::load(&self.args.config.file, &Host::read()?)?;
        kernel_modules::load(&config.paths)?;
        let max_memory_bytes = max_memory_bytes(&config, journal.sysctl())?;
        let mut after = Measured::new(&config, max_memory_bytes, self.cache.clone());
        after.take_over(measured);
        let policies = after.policies().unwrap_or(config.paths);
        let policy_set = self.put_in_force(&policies, max_memory_bytes, tuning, journal)?;
        // The tasks that asked for the configuration before end here.
        *measured = after;
        measured.start();
        info!(paths = policies.len(), policy_set, "the configuration's paths are in force");
        Ok(())
    }

    /// Measured paths follow what is measured.
    fn review(
        &self,
        measured: &mut Measured,
        tuning: &Tuning,
        journal: &mut Journal,
    ) -> Result<()> {
        let now = Instant::now();
        measured.save_now_and_then(now);
        if !measured.review(now, SystemTime::now()) {
            return Ok(());
        }
        let Some(policies) = measured.policies() else { return Ok(()) };
        self.put_in_force(&policies, measured.max_memory_bytes(), tuning, journal)?;
        Ok(())
    }

    /// Returns the number of the policy set.
    fn put_in_force(
        &self,
        policies: &[PathPolicy],
        max_memory_bytes: u64,
        tuning: &Tuning,
        journal: &mut Journal,
    ) -> Result<u64> {
        let ceilings = Ceilings::of(policies);
        ceilings.raise(journal)?;
        let policy_set = tuning.change(policies, max_memory_bytes, &self.args.instance.name)?;
        if let Err(error) = ceilings.lower(journal).map_err(anyhow::Error::from) {
            warn!("{error:#}");
        }
        Ok(policy_set)
    }

    fn api(
        &self,
        tuning: &Arc<Tuning>,
        changes: Arc<Mutex<Vec<Change>>>,
        board: Arc<Mutex<Board>>,
    ) -> Api {
        let (tuning, known) = (Arc::clone(tuning), Arc::clone(&board));
        let board = move || board.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let of_paths = Arc::clone(&tuning);
        Api {
            about: About {
                instance: self.args.instance.name.name().to_owned(),
                config: self.args.config.file.clone(),
                cgroup: self.cgroup.path.clone(),
                started: Instant::now(),
                started_at: SystemTime::now(),
            },
            max_paths: self.config.metrics.max_paths,
            source: Source::new(move || {
                let changes = changes.lock().unwrap_or_else(PoisonError::into_inner);
                let mut readings = tuning.readings(&changes)?;
                drop(changes);
                board().read(&mut readings);
                Ok(readings)
            }),
            paths: paths::Source::new(move || {
                let board = known.lock().unwrap_or_else(PoisonError::into_inner).clone();
                Ok(paths::Paths::new(&of_paths.policies()?, &board, SystemTime::now()))
            }),
        }
    }
}

/// Reading a large configuration, or telling all of it, takes several times what
/// is kept. glibc holds on to that, each thread to its own, unless told not to.
fn keep_little_memory() {
    // SAFETY: settings of the allocator, made before there is a second thread.
    #[cfg(target_env = "gnu")]
    unsafe {
        const LARGE_BYTES: libc::c_int = 128 * 1024;
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE_BYTES);
    }
}

/// What lies between pieces that are kept is given back only on demand.
fn give_memory_back() {
    // SAFETY: an allocator may be asked at any time; musl's does it by itself.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

fn handle(kind: SignalKind) -> Result<Signal> {
    signal(kind).context("cannot handle signals")
}

/// SIGTERM or SIGINT.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn new() -> Result<Self> {
        Ok(Self {
            terminate: handle(SignalKind::terminate())?,
            interrupt: handle(SignalKind::interrupt())?,
        })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// What tuned flows may pin: as configured, or a quarter of where the kernel
/// begins to press on TCP's memory (`tcp_mem[1]`, in pages; tcp(7)).
fn max_memory_bytes(config: &Config, sysctl: &Sysctl) -> Result<u64> {
    if let Some(bytes) = config.limits.max_memory_bytes {
        return Ok(bytes);
    }
    let tcp_mem = sysctl.read("net.ipv4.tcp_mem").context(
        "no bound on the memory of tuned flows: run wad in the host's network namespace, or set \
         [limits] max_memory",
    )?;
    let pressure_pages: u64 = tcp_mem
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .with_context(|| format!("net.ipv4.tcp_mem is {tcp_mem:?}, not three numbers"))?;
    // SAFETY: asks for a constant of the system.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    Ok(pressure_pages * page_bytes / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysctl::testing;

    fn config(text: &str) -> Config {
        Config::parse("wad.toml", text, &Host { congestion_controls: vec![], loadable: vec![] })
            .unwrap()
    }

    #[test]
    fn memory_is_bounded_as_configured_or_by_the_kernel() {
        let (_root, sysctl) = testing::tree(&[("net.ipv4.tcp_mem", "100\t4000\t5000")]);
        // SAFETY: asks for a constant of the system.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
        assert_eq!(max_memory_bytes(&config(""), &sysctl).unwrap(), 1000 * page_bytes);
        let configured = config("[limits]\nmax_memory = '64MiB'\n");
        assert_eq!(max_memory_bytes(&configured, &sysctl).unwrap(), 64 << 20);

        let (_root, elsewhere) = testing::tree(&[]);
        assert_eq!(max_memory_bytes(&configured, &elsewhere).unwrap(), 64 << 20);
        let error = format!("{:#}", max_memory_bytes(&config(""), &elsewhere).unwrap_err());
        assert!(error.contains("[limits] max_memory") && error.contains("tcp_mem"), "{error}");
    }

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
