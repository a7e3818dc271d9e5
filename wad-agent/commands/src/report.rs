//! `wad report`: what experiments on paths have found out, and what they cannot say.

mod html;
mod page;
mod picture;
#[cfg(test)]
pub mod testing;
pub mod words;

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use jiff::Timestamp;
use wad_agent::{
    client::{self, Request},
    evidence::{AT, ExperimentsTold},
};

use self::{html::Html, page::Page};
use crate::{arguments::Ask, history::parse_since, output};

#[derive(Debug, Args)]
pub struct Arguments {
    /// Only the experiment on this path; may be given several times
    #[arg(long = "path", value_name = "NAME")]
    pub paths: Vec<String>,
    /// Only those that went on within this time from now back [default: all that are kept]
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    pub since: Option<Duration>,
    /// Print one page of HTML, which asks for nothing else
    #[arg(long, conflicts_with = "json")]
    pub html: bool,
    #[command(flatten)]
    pub ask: Ask,
}

/// `wad report`.
pub fn run(args: &Arguments) -> Result<()> {
    let Arguments { paths, since, html, ask } = args;
    let mut told: ExperimentsTold = client::ask_instance(&ask.instance.name, &Request::get(AT))?;
    let is_known = |path: &&String| told.experiments.iter().any(|it| it.path == **path);
    if let Some(unknown) = paths.iter().find(|path| !is_known(path)) {
        bail!("there is no experiment on a path {unknown:?}: `wad status` names those that are");
    }
    let since = since.map(|since| Timestamp::now().checked_sub(since).unwrap_or(Timestamp::MIN));
    told.experiments.retain(|it| {
        let is_named = paths.is_empty() || paths.contains(&it.path);
        is_named && since.is_none_or(|since| it.ended_by.is_none() || it.reached >= since)
    });
    match (ask.json, *html) {
        (true, _) => output::print_json(&told),
        (_, true) => output::print(Html(&told.experiments)),
        _ => output::print(Page(&told.experiments)),
    }
}
