//! `wad cleanup`: takes out of the kernel what an agent that died left there,
//! and undoes what it changed on the host.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{
    bpf::{self, Pins},
    bpffs, cli,
    config::{Agent, Config, Host},
    journal::Journal,
    lock::{self, Lock},
    sysctl::Sysctl,
};

/// Does it all; where nothing was left, says so.
pub fn run(args: &cli::Cleanup) -> Result<()> {
    let instance = &args.instance.name;
    // Not while an agent runs: it would be left with nothing.
    let lock = Lock::take(Path::new(lock::RUN_DIR), instance.name())?;
    let state_dir = state_dir(&args.config.file)?;
    let mut journal = Journal::open(&state_dir, instance.name(), Sysctl::default())?;
    let had_tuning = bpffs::is_mounted() && bpf::exist(instance);
    let had_changes = journal.changes().next().is_some();
    if bpffs::is_mounted() {
        Pins::new(&lock, instance).remove()?;
    }
    for left in journal.undo()? {
        println!("{left}");
    }
    println!(
        "instance `{}`: {}, {}",
        instance.name(),
        if had_tuning { "tuning removed from the kernel" } else { "no tuning was in the kernel" },
        if had_changes { "changes to the host undone" } else { "no change to the host was left" },
    );
    Ok(())
}

/// Where the journal is; the default where the configuration has been removed
/// already.
fn state_dir(config: &Path) -> Result<PathBuf> {
    if config.exists() {
        Ok(Config::load(config, &Host::read()?)?.agent.state_dir)
    } else {
        Ok(Agent::default().state_dir)
    }
}
