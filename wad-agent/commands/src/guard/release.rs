//! `wad guard release`: asked of the running agent.

use anyhow::Result;
use clap::Args;
use hyper::{Method, body::Bytes};
use wad_agent::{
    client::{self, Request},
    guards::{RELEASE_AT, Release, ReleaseOutcome},
};

use crate::{arguments::Ask, error::CommandError, output};

#[derive(Debug, Args)]
pub struct Arguments {
    /// The path's name
    pub path: String,
    #[command(flatten)]
    pub ask: Ask,
}

/// `wad guard release`.
pub fn run(Arguments { path, ask }: &Arguments) -> Result<()> {
    let body = serde_json::to_vec(&Release { path: path.clone() })?;
    let request =
        Request { method: Method::POST, body: Bytes::from(body), ..Request::get(RELEASE_AT) };
    let outcome: ReleaseOutcome = client::ask_instance(&ask.instance.name, &request)?;
    if ask.json {
        output::print_json(&outcome)?;
    }
    match outcome {
        ReleaseOutcome::Refused { reason } => {
            Err(CommandError::Refused { done: "nothing was changed", reason }.into())
        }
        ReleaseOutcome::Done { .. } if ask.json => Ok(()),
        ReleaseOutcome::Done { guard } => {
            let path = guard.path.escape_debug();
            output::print(format_args!("the policy of path {path} is in force again\n"))
        }
    }
}
