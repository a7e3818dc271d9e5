//! `wad`: the agent and its command line.

mod amounts;
mod api;
mod bpf;
mod bpffs;
mod causes;
mod ceilings;
mod cgroup;
mod chance;
mod check;
mod cleanup;
mod cli;
mod client;
mod cmd_diagnose;
mod cmd_explain;
mod cmd_paths;
mod cmd_reload;
mod cmd_run;
mod cmd_status;
mod cmd_switch;
mod cmd_trace;
mod config;
mod derived;
mod diagnose;
mod disabled_note;
mod event_name;
mod events;
mod explain;
mod explainer;
mod flow_log;
mod flows;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod host;
mod http;
mod instance;
mod instruments;
mod journal;
mod kernel_modules;
pub mod law;
mod live_flows;
mod lock;
mod log;
mod measured;
mod metrics;
mod mutex;
mod netlink;
mod netns;
mod output;
mod pair;
mod paths;
mod plan;
mod plot;
mod policy_set;
mod privileges;
mod reading;
mod readings;
mod refusals;
mod reload;
pub mod response;
mod route_rules;
mod routes;
mod run;
mod shares;
mod shown;
mod signals;
mod sinks;
mod sources;
mod state_dir;
mod status;
mod struct_ops;
mod switch;
mod switched;
mod sysctl;
mod top;
mod trace;
mod tuning_plan;
mod url;
mod whole_file;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command};

/// The table that the reference of a path's fields is made from.
pub use crate::config::fields;

/// Does what the command line asks for.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => cmd_run::run(&args),
        Command::Check(args) => check::run(&args.file),
        Command::Plan(args) => plan::run(&args),
        Command::Status(args) => cmd_status::run(&args),
        Command::Explain(args) => cmd_explain::run(&args),
        Command::Reload(args) => cmd_reload::run(&args),
        Command::Disable(args) => cmd_switch::run(switch::To::Disable, &args),
        Command::Enable(args) => cmd_switch::run(switch::To::Enable, &args),
        Command::Paths(args) => cmd_paths::run(&args),
        Command::Flows(args) => flows::run(&args),
        Command::Trace(args) => cmd_trace::run(&args),
        Command::Plot(args) => plot::run(&args),
        Command::Diagnose(args) => cmd_diagnose::run(&args),
        Command::Top(args) => top::run(&args),
        Command::GuardRoutes => routes::run_guard(),
        Command::Cleanup(args) => cleanup::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::say(&format!("error: {}", causes::with_causes(&error)));
            ExitCode::FAILURE
        }
    }
}
