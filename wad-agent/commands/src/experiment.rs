//! `wad experiment`: an experiment on a path is planned, begun, watched, and ended.

mod asked;
mod order;
mod plan;
mod status;

use anyhow::Result;
use clap::{Args, Subcommand};

pub use self::plan::Planned;

#[derive(Debug, Args)]
pub struct Experiment {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show how an experiment on a path would be: its blocks, and how long it takes until an
    /// effect is found
    Plan(plan::Arguments),
    /// Begin one: new connections of the path get its policy, and the kernel's defaults, in turn
    Start(order::Start),
    /// End one: all new connections get the policy again, and what was found out is kept
    Stop(order::Stop),
    /// Show how far experiments are; `wad report` says what they have found out
    Status(status::Arguments),
}

/// `wad experiment`.
pub fn run(Experiment { command }: &Experiment) -> Result<()> {
    match command {
        Command::Plan(args) => plan::run(args),
        Command::Start(args) => order::start(args),
        Command::Stop(args) => order::stop(args),
        Command::Status(args) => status::run(args),
    }
}
