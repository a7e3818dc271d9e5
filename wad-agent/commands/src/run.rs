//! `wad run`: tunes flows as the configuration says, until it is stopped.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use wad_agent::run::{self, Options};

use crate::arguments::{ConfigFile, InstanceName};

#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub config: ConfigFile,
    /// Tune the flows of this cgroup only [default: all, the root of cgroup v2]
    #[arg(long, value_name = "DIR")]
    pub cgroup: Option<PathBuf>,
    #[command(flatten)]
    pub instance: InstanceName,
}

/// Runs the agent.
pub fn run(args: &Run) -> Result<()> {
    run::run(&Options {
        config: args.config.file.clone(),
        cgroup: args.cgroup.clone(),
        instance: args.instance.name.clone(),
    })
}
