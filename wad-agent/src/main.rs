//! `wad`: the agent and its command line.
#![expect(dead_code, reason = "services that nothing starts yet")]

mod ceilings;
mod journal;
mod metrics;
mod sysctl;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

mod check;
mod config;

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check a configuration file.
    Check {
        #[arg(long, value_name = "FILE", default_value = "/etc/wad/wad.toml")]
        config: PathBuf,
    },
}

fn main() {
    let Command::Check { config } = Cli::parse().command;
    if let Err(error) = check::run(&config) {
        eprintln!("error: {error:#}");
        std::process::exit(1);
    }
}
