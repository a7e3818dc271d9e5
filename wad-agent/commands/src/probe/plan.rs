//! `wad probe plan`: what tasks will do, before anything runs.

use std::fmt::{self, Display};

use anyhow::Result;
use clap::Args;
use wad_policy::config::{Config, Host};
use wad_probing::{
    plan::{Plan, PlannedLock, PlannedTask},
    service::seed,
};
use wad_toolbox::{
    amounts::{Bytes, Time},
    text_table::TextTable,
};

use crate::{
    arguments::{ConfigFile, InstanceName},
    output,
};

#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    pub config: ConfigFile,
    /// The first so many runs are shown
    #[arg(long, value_name = "N", default_value = "10",
          value_parser = clap::value_parser!(u16).range(0..=10_000))]
    pub runs: u16,
    #[command(flatten)]
    pub instance: InstanceName,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `wad probe plan`.
pub fn run(args: &Arguments) -> Result<()> {
    let config = Config::load(&args.config.file, &Host::read()?)?;
    let probe = config.probe.unwrap_or_default();
    let plan = Plan::new(&probe, seed(args.instance.name.name()), args.runs.into());
    if args.json { output::print_json(&plan) } else { output::print(Page(&plan)) }
}

struct Page<'p>(&'p Plan);

impl Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { tasks, bytes_per_day, max_bytes_per_day, next, .. } = self.0;
        let titles =
            ["TASK", "TOOL", "HOST", "LOCKS", "EVERY", "TIMEOUT", "BYTES/RUN", "BYTES/DAY"];
        let rows = tasks.iter().map(|task| {
            [
                task.task.clone(),
                task.tool.clone(),
                task.host.clone(),
                locks(&task.locks, task.peer.as_deref()),
                Time(task.every_seconds).to_string(),
                Time(task.timeout_seconds).to_string(),
                Bytes(task.max_bytes).to_string(),
                Bytes(task.bytes_per_day).to_string(),
            ]
        });
        let table = TextTable::new(titles).with_figures_behind(4).with_rows(rows);
        if f.alternate() {
            write!(f, "{table:#}")?
        } else {
            write!(f, "{table}")?
        }
        write!(f, "\nAll tasks together: at most {} a day", Bytes(*bytes_per_day))?;
        match max_bytes_per_day {
            Some(most) => writeln!(f, ", of {} that max_bytes_per_day allows", Bytes(*most))?,
            None => writeln!(f)?,
        }
        self.misses(f)?;
        if !next.is_empty() {
            let rows = next.iter().map(|run| [run.start.to_string(), run.task.clone()]);
            let table = TextTable::new(["FIRST RUNS", "TASK"]).with_rows(rows);
            writeln!(f)?;
            if f.alternate() { write!(f, "{table:#}")? } else { write!(f, "{table}")? }
        }
        Ok(())
    }
}

impl Page<'_> {
    fn misses(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { tasks, simulated_seconds, .. } = self.0;
        let within = Time(*simulated_seconds);
        let missed: Vec<_> = tasks.iter().filter(|task| task.missed > 0).collect();
        if missed.is_empty() {
            let says = "no period is missed, even if each run takes all of its time-out";
            return writeln!(f, "Within {within}, {says}");
        }
        writeln!(f, "Within {within}, if each run takes all of its time-out:")?;
        for task in missed {
            let PlannedTask { task, periods, missed, lock, holder, .. } = task;
            write!(f, "  {task} misses {missed} of {periods} periods")?;
            match lock.as_ref().zip(holder.as_ref()) {
                Some((lock, holder)) => writeln!(f, ", mostly as {holder} has {lock}")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

/// An exclusive lock has an exclamation mark, and a peer that keeps them as well its name.
fn locks(locks: &[PlannedLock], peer: Option<&str>) -> String {
    let lock = |lock: &PlannedLock| {
        let mark = if lock.is_exclusive { "!" } else { "" };
        format!("{}{mark}", lock.lock)
    };
    let at = peer.map(|peer| format!("(and at {peer})"));
    locks.iter().map(lock).chain(at).collect::<Vec<_>>().join(" ")
}
