//! `wad paths`: what is known of each path, from where, how old it is, and the
//! policy that came of it, as the kernel has it.

mod table;

use anyhow::Result;
use clap::Args;
use wad_agent::{
    client::{self, Request},
    paths::Paths,
};

use crate::{
    arguments::Ask,
    history::{self, Past},
    output,
};

#[derive(Debug, Args)]
pub struct KnownPaths {
    #[command(flatten)]
    pub ask: Ask,
    #[command(flatten)]
    pub past: Past,
}

/// `wad paths`.
pub fn run(args: &KnownPaths) -> Result<()> {
    let KnownPaths { ask: args, past } = args;
    if let Some(name) = &past.history {
        let history = history::ask(&args.instance.name, name, past)?;
        return match args.json {
            true => output::print_json(&history),
            false => output::print_by(|out| history::write(&history, out)),
        };
    }
    let request = Request::get("/v1/paths");
    let paths: Paths = client::ask_instance(&args.instance.name, &request)?;
    if args.json {
        return output::print_json(&paths);
    }
    output::print_by(|out| table::write(&paths, out))
}
