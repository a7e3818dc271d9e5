//! `wad status`: what the agent says of itself, as JSON with `--json`, as a short
//! table for people.

mod table;

use std::path::Path;

use anyhow::Result;
use wad_agent::{
    client::{self, ClientError, Request},
    status::Status,
};
use wad_linux::{bpffs, lock};
use wad_tuning::{bpf, instance::Instance};

use crate::{arguments::Ask, output};

/// `wad status`.
pub fn run(args: &Ask) -> Result<()> {
    let instance = &args.instance.name;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match runtime.block_on(ask(Path::new(lock::RUN_DIR), instance.name())) {
        Ok(status) => {
            if args.json {
                return output::print_json(&status);
            }
            output::print_by(|out| table::write(&status, out))
        }
        Err(error @ ClientError::NotRunning { .. }) if is_left_behind(instance) => {
            Err(anyhow::Error::from(error).context(
                "the tuning of an agent that died is still in force: `wad run` takes it over, \
                 `wad cleanup` takes it out",
            ))
        }
        Err(error) => Err(error.into()),
    }
}

fn is_left_behind(instance: &Instance) -> bool {
    bpffs::is_mounted() && bpf::exist(instance)
}

/// Asks the agent of an instance.
pub async fn ask(run_dir: &Path, instance: &str) -> Result<Status, ClientError> {
    client::ask(&lock::socket(run_dir, instance), instance, &Request::get("/v1/status")).await
}
