//! `wad run`: tunes flows as the configuration says, until it is stopped.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use wad_agent::run::{self, Options};

use crate::arguments::{ConfigFile, DEFAULT_CONFIG, InstanceName};

#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub config: ConfigFile,
    /// Tune the flows of this cgroup only [default: all, the root of cgroup v2]
    #[arg(long, value_name = "DIR")]
    pub cgroup: Option<PathBuf>,
    /// Learn paths from connections that larger buffers would help, as `[learn]` in the
    /// configuration does; where there is no /etc/wad/wad.toml, it is as if it were empty
    #[arg(long)]
    pub learn: bool,
    /// Take the place of an agent that was started so, if one runs, and leave it to the next:
    /// tuning stays in the kernel, and who has left waits to be stopped, or to take its place back
    /// where nobody has it
    #[arg(long)]
    pub take_over: bool,
    #[command(flatten)]
    pub instance: InstanceName,
}

/// Runs the agent.
pub fn run(args: &Run) -> Result<()> {
    run::run(&Options {
        config: args.config.file.clone(),
        cgroup: args.cgroup.clone(),
        instance: args.instance.name.clone(),
        learn: args.learn,
        may_lack_file: args.learn && args.config.file == Path::new(DEFAULT_CONFIG),
        takes_over: args.take_over,
    })
}
