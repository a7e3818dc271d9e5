//! `wad explain`: which path the flows to an address fall under, what they get, and
//! why. Answered by the running agent from what is in force in the kernel or, where
//! none runs, from the configuration.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use wad_agent::{
    client::{self, ClientError, Request},
    sets,
};
use wad_policy::config::{Config, Host, fill};
use wad_tuning::{
    disabled_note::Note,
    explain::{Answer, Basis, End, Offline, Query, below_root},
    routes,
};

use crate::{
    arguments::{Ask, ConfigFile},
    output,
};

#[derive(Debug, Args)]
pub struct Explain {
    /// The other end; without a port, paths for one are shown as conditions
    #[arg(value_name = "ADDRESS[:PORT]")]
    pub remote: End,
    /// This host's end, where paths depend on it
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    pub local: Option<End>,
    /// The user that the connection's socket belongs to, where paths depend on it
    #[arg(long, value_name = "NAME|NUMBER")]
    pub user: Option<String>,
    /// The cgroup that it is of, as /proc/PID/cgroup has it after 0::, where paths depend on it
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<String>,
    /// Answer from the configuration, even if an agent runs
    #[arg(long)]
    pub offline: bool,
    #[command(flatten)]
    pub config: ConfigFile,
    #[command(flatten)]
    pub ask: Ask,
}

/// `wad explain`.
pub fn run(args: &Explain) -> Result<()> {
    let user = args.user.as_deref().map(user_number).transpose()?;
    let cgroup = args.cgroup.as_deref().map(below_root);
    let query = Query { remote: args.remote, local: args.local, user, cgroup };
    let answer = if args.offline { None } else { ask_agent(args, &query)? };
    let answer = match answer {
        Some(answer) => answer,
        None => from_configuration(args, &query)?,
    };
    if args.ask.json {
        return output::print_json(&answer);
    }
    output::print(answer)
}

/// Returns a user's number, of those that have a name here or of any.
fn user_number(user: &str) -> Result<u32> {
    if let Ok(number) = user.parse() {
        return Ok(number);
    }
    let number = Host::read()?.users.get(user).copied();
    number.with_context(|| {
        format!("no user {user:?} in /etc/passwd: give the number, which `id -u {user}` says")
    })
}

/// Asks the agent; None if no agent runs.
fn ask_agent(args: &Explain, query: &Query) -> Result<Option<Answer>> {
    let request = Request::get(format!("/v1/path?{query}"));
    match client::ask_instance(&args.ask.instance.name, &request) {
        Ok(answer) => Ok(Some(answer)),
        Err(error) => match error.downcast_ref() {
            Some(ClientError::NotRunning { .. }) => Ok(None),
            _ => Err(error),
        },
    }
}

/// Answers with what an agent that starts now would put in force.
fn from_configuration(args: &Explain, query: &Query) -> Result<Answer> {
    let file: PathBuf = args.config.file.clone();
    let instance = &args.ask.instance.name;
    let mut config = Config::load(&file, &Host::read()?)?;
    let held = sets::without_agent(&config.lists(), &config.agent.state_dir, instance.name());
    fill(&mut config.paths, &held);
    let disabled = Note::of(&config.agent.state_dir, instance.name()).read()?;
    let from = Basis::Configuration { file };
    let routes = if config.host.routes {
        routes::RoutesState::InForce(routes::Report::default())
    } else {
        routes::RoutesState::Off
    };
    Ok(Offline::new(&config.paths, instance, &disabled).explain(query, from).with_means(&routes))
}
