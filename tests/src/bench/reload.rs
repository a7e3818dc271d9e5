//! `reload`: what a change of the configuration takes with so many paths, from the
//! command to its answer, when all of it is in force.

use std::{path::Path, time::Instant};

use anyhow::{Result, ensure};

use super::{Outcome, Report, Target, connect::policy};
use crate::{cgroup::Cgroup, say, wad::Home};

const PATHS: u32 = 100_000;
const RUNS: usize = 9;
const MOST_SECONDS: f64 = 2.0;

/// Runs it.
///
/// # Errors
/// Without root, or where a step fails.
pub fn run(_me: &Path, wad: &Path) -> Result<Report> {
    let cgroup = Cgroup::create("bench")?;
    let policies = [policy(PATHS), policy(PATHS).replace("sndbuf = \"1MiB\"", "sndbuf = \"2MiB\"")];
    let home = Home::create(wad, &policies[0])?;
    let agent = home.start(&cgroup)?;
    let mut samples = Vec::new();
    for n in 1..=RUNS {
        say(&format!("reload: {n} of {RUNS}"));
        home.write_policy(&policies[n % 2])?;
        let mut command = home.command("reload");
        command.arg("--json");
        let begun = Instant::now();
        let output = command.output()?;
        samples.push(begun.elapsed().as_secs_f64());
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let changed = answer["changed"].as_array().map_or(0, Vec::len);
        ensure!(changed == PATHS as usize, "{changed} paths changed");
    }
    agent.stop()?;
    let name = format!("reload_seconds/{PATHS}");
    let outcome = Outcome::new(name, "s", Target::AtMost(MOST_SECONDS), samples);
    Ok(Report { bench: "reload", results: vec![outcome] })
}
