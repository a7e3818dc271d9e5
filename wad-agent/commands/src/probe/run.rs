//! `wad probe run`: the service alone.

use anyhow::Result;
use clap::Args;
use wad_agent::probes_alone::{self, Options};

use crate::arguments::{ConfigFile, InstanceName};

#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub config: ConfigFile,
    #[command(flatten)]
    pub instance: InstanceName,
}

/// Runs the service.
pub fn run(args: &Run) -> Result<()> {
    let instance = args.instance.name.name().to_owned();
    probes_alone::run(&Options { config: args.config.file.clone(), instance })
}
