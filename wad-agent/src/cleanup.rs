//! `wad cleanup`: takes out of the kernel what an agent that died left there,
//! and undoes what it changed on the host.

use anyhow::Result;

use crate::{
    bpf::{self, Pins},
    bpffs, cli,
    config::{Config, Host},
    journal::Journal,
    sysctl::Sysctl,
};

/// Does it all; where nothing was left, says so.
pub fn run(args: &cli::Cleanup) -> Result<()> {
    let config = Config::load(&args.config.file, &Host::read()?)?;
    let instance = &args.instance.name;
    let mut journal = Journal::open(&config.agent.state_dir, instance.name(), Sysctl::default())?;
    let had_tuning = bpffs::is_mounted() && bpf::exist(instance);
    let had_changes = journal.changes().next().is_some();
    if bpffs::is_mounted() {
        // Not while an agent runs: it would be left with nothing.
        Pins::lock(instance)?.remove()?;
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
