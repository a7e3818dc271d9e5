//! `wad reload`: has the running agent read its configuration again, or say what that would
//! change.

mod show;

use std::{path::PathBuf, time::Duration};

use anyhow::Result;
use clap::Args;
use hyper::{Method, body::Bytes};
use wad_agent::{
    client::{self, Request},
    reload::{ReloadOutcome, ReloadPreview},
};
use wad_policy::config::Texts;

use crate::{arguments::Ask, error::CommandError, output, progress::Progress};

#[derive(Debug, Args)]
pub struct Reload {
    /// Say what would change, in the kernel and on the host, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The file that would be in the place of the agent's own, with --dry-run
    #[arg(long, value_name = "FILE", requires = "dry_run")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub ask: Ask,
}

/// Room for a configuration of 100,000 paths on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

/// `wad reload`.
pub fn run(args: &Reload) -> Result<()> {
    if args.dry_run { preview(args) } else { reload(&args.ask) }
}

fn reload(args: &Ask) -> Result<()> {
    let request =
        Request { method: Method::POST, patience: PATIENCE, ..Request::get("/v1/reload") };
    let progress = Progress::of("the agent reads its configuration");
    let outcome: ReloadOutcome = client::ask_instance(&args.instance.name, &request)?;
    drop(progress);
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

/// The agent judges the texts: it may have no right to read the files, and knows what is in
/// force.
fn preview(args: &Reload) -> Result<()> {
    let others = args.config.as_deref().map(Texts::read).transpose()?;
    let request = Request {
        method: Method::POST,
        patience: PATIENCE,
        body: Bytes::from(serde_json::to_vec(&others)?),
        ..Request::get("/v1/reload/preview")
    };
    let progress = Progress::of("the agent looks at the configuration");
    let told: ReloadPreview = client::ask_instance(&args.ask.instance.name, &request)?;
    drop(progress);
    if args.ask.json {
        output::print_json(&told)?;
    }
    match told {
        ReloadPreview::WouldApply(changes) if !args.ask.json => {
            output::print(show::preview(&changes))
        }
        ReloadPreview::WouldApply(_) => Ok(()),
        ReloadPreview::WouldRefuse { reason } => {
            Err(CommandError::Refused { done: "it would be refused", reason }.into())
        }
    }
}
