//! `wad reload`: has the running agent read its configuration again.

mod show;

use std::time::Duration;

use anyhow::Result;
use hyper::Method;
use wad_agent::{
    client::{self, Request},
    reload::ReloadOutcome,
};

use crate::{arguments::Ask, error::CommandError, output};

/// Room for a configuration of 100,000 paths on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

/// `wad reload`.
pub fn run(args: &Ask) -> Result<()> {
    let request =
        Request { method: Method::POST, patience: PATIENCE, ..Request::get("/v1/reload") };
    let outcome: ReloadOutcome = client::ask_instance(&args.instance.name, &request)?;
    if args.json {
        output::print_json(&outcome)?;
    }
    match outcome {
        ReloadOutcome::Applied { policy_set, diff } if !args.json => show::print(policy_set, &diff),
        ReloadOutcome::Applied { .. } => Ok(()),
        ReloadOutcome::Refused { reason } => {
            Err(CommandError::Refused { done: "nothing was changed", reason }.into())
        }
        ReloadOutcome::Failed { reason } => {
            Err(CommandError::Refused { done: "put back as it was", reason }.into())
        }
    }
}
