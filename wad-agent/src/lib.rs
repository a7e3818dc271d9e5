//! `wad`: the agent and its command line.

mod amounts;
mod api;
mod bpf;
mod bpffs;
mod ceilings;
mod check;
mod cleanup;
mod cli;
mod config;
mod derived;
mod diagnose;
mod events;
mod explain;
mod flow_log;
mod flows;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod host;
mod instance;
mod instruments;
mod journal;
mod kernel_modules;
mod law;
mod live_flows;
mod lock;
mod log;
mod measured;
mod metrics;
mod mutex;
mod netlink;
mod netns;
mod output;
mod paths;
mod plan;
mod plot;
mod privileges;
mod reload;
mod response;
mod routes;
mod run;
mod shares;
mod shown;
mod sinks;
mod sources;
mod state_dir;
mod status;
mod struct_ops;
mod switch;
mod sysctl;
mod top;
mod trace;
mod tuning_plan;
mod whole_file;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command};

/// Does what the command line asks for.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Check(args) => check::run(&args.file),
        Command::Plan(args) => plan::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Reload(args) => reload::run(&args),
        Command::Disable(args) => switch::run(switch::To::Disable, &args),
        Command::Enable(args) => switch::run(switch::To::Enable, &args),
        Command::Paths(args) => paths::run(&args),
        Command::Flows(args) => flows::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Plot(args) => plot::run(&args),
        Command::Diagnose(args) => diagnose::run(&args),
        Command::Top(args) => top::run(&args),
        Command::GuardRoutes => routes::run_guard(),
        Command::Cleanup(args) => cleanup::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::say(&format!("error: {}", with_causes(&error)));
            ExitCode::FAILURE
        }
    }
}

/// An error and its causes, without those that it has told of already.
fn with_causes(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| {
        if told.is_empty() {
            cause
        } else if told.contains(&cause) {
            told
        } else {
            format!("{told}: {cause}")
        }
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let cause = || anyhow::Error::from(io::Error::from_raw_os_error(2));
        let plain = cause().context("cannot open x");
        assert_eq!(with_causes(&plain), "cannot open x: No such file or directory (os error 2)");
        let full =
            cause().context("cannot open x: No such file or directory (os error 2); mount it");
        assert_eq!(with_causes(&full), full.to_string());
    }
}
