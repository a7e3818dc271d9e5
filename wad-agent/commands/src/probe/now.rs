//! `wad probe now`: tasks run beside their periods, as soon as their locks are free.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use hyper::Method;
use tokio::time::{Instant, sleep};
use wad_agent::{client::Request, probes::NOW};
use wad_probing::{
    answers::{RUNS, Run, Runs, query_text},
    archive::Query,
    service::{Asked, AskedRuns},
};

use super::{Ask, rows};
use crate::{error::CommandError, output};

#[derive(Debug, Args)]
pub struct Now {
    /// The names of tasks, or of paths or hosts for all of their tasks
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    #[command(flatten)]
    pub ask: Ask,
}

/// Time between two looks whether a run has ended.
const LOOK: Duration = Duration::from_millis(200);

/// `wad probe now`.
pub fn run(args: &Now) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let runs = runtime.block_on(measure(args))?;
    let failed = runs.iter().filter(|run| run.measured.is_none()).count();
    let told = Runs { runs };
    if args.ask.json {
        output::print_json(&told)?;
    } else {
        output::print(rows::table(&told.runs))?;
    }
    match failed {
        0 => Ok(()),
        failed => Err(CommandError::Unmeasured { failed, all: told.runs.len() }.into()),
    }
}

async fn measure(args: &Now) -> Result<Vec<Run>> {
    let body = serde_json::to_vec(&args.names)?.into();
    let request = Request { method: Method::POST, body, ..Request::get(NOW) };
    let AskedRuns { asked } = args.ask.ask(&request).await?;
    if asked.is_empty() {
        let reason = format!("no task, path or host of a task is called {}", args.names.join(", "));
        return Err(CommandError::Refused { done: "nothing is measured", reason }.into());
    }
    let begun = Instant::now();
    let mut runs = Vec::new();
    for asked in &asked {
        let until = begun + Duration::try_from_secs_f64(asked.within_seconds).unwrap_or_default();
        loop {
            if let Some(run) = find(args, asked).await? {
                runs.push(run);
                break;
            }
            if Instant::now() > until {
                let reason = format!("{} has no result in time", asked.task);
                return Err(CommandError::NotReady { reason }.into());
            }
            sleep(LOOK).await;
        }
    }
    Ok(runs)
}

async fn find(args: &Now, asked: &Asked) -> Result<Option<Run>> {
    let since = Some(asked.period);
    let query = Query { task: Some(asked.task.clone()), since, ..Query::default() };
    let request = Request::get(format!("{RUNS}{}", query_text(&query, None)));
    let Runs { runs } = args.ask.ask(&request).await?;
    Ok(runs.into_iter().find(|run| run.period == asked.period))
}
