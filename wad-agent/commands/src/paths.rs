//! `wad paths`: what is known of each path, from where, how old it is, and the
//! policy that came of it, as the kernel has it.

mod table;

use anyhow::Result;
use wad_agent::{
    client::{self, Request},
    paths::Paths,
};

use crate::{arguments::Ask, output};

/// `wad paths`.
pub fn run(args: &Ask) -> Result<()> {
    let request = Request::get("/v1/paths");
    let paths: Paths = client::ask_instance(&args.instance.name, &request)?;
    if args.json {
        return output::print_json(&paths);
    }
    output::print_by(|out| table::write(&paths, out))
}
