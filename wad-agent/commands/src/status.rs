//! `wad status`: what the agent says of itself, as JSON with `--json`, as a short
//! table for people, as nothing but an exit code for probes.

mod table;

use std::path::Path;

use anyhow::Result;
use clap::Args;
use wad_agent::{
    client::{self, ClientError, Request},
    status::Status,
};
use wad_linux::{
    bpffs::{self, BPFFS},
    lock::{self, Lock},
};
use wad_tuning::{bpf, instance::Instance};

use crate::{arguments::Ask, error::CommandError, output};

#[derive(Debug, Args)]
pub struct Arguments {
    /// Only say, by the exit code, whether the agent of this container is ready: for probes
    #[arg(long, conflicts_with = "json")]
    pub ready: bool,
    #[command(flatten)]
    pub ask: Ask,
}

/// `wad status`.
pub fn run(Arguments { ready, ask: args }: &Arguments) -> Result<()> {
    let instance = &args.instance.name;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match runtime.block_on(ask(Path::new(lock::RUN_DIR), instance.name())) {
        Ok(status) => {
            if *ready {
                let socket = lock::socket(Path::new(lock::RUN_DIR), instance.name());
                let is_near = runtime.block_on(client::is_near(&socket));
                return readiness(&status, is_near.unwrap_or_default()).map_err(Into::into);
            }
            if args.json {
                return output::print_json(&status);
            }
            output::print_by(|out| table::write(&status, out))
        }
        Err(error @ ClientError::NotRunning { .. }) => Err(unasked(instance, error.into())),
        Err(error) => Err(error.into()),
    }
}

/// Says more of an agent that does not answer: it may live in another mount namespace, or
/// have died.
fn unasked(instance: &Instance, error: anyhow::Error) -> anyhow::Error {
    if !bpffs::is_mounted() {
        return error;
    }
    if let Some(holder) = Lock::holder_in(Path::new(BPFFS), instance.name()) {
        return CommandError::Elsewhere { instance: instance.name().to_owned(), holder }.into();
    }
    if bpf::exist(instance) {
        return error.context(
            "the tuning of an agent that died is still in force: `wad run` takes it over, `wad \
             cleanup` takes it out",
        );
    }
    error
}

/// Whether the agent here tunes: another one of the host may answer in its place, which it
/// is about to take or has left.
fn readiness(status: &Status, is_near: bool) -> Result<(), CommandError> {
    let reason = match &status.detached[..] {
        _ if !is_near => "an agent of another container answers".to_owned(),
        [] => return Ok(()),
        detached => detached.join("; "),
    };
    Err(CommandError::NotReady { reason })
}

/// Asks the agent of an instance.
pub async fn ask(run_dir: &Path, instance: &str) -> Result<Status, ClientError> {
    client::ask(&lock::socket(run_dir, instance), instance, &Request::get("/v1/status")).await
}
