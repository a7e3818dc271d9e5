//! `wad run`: from a configuration to tuned flows, and back out again.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use crate::{
    bpf::{self, Cgroup, Pins, Setup, Start, Tuning},
    bpffs,
    ceilings::Ceilings,
    cli,
    config::{Config, Host, PathPolicy},
    journal::Journal,
    privileges,
    sysctl::Sysctl,
};

/// Tunes until SIGTERM or SIGINT.
pub fn run(args: &cli::Run) -> Result<()> {
    let config = Config::load(&args.config.file, &Host::read()?)?;
    tracing_subscriber::fmt().init();
    privileges::check()?;
    let cgroup = Cgroup::open(args.cgroup.as_deref())?;
    let instance = &args.instance.name;
    let mut journal = Journal::open(&config.agent.state_dir, instance.name(), Sysctl::default())?;
    bpffs::ensure(&mut journal)?;
    // From here on no other agent of this instance can run.
    let pins = Pins::lock(instance)?;

    let agent = Agent { args, config: &config, cgroup: &cgroup, journal: &mut journal };
    let result = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?
        .block_on(agent.serve(pins));
    // Tuning that a failed start could not take over goes on, and keeps what it
    // needs.
    if !bpf::exist(instance) {
        for left in journal.undo()? {
            warn!("{left}");
        }
    }
    result
}

struct Agent<'a> {
    args: &'a cli::Run,
    config: &'a Config,
    cgroup: &'a Cgroup,
    journal: &'a mut Journal,
}

impl Agent<'_> {
    async fn serve(self, pins: Pins) -> Result<()> {
        let Self { args, config, cgroup, journal } = self;
        let mut stop = Stop::new()?;
        ceilings(&config.paths).require(journal)?;
        let (tuning, start) = Tuning::start(
            pins,
            &Setup {
                instance: &args.instance.name,
                cgroup,
                paths: &config.paths,
                max_memory_bytes: max_memory_bytes(config, journal.sysctl())?,
            },
        )?;
        let tuning = Arc::new(tuning);
        let paths = config.paths.len();
        match start {
            Start::Fresh => info!(paths, "ready: new flows are tuned"),
            Start::TakenOver => info!(paths, "ready: took over what an agent before left tuned"),
        }

        let mut events = tuning.events()?;
        let names = tuning.names();
        loop {
            tokio::select! {
                () = stop.asked() => break,
                waited = events.wait(|event| {
                    info!(path = ?names.get(&event.flow.policy), ?event, "event");
                }) => waited.context("cannot read events")?,
            }
        }
        info!("stopping: tuning is taken out of the kernel");
        tuning.remove()?;
        Ok(())
    }
}

/// SIGTERM or SIGINT.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn new() -> Result<Self> {
        let handle = |kind| signal(kind).context("cannot handle signals");
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

/// The largest buffers of any path.
fn ceilings(paths: &[PathPolicy]) -> Ceilings {
    let largest = |bytes: fn(&PathPolicy) -> Option<u32>| {
        paths.iter().filter_map(bytes).max().unwrap_or(0).into()
    };
    Ceilings {
        rcvbuf_bytes: largest(|path| path.rcvbuf_bytes),
        sndbuf_bytes: largest(|path| path.sndbuf_bytes),
    }
}

/// What tuned flows may pin: as configured, or a quarter of where the kernel
/// begins to press on TCP's memory (`tcp_mem[1]`, in pages; tcp(7)).
fn max_memory_bytes(config: &Config, sysctl: &Sysctl) -> Result<u64> {
    if let Some(bytes) = config.limits.max_memory_bytes {
        return Ok(bytes);
    }
    let tcp_mem = sysctl.read("net.ipv4.tcp_mem")?;
    let pressure_pages: u64 = tcp_mem
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .with_context(|| format!("net.ipv4.tcp_mem is {tcp_mem:?}, not three numbers"))?;
    // SAFETY: asks for a constant of the system.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    Ok(pressure_pages * page_bytes / 4)
}
