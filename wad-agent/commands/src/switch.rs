//! `wad disable` and `wad enable`: the kill switch, asked of the running agent.

use anyhow::Result;
use clap::Args;
use hyper::{Method, body::Bytes};
use wad_agent::{
    client::{self, Request},
    switched::SwitchOutcome,
};
use wad_policy::switch::{Order, To, summary};

use crate::{arguments::Ask, error::CommandError, output, progress::Progress};

#[derive(Debug, Args)]
pub struct Switch {
    /// The path's name [default: all paths]
    pub path: Option<String>,
    #[command(flatten)]
    pub ask: Ask,
}

/// `wad disable`, `wad enable`.
pub fn run(to: To, args: &Switch) -> Result<()> {
    let order = Order { to, path: args.path.clone() };
    let request = Request {
        method: Method::POST,
        body: Bytes::from(serde_json::to_vec(&order)?),
        ..Request::get("/v1/switch")
    };
    let progress = Progress::of("connections that run follow");
    let outcome: SwitchOutcome = client::ask_instance(&args.ask.instance.name, &request)?;
    drop(progress);
    if args.ask.json {
        output::print_json(&outcome)?;
    }
    match outcome {
        SwitchOutcome::Done { policy_set, disabled, warning } => {
            if !args.ask.json {
                let summary = summary(&disabled);
                output::print(format_args!("policy set {policy_set} is in force: {summary}\n"))?;
            }
            warning.map_or(Ok(()), |reason| Err(CommandError::NotNoted { reason }.into()))
        }
        SwitchOutcome::Refused { reason } | SwitchOutcome::Failed { reason } => {
            Err(CommandError::Refused { done: "nothing was changed", reason }.into())
        }
    }
}
