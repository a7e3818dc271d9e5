//! The command line of `wad`: each command with its arguments.

mod arguments;
mod check;
mod cleanup;
mod cli;
mod diagnose;
mod error;
mod exit;
mod experiment;
mod explain;
mod flows;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod guard;
mod history;
mod import;
mod output;
mod paths;
mod peer;
mod plan;
mod plot;
mod probe;
mod progress;
pub mod reference;
mod reload;
mod report;
#[cfg(test)]
mod reviewed;
mod run;
mod simulate;
mod status;
mod suggest;
mod switch;
mod top;
mod trace;

use std::{env, process::ExitCode};

use wad_observing::log;
use wad_policy::switch::To;
use wad_toolbox::causes::with_causes;
use wad_tuning::routes;

use crate::{cli::Command, exit::Exit};

/// Does what the command line asks for.
pub fn main() -> ExitCode {
    let command = match cli::parse(env::args_os()) {
        Ok(cli) => cli.command,
        Err(error) => {
            // Nobody is left to hear that standard error is closed.
            let _ = error.print();
            return Exit::of_command_line(&error).into();
        }
    };
    let result = match command {
        Command::Run(args) => run::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Reload(args) => reload::run(&args),
        Command::Disable(args) => switch::run(To::Disable, &args),
        Command::Enable(args) => switch::run(To::Enable, &args),
        Command::Paths(args) => paths::run(&args),
        Command::Flows(args) => flows::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Plot(args) => plot::run(&args),
        Command::Probe(args) => probe::run(&args),
        Command::Peer(args) => peer::run(&args),
        Command::Diagnose(args) => diagnose::run(&args),
        Command::Suggest(args) => suggest::run(&args),
        Command::Experiment(args) => experiment::run(&args),
        Command::Guard(args) => guard::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Top(args) => top::run(&args),
        Command::GuardRoutes => routes::run_guard(),
        Command::Cleanup(args) => cleanup::run(&args),
    };
    match result {
        Ok(()) => Exit::Success.into(),
        Err(error) => {
            log::say_error(&with_causes(&error));
            Exit::of(&error).into()
        }
    }
}
