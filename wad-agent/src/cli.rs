//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::instance::Instance;

/// Tunes chosen TCP flows on chosen paths, with no change to applications.
#[derive(Debug, Parser)]
#[command(name = "wad", version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Tune new flows as the configuration says, until stopped
    Run(Run),
    /// Check a configuration, and show what would be done
    Check(ConfigFile),
    /// Show what the running agent does
    Status(Status),
    /// Take everything of wad's out of the kernel, and undo what it changed
    Cleanup(Cleanup),
}

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

#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    pub config: ConfigFile,
    #[command(flatten)]
    pub instance: InstanceName,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Cleanup {
    #[command(flatten)]
    pub config: ConfigFile,
    #[command(flatten)]
    pub instance: InstanceName,
}

#[derive(Debug, Args)]
pub struct ConfigFile {
    /// Configuration file
    #[arg(
        id = "config",
        long = "config",
        value_name = "FILE",
        default_value = "/etc/wad/wad.toml"
    )]
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub struct InstanceName {
    /// Keep pins, algorithm names and journal apart from those of other agents
    #[arg(id = "instance", long = "instance", value_name = "NAME", default_value = "default",
          value_parser = parse_instance)]
    pub name: Instance,
}

fn parse_instance(name: &str) -> Result<Instance, String> {
    Instance::try_new(name).map_err(|error| error.to_string())
}
