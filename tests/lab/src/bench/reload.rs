//! `reload` measures what a change of the configuration takes with so many paths, from
//! the command to its answer, when all of it is in force; and what a scrape does.

use std::{path::Path, time::Instant};

use anyhow::{Result, ensure};
use wad_testbed::{cgroup::Cgroup, say, wad::Home};

use super::{Outcome, Report, Target, connect::policy};

const PATHS: u32 = 100_000;
const RUNS: usize = 9;
const MOST_SECONDS: f64 = 2.0;
const MOST_SCRAPE_SECONDS: f64 = 0.1;
const MOST_SCRAPE_BYTES: f64 = 2e6;

/// Runs the benchmark.
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
    let (mut scrapes, mut sizes) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let begun = Instant::now();
        let metrics = home.metrics()?;
        scrapes.push(begun.elapsed().as_secs_f64());
        sizes.push(metrics.text().len() as f64);
    }
    agent.stop()?;
    let outcome = |name: &str, unit, most, samples| {
        Outcome::new(format!("{name}/{PATHS}"), unit, Target::AtMost(most), samples)
    };
    let results = vec![
        outcome("reload_seconds", "s", MOST_SECONDS, samples),
        outcome("scrape_seconds", "s", MOST_SCRAPE_SECONDS, scrapes),
        outcome("scrape_bytes", "bytes", MOST_SCRAPE_BYTES, sizes),
    ];
    Ok(Report { bench: "reload", results })
}
