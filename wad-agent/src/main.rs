//! `wad`: the agent and its command line.

mod api;
mod bpf;
mod bpffs;
mod ceilings;
mod check;
mod cleanup;
mod cli;
mod config;
mod events;
mod instance;
mod journal;
mod lock;
mod log;
mod metrics;
mod privileges;
mod run;
mod state_dir;
mod status;
mod struct_ops;
mod sysctl;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Check(args) => check::run(&args.file),
        Command::Status(args) => status::run(&args),
        Command::Cleanup(args) => cleanup::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
