//! `wad explain`: which path the flows to an address fall under, what they get, and
//! why. Answered by the running agent from what is in force in the kernel or, where
//! none runs, from the configuration.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use wad_agent::{
    client::{self, ClientError, Request},
    sets,
};
use wad_policy::{
    config::{Config, Host, fill},
    heard,
    tuning_plan::{Bounds, KernelBuffers},
};
use wad_tuning::{
    disabled_note::Note,
    explain::{
        Answer, Basis, End, Offline, PodName, Query, below_root, interface_name, mark_number,
    },
    routes,
};

use crate::{
    arguments::{Ask, DEFAULT_CONFIG, user_number},
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
    #[arg(long, value_name = "NAME|NUMBER", value_parser = user_number)]
    pub user: Option<u32>,
    /// The cgroup that it is of, as /proc/PID/cgroup has it after 0::, where paths depend on it
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<String>,
    /// The pod of this node that it is of, where paths depend on it
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub pod: Option<PodName>,
    /// The mark that it has (SO_MARK), where paths depend on it
    #[arg(long, value_name = "NUMBER", value_parser = mark_number)]
    pub mark: Option<u32>,
    /// The interface that its packets leave by, where paths depend on it
    #[arg(long, value_name = "NAME", value_parser = interface_name)]
    pub interface: Option<String>,
    /// Answer from the configuration, even if an agent runs
    #[arg(long)]
    pub offline: bool,
    /// Answer from this configuration, even if an agent runs [default: /etc/wad/wad.toml, with
    /// --offline or where no agent runs]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub ask: Ask,
}

/// `wad explain`.
pub fn run(args: &Explain) -> Result<()> {
    let cgroup = args.cgroup.as_deref().map(below_root);
    let query = Query {
        remote: args.remote,
        local: args.local,
        user: args.user,
        cgroup,
        pod: args.pod.clone(),
        mark: args.mark,
        interface: args.interface.clone(),
    };
    let is_offline = args.offline || args.config.is_some();
    let answer = if is_offline { None } else { ask_agent(args, &query)? };
    let answer = match answer {
        Some(answer) => answer,
        None => from_configuration(args, &query)?,
    };
    if args.ask.json {
        return output::print_json(&answer);
    }
    output::print(answer)
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
    let file = args.config.clone().unwrap_or_else(|| DEFAULT_CONFIG.into());
    let instance = &args.ask.instance.name;
    let mut config = Config::load(&file, &Host::read()?)?;
    let held = sets::without_agent(&config.lists(), &config.agent.state_dir, instance.name());
    fill(&mut config.paths, &held);
    // No peer is heard without an agent.
    let unbounded = Bounds::new(None, u64::MAX, KernelBuffers::default());
    heard::follow(&[], &mut config.paths, unbounded);
    let disabled = Note::of(&config.agent.state_dir, instance.name()).read()?;
    let from = Basis::Configuration { file };
    let routes = if config.host.routes {
        routes::RoutesState::InForce(routes::Report::default())
    } else {
        routes::RoutesState::Off
    };
    Ok(Offline::new(&config.paths, instance, &disabled).explain(query, from).with_means(&routes))
}
