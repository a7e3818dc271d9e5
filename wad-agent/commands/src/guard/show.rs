//! `wad guard show`: asked of the running agent.

use anyhow::Result;
use clap::Args;
use wad_agent::{
    client::{self, Request},
    evidence::SUMMED_UP_AT,
    guards::{GuardTold, GuardsTold},
    status::Evidence,
};
use wad_toolbox::text_table::TextTable;

use super::words;
use crate::{arguments::Ask, output};

#[derive(Debug, Args)]
pub struct Arguments {
    /// Only the guard of this path
    pub path: Option<String>,
    #[command(flatten)]
    pub ask: Ask,
}

/// `wad guard show`.
pub fn run(Arguments { path, ask }: &Arguments) -> Result<()> {
    let Evidence { mut guards, .. } =
        client::ask_instance(&ask.instance.name, &Request::get(SUMMED_UP_AT))?;
    guards.retain(|guard| path.as_ref().is_none_or(|path| *path == guard.path));
    if ask.json {
        return output::print_json(&GuardsTold { guards });
    }
    let titles = ["PATH", "STATE", "TRIPS", "SUSPICION", "WORST"];
    output::print(TextTable::new(titles).with_rows(guards.iter().map(row)))
}

fn row(guard: &GuardTold) -> [String; 5] {
    let worst = guard.worst();
    [
        guard.path.escape_debug().to_string(),
        words::state(guard),
        guard.trips.to_string(),
        worst.map_or_else(|| "-".to_owned(), |it| format!("{:.0}%", it.part_of_bound * 100.0)),
        worst.map_or_else(|| "-".to_owned(), words::signal),
    ]
}
