//! `wad experiment start` and `stop`: asked of the running agent.

use anyhow::Result;
use clap::Args;
use hyper::{Method, body::Bytes};
use wad_agent::{
    client::{self, Request},
    evidence::{ExperimentOrder, ExperimentOutcome, ORDERS_AT},
};

use super::asked::Asked;
use crate::{arguments::Ask, error::CommandError, output};

#[derive(Debug, Args)]
pub struct Start {
    /// The path's name
    pub path: String,
    #[command(flatten)]
    pub asked: Asked,
    #[command(flatten)]
    pub ask: Ask,
}

#[derive(Debug, Args)]
pub struct Stop {
    /// The path's name
    pub path: String,
    #[command(flatten)]
    pub ask: Ask,
}

/// `wad experiment start`.
pub fn start(Start { path, asked, ask }: &Start) -> Result<()> {
    let asked = Box::new(asked.experiment());
    order(&ExperimentOrder::Start { path: path.clone(), asked }, ask)
}

/// `wad experiment stop`.
pub fn stop(Stop { path, ask }: &Stop) -> Result<()> {
    order(&ExperimentOrder::Stop { path: path.clone() }, ask)
}

fn order(order: &ExperimentOrder, ask: &Ask) -> Result<()> {
    let request = Request {
        method: Method::POST,
        body: Bytes::from(serde_json::to_vec(order)?),
        ..Request::get(ORDERS_AT)
    };
    let outcome: ExperimentOutcome = client::ask_instance(&ask.instance.name, &request)?;
    if ask.json {
        output::print_json(&outcome)?;
    }
    match outcome {
        ExperimentOutcome::Refused { reason } => {
            Err(CommandError::Refused { done: "nothing was changed", reason }.into())
        }
        ExperimentOutcome::Done { .. } if ask.json => Ok(()),
        ExperimentOutcome::Done { experiment } => {
            let path = experiment.path.escape_debug();
            let said = match experiment.ended_by {
                Some(_) => "is over; `wad report` says what it has found out".to_owned(),
                None => format!(
                    "begins at {}, and ends at {} at the latest: seed {}",
                    experiment.begins, experiment.ends, experiment.seed
                ),
            };
            output::print(format_args!("the experiment on path {path} {said}\n"))
        }
    }
}
