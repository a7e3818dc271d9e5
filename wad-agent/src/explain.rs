//! `wad explain` and the agent's `/v1/path`: which path the flows to an address
//! fall under, what they get, and why. Answered by the running agent from what is
//! in force in the kernel or, where none runs, from the configuration.

mod answer;
mod lookup;
mod query;
mod settings;
mod show;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    fmt::{self, Debug},
    path::PathBuf,
    sync::Arc,
};

use anyhow::Result;
use wad_common::policy::{Rule, RuleRun};

pub use self::{
    answer::{Answer, Basis},
    lookup::{Known, RuleSet, explain},
    query::{End, Query, QueryError},
};
use crate::{
    bpf::{Making, PolicySet},
    cli,
    config::{Config, Host},
    metrics::{PathState, SourceError},
    output, routes,
    status::client::{self, Error, Request},
    switch::Note,
};

/// Answers from what is in force. It may block for some lookups in maps.
#[derive(Clone)]
pub struct Explainer(Arc<Explain>);

type Explain = dyn Fn(&Query) -> Result<Answer, SourceError> + Send + Sync;

impl Explainer {
    pub fn new(
        explain: impl Fn(&Query) -> Result<Answer, SourceError> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(explain))
    }

    pub fn explain(&self, query: &Query) -> Result<Answer, SourceError> {
        self.0(query)
    }
}

impl Debug for Explainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Explainer")
    }
}

/// `wad explain`.
pub fn run(args: &cli::Explain) -> Result<()> {
    let query = Query { remote: args.remote, local: args.local };
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

/// None if no agent runs.
fn ask_agent(args: &cli::Explain, query: &Query) -> Result<Option<Answer>> {
    let request = Request::get(format!("/v1/path?{query}"));
    match client::ask_instance(&args.ask.instance.name, &request) {
        Ok(answer) => Ok(Some(answer)),
        Err(error) => match error.downcast_ref() {
            Some(Error::NotRunning { .. }) => Ok(None),
            _ => Err(error),
        },
    }
}

/// What an agent that starts now would put in force.
fn from_configuration(args: &cli::Explain, query: &Query) -> Result<Answer> {
    let file: PathBuf = args.ask.config.file.clone();
    let instance = &args.ask.instance.name;
    let config = Config::load(&file, &Host::read()?)?;
    let disabled = Note::of(&config.agent.state_dir, instance.name()).read()?;
    let making = Making { generation: 0, known: &HashMap::new(), instance, disabled: &disabled };
    let set = PolicySet::new(&config.paths, making);
    let from = Basis::Configuration { file };
    let routes = if config.host.routes {
        routes::State::InForce(routes::Report::default())
    } else {
        routes::State::Off
    };
    Ok(explain(&Offline { set, config }, query, from)?.with_means(&routes))
}

/// A policy set that is in no kernel.
struct Offline {
    set: PolicySet,
    config: Config,
}

impl RuleSet for Offline {
    type Error = anyhow::Error;

    fn run(&self, address: u128, bits: u8) -> Result<Option<RuleRun>> {
        Ok(self.set.run(address, bits))
    }

    fn rule(&self, index: u32) -> Result<Rule> {
        Ok(self.set.rules[index as usize])
    }

    fn policy(&self, index: u32) -> Result<Known> {
        // Nothing had an index before: they are those of the file.
        let path = &self.config.paths[index as usize];
        let withheld = self.set.withheld.get(&index);
        let policy = match withheld {
            Some(withheld) => withheld.policy,
            None => self.set.policies[index as usize].expect("every path has a policy"),
        };
        let state = match withheld {
            None => PathState::Tuned,
            Some(withheld) if withheld.observe => PathState::Observed,
            Some(_) => PathState::Disabled,
        };
        Ok(Known { policy, state, origin: path.origin })
    }
}
