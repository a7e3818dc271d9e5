//! Time and count of the runs of BPF programs in the metrics are held against what bpftool
//! shows of the same programs.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    process::run,
    stand::Stand,
    sysctl::{self, Changed},
    tcp::{Connection, at},
    veth::{self, Wire},
    wad::{Home, program},
};

const STATISTICS: &str = "kernel.bpf_stats_enabled";
const POLICY: &str = "[[path]]\nname = 'wire'\nremote = '10.81.0.2'\nsndbuf = '1MiB'\n\
                      congestion = 'wad_aimd'\noverride_setsockopt = true\n";

/// Returns time in seconds, and count, as bpftool shows them of the programs with these numbers.
fn shown(programs: &[u64]) -> Result<(f64, f64)> {
    let all: Vec<Value> = serde_json::from_str(&run("bpftool", &["-j", "prog", "show"])?)?;
    let ours = all.iter().filter(|shown| programs.iter().any(|id| shown["id"] == *id));
    let sum = |key: &str| ours.clone().filter_map(|shown| shown[key].as_f64()).sum::<f64>();
    Ok((sum("run_time_ns") / 1e9, sum("run_cnt")))
}

/// Returns the number of the program that a pinned link holds.
fn linked(pins: &Path, link: &str) -> Result<u64> {
    let pin = pins.join(link).to_string_lossy().into_owned();
    let shown: Value =
        serde_json::from_str(&run("bpftool", &["-j", "link", "show", "pinned", &pin])?)?;
    let link = shown.as_array().map_or(&shown, |links| &links[0]);
    link["prog_id"].as_u64().with_context(|| format!("{shown}"))
}

/// Returns the numbers of the programs of all congestion controls.
fn of_congestion_controls() -> Result<Vec<u64>> {
    let all: Vec<Value> = serde_json::from_str(&run("bpftool", &["-j", "prog", "show"])?)?;
    let ours = all.iter().filter(|shown| shown["type"] == "struct_ops");
    Ok(ours.filter_map(|shown| shown["id"].as_u64()).collect())
}

#[e2e(long, alone)]
fn runs_are_those_that_bpftool_shows() -> Result<()> {
    let stand = Stand::set_up("runs")?;
    let wire = Wire::start()?;
    let before = sysctl::get(STATISTICS)?;
    let others = of_congestion_controls()?;
    let home = Home::create(&program()?, POLICY)?;
    let agent = home.start(stand.cgroup())?;
    ensure!(sysctl::get(STATISTICS)? == before, "the agent has changed {STATISTICS}");
    let algorithm = home.algorithm()?;
    let runs = |program: &str| -> Result<f64> {
        let label = format!("program=\"{program}\"");
        Ok(home.metrics()?.value("wad_bpf_program_runs_total", &[&label])?)
    };
    let open = |port| -> Result<_> {
        Ok(Connection::open(wire.a(), wire.b(), at(veth::ADDRESSES_V4[1], port))?)
    };
    {
        let _off = Changed::to(STATISTICS, "0")?;
        let before = runs(&algorithm)?;
        open(7000)?.exchange(100_000)?;
        ensure!(runs(&algorithm)? == before, "what the kernel does not count is counted");
    }
    let _on = Changed::to(STATISTICS, "1")?;
    let before = runs(&algorithm)?;
    open(7001)?.exchange(1_000_000)?;
    ensure!(runs(&algorithm)? > before + 10.0, "{}", home.metrics()?.text());

    let pins: PathBuf = fs::read_dir(home.pins())?.next().context("nothing is pinned")??.path();
    let mut law = of_congestion_controls()?;
    law.retain(|program| !others.contains(program));
    ensure!(law.len() >= 5, "{law:?}");
    let programs = [
        ("tuner", vec![linked(&pins, "tuner_link")?]),
        ("options", vec![linked(&pins, "options_link")?]),
        (algorithm.as_str(), law),
    ];
    for (program, numbers) in programs {
        let label = format!("program=\"{program}\"");
        let told = || -> Result<(f64, f64)> {
            let metrics = home.metrics()?;
            let seconds = metrics.value("wad_bpf_program_run_seconds_total", &[&label])?;
            Ok((seconds, metrics.value("wad_bpf_program_runs_total", &[&label])?))
        };
        // A scrape is a connection, too.
        let (before, (seconds, count), after) = (told()?, shown(&numbers)?, told()?);
        ensure!(before.1 > 0.0 && after.1 < before.1 + 100.0, "{program}: {before:?} {after:?}");
        ensure!((before.1..=after.1).contains(&count), "{program}: {before:?} {count} {after:?}");
        let bounds = before.0 - 1e-6..=after.0 + 1e-6;
        ensure!(before.0 > 0.0 && bounds.contains(&seconds), "{program}: {seconds} in {bounds:?}");
    }
    agent.stop()?;
    Ok(())
}
