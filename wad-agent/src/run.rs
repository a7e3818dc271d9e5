//! `wad run`: from a configuration to tuned flows, and back out again.

use std::{fs, sync::Arc};

use anyhow::{Context as _, Result};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};
use tracing::{info, warn};

use crate::{
    api,
    bpf::{self, Cgroup, Pins, Setup, Start, Tuning},
    bpffs,
    ceilings::Ceilings,
    cli,
    config::{Config, Host},
    events::Summaries,
    journal::Journal,
    log, privileges,
};

/// Tunes until SIGTERM or SIGINT.
pub async fn run(args: &cli::Run) -> Result<()> {
    let config = Config::load(&args.config.file, &Host::read()?)?;
    log::init(config.log.format);
    privileges::check()?;
    let cgroup = Cgroup::open(args.cgroup.as_deref())?;
    let instance = &args.instance.name;
    let mut journal = Journal::open(&config.agent.state_dir, instance.name())?;
    bpffs::ensure(&mut journal)?;
    // From here on another agent of this instance is out of the question; its
    // journal and tuning would be its own.
    let pins = Pins::lock(instance)?;

    let result = Agent { args, config: &config, cgroup: &cgroup, journal: &mut journal }
        .serve(pins)
        .await;
    // What a start that failed could not take over goes on working, and keeps
    // what it needs.
    if !bpf::exist(instance) {
        journal.undo();
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
        let instance = &args.instance.name;
        let metrics = api::bind_metrics(config.metrics.listen).await?;
        let control = api::bind_control(instance.name())?;

        let largest = |bytes: fn(&crate::config::PathPolicy) -> Option<u32>| {
            config.paths.iter().filter_map(bytes).max().unwrap_or(0).into()
        };
        Ceilings::require(journal, largest(|path| path.rcvbuf_bytes), largest(|path| path.sndbuf_bytes))?;

        let setup = Setup {
            instance,
            cgroup,
            paths: &config.paths,
            max_memory_bytes: max_memory_bytes(config)?,
        };
        let (tuning, start) = Tuning::start(pins, &setup)?;
        match start {
            Start::Fresh => info!(paths = config.paths.len(), "tuning new flows"),
            Start::TakenOver => info!(
                paths = config.paths.len(),
                "took over the tuning that an agent before this one left"
            ),
        }
        let tuning = Arc::new(tuning);
        until_stopped(&tuning).await?;
        info!("stopping: tuning is taken out of the kernel");
        tuning.remove()?;
        Ok(())
    }
}
