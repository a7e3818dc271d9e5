//! `cargo xtask lab`, `demo`, `bench` and `soak`: builds what they need, and becomes
//! the program of `tests/lab` or `tests/soak` that does the work. Only that program
//! writes to standard output, so that its JSON stays JSON.

use std::{ffi::OsString, path::PathBuf, process::Command, slice};

use anyhow::{Result, ensure};

use crate::{
    exec,
    setup::{self, For},
    vm,
};

/// Runs `lab`: `wad-lab` itself. With `--long`, a report is of the virtual machines'
/// scenarios, too, which are run first.
pub fn lab(mut arguments: Vec<OsString>) -> Result<()> {
    let count = arguments.len();
    arguments.retain(|argument| argument != "--long");
    if arguments.len() < count {
        ensure!(arguments.first().is_some_and(|name| name == "report"), "only a report is --long");
        for scenario in vm::lab::for_machines()? {
            // What it missed the report says again.
            if let Err(error) = vm::lab::run(vm::FOR_MEASURING, slice::from_ref(&scenario)) {
                eprintln!("xtask: {scenario}: {error:#}");
            }
        }
    }
    // Its own programs do, unless it is asked for another client, for the scenarios that
    // have one, or for a path that Prometheus knows.
    let needs_others = arguments.iter().any(|argument| {
        let argument = argument.to_string_lossy();
        ["report", "objects", "many-flows"].contains(&&*argument)
            || argument.ends_with("iperf3")
            || argument.starts_with("measured-")
            || argument == "probe"
    });
    let purpose = if needs_others { For::Testing } else { For::Demo };
    let asks_wad = |name: &OsString| ["run", "report", "grid"].iter().any(|it| name == it);
    let needs_wad = arguments.first().is_some_and(asks_wad);
    let mut lab = build(["wad-lab"; 2], purpose)?;
    lab.command.args(arguments);
    if needs_wad {
        lab.command.arg("--wad").arg(lab.wad);
    }
    exec::become_command(&mut lab.command)
}

/// Runs `demo`: the part of `wad-lab` that shows what tuning gains.
pub fn demo(arguments: Vec<OsString>) -> Result<()> {
    let mut lab = build(["wad-lab"; 2], For::Demo)?;
    exec::become_command(lab.command.arg("demo").args(arguments).arg("--wad").arg(lab.wad))
}

/// Runs `bench`: `wad-bench`.
pub fn bench(arguments: Vec<OsString>) -> Result<()> {
    let mut bench = build(["wad-lab", "wad-bench"], For::Testing)?;
    exec::become_command(bench.command.args(arguments).arg("--wad").arg(bench.wad))
}

/// Runs `soak`: `wad-soak`.
pub fn soak(arguments: Vec<OsString>) -> Result<()> {
    let mut soak = build(["wad-soak"; 2], For::Testing)?;
    exec::become_command(soak.command.args(arguments).arg("--wad").arg(soak.wad))
}

struct Built {
    /// The program that does the work, started at the root of the repository.
    command: Command,
    wad: PathBuf,
}

fn build([package, program]: [&str; 2], purpose: For) -> Result<Built> {
    setup::run(purpose)?;
    exec::prepare(
        exec::cargo(["build", "--release", "--package", "wad", "--package", package])
            .args(["--bin", "wad", "--bin", program]),
    )?;
    let built = exec::target().join("release");
    let command = exec::command(&built.join(program));
    Ok(Built { command, wad: built.join("wad") })
}
