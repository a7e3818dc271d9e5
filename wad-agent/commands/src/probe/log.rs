//! `wad probe log`: how periods of tasks ended.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use wad_agent::client::Request;
use wad_policy::config;
use wad_probing::{
    answers::{RUNS, Runs, query_text},
    archive::{MAX_ROWS, Query},
};

use super::{Ask, rows};
use crate::output;

#[derive(Debug, Args)]
pub struct Log {
    /// Only of this task
    #[arg(long, value_name = "NAME")]
    pub task: Option<String>,
    /// Only of tasks for this path
    #[arg(long, value_name = "NAME")]
    pub path: Option<String>,
    /// Only of tasks for this host, as they name it
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Only periods that began within this time, as 6h
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub since: Option<Duration>,
    /// Only periods that had no run
    #[arg(long)]
    pub missed: bool,
    /// Periods, the latest
    #[arg(long, value_name = "N", default_value = "100",
          value_parser = clap::value_parser!(u32).range(1..=MAX_ROWS as i64))]
    pub limit: u32,
    #[command(flatten)]
    pub ask: Ask,
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let range = Duration::from_secs(1)..=Duration::from_secs(3_650 * 86_400);
    config::duration(text, range, "1s to 3650d").map_err(|fault| fault.to_string())
}

/// `wad probe log`.
pub fn run(args: &Log) -> Result<()> {
    let ago = args.since.and_then(|since| SignedDuration::try_from(since).ok());
    let since = ago.and_then(|ago| Timestamp::now().checked_sub(ago).ok());
    let query = Query {
        task: args.task.clone(),
        path: args.path.clone(),
        host: args.host.clone(),
        since,
        until: None,
        // Those that had a run are left out here.
        limit: Some(if args.missed { MAX_ROWS } else { args.limit as usize }),
    };
    let request = Request::get(format!("{RUNS}{}", query_text(&query, None)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut told: Runs = runtime.block_on(args.ask.ask(&request))?;
    told.runs.retain(|run| !args.missed || run.ending == rows::MISSED);
    told.runs.truncate(args.limit as usize);
    if args.ask.json {
        return output::print_json(&told);
    }
    // The latest is where one looks.
    output::print(rows::table(told.runs.iter().rev()))
}
