//! `wad probe`: paths that this host measures itself.

mod log;
mod now;
mod plan;
mod rows;
mod run;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};
use serde::de::DeserializeOwned;
use wad_agent::client::{self, Request};
use wad_linux::lock;

use crate::arguments::InstanceName;

#[derive(Debug, Args)]
pub struct Probe {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what the tasks of a configuration will do: when, for how many bytes a day, and
    /// which are in each other's way
    Plan(plan::Arguments),
    /// Have tasks run now, and show what they measure
    Now(now::Now),
    /// Show how periods of tasks ended: what was measured, or why nothing was
    Log(log::Log),
    /// Measure as the configuration says, without tuning anything, until stopped
    Run(run::Run),
}

/// The service that is asked.
#[derive(Debug, Args)]
pub struct Ask {
    #[command(flatten)]
    pub instance: InstanceName,
    /// Ask a service that runs alone here; it says where in its log [default: the agent]
    #[arg(long, value_name = "FILE")]
    pub socket: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl Ask {
    async fn ask<T: DeserializeOwned>(&self, request: &Request) -> Result<T> {
        let instance = self.instance.name.name();
        let of_agent = || lock::socket(Path::new(lock::RUN_DIR), instance);
        let socket = self.socket.clone().unwrap_or_else(of_agent);
        Ok(client::ask(&socket, instance, request).await?)
    }
}

/// `wad probe`.
pub fn run(Probe { command }: &Probe) -> Result<()> {
    match command {
        Command::Plan(args) => plan::run(args),
        Command::Now(args) => now::run(args),
        Command::Log(args) => log::run(args),
        Command::Run(args) => run::run(args),
    }
}
