//! What runs in a virtual machine.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

use super::{guest::Run, kernel::Wanted};
use crate::{dist, exec};

/// What is run where a congestion control by BPF may be registered, by the names
/// of files of tests/tests.
const WITH_STRUCT_OPS: [&str; 19] = [
    "derived",
    "flows",
    "handshake",
    "host_changes",
    "host_routes",
    "laws",
    "limits",
    "matching",
    "metrics",
    "neighbours",
    "no_struct_ops",
    "options",
    "packets",
    "refusals",
    "removal",
    "reuse",
    "running",
    "surroundings",
    "takeover",
];

/// What is run where none may be.
const WITHOUT_STRUCT_OPS: [&str; 2] = ["no_struct_ops", "refusals"];

/// Tests that are left out of those: a machine has no promtool and no prometheus,
/// which are larger than all else in it, and what becomes of a journal is the same
/// with any kernel, and takes a hundred agents.
const LEFT_OUT: [&str; 4] = [
    "promtool_accepts_them",
    "promtool_accepts_the_rules",
    "prometheus_scrapes_them",
    "journals_after_a_power_cut",
];

/// Builds all tests that need root as static programs: their names and files.
pub fn build_tests(target: &str) -> Result<Vec<(String, PathBuf)>> {
    let mut cargo = dist::cargo("test", target, "guest");
    cargo.args(["--package", "wad-tests", "--features", "root", "--test", "*", "--no-run"]);
    built(&mut cargo)
}

/// Builds one program of the `tests` crate.
pub fn build_one(name: &str, target: &str) -> Result<PathBuf> {
    let mut cargo = dist::cargo("build", target, "guest");
    cargo.args(["--package", "wad-tests", "--bin", name]);
    let program = built(&mut cargo)?.pop().context("cargo built nothing")?;
    Ok(program.1)
}

/// Names and files of the programs that a cargo builds.
fn built(cargo: &mut Command) -> Result<Vec<(String, PathBuf)>> {
    cargo.args(["--message-format", "json-render-diagnostics"]);
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "the programs for the machines do not build");
    let mut programs = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: serde_json::Value = serde_json::from_str(line).context("cargo's messages")?;
        let name = message["target"]["name"].as_str();
        if let (Some(name), Some(path)) = (name, message["executable"].as_str()) {
            programs.push((name.to_owned(), exec::root().join(path)));
        }
    }
    Ok(programs)
}

/// What to run under a kernel, or of that one file only.
pub fn tests_of(
    wanted: &Wanted,
    programs: &[(String, PathBuf)],
    only: Option<&str>,
) -> Result<Vec<Run>> {
    let names: &[&str] = if wanted.has_struct_ops { &WITH_STRUCT_OPS } else { &WITHOUT_STRUCT_OPS };
    let names = names.iter().filter(|name| only.is_none_or(|only| only == **name));
    let runs = names.map(|name| run(name, programs)).collect::<Result<Vec<_>>>()?;
    ensure!(!runs.is_empty(), "no such tests are run under {}", wanted.name);
    Ok(runs)
}

fn run(name: &str, programs: &[(String, PathBuf)]) -> Result<Run> {
    let (_, program) = programs
        .iter()
        .find(|(built, _)| built == name)
        .with_context(|| format!("no tests are called {name}"))?;
    let mut arguments = vec!["--test-threads=1".to_owned(), "--exact".to_owned()];
    arguments.extend(LEFT_OUT.into_iter().flat_map(|test| ["--skip".to_owned(), test.to_owned()]));
    Ok(Run { name: name.to_owned(), program: program.clone(), arguments, reads: None })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Files with nothing for a machine: for clients that are not in it, over paths
    /// that are too fast or with flows that are too many for an emulated processor,
    /// about files of the repository, or about what the agent does with its own.
    const LEFT_OUT: [&str; 25] = [
        "autotune",
        "clients",
        "congestion_events",
        "control_law",
        "delay_law",
        "diagnose",
        "divide",
        "emulated_path",
        "events",
        "explain",
        "keep",
        "lab",
        "leaky_law",
        "measured",
        "pacing",
        "perfsonar",
        "passive",
        "policy_swap",
        "reload",
        "reload_ways",
        "scenarios",
        "switch",
        "trace",
        "top",
        "windows",
    ];

    #[test]
    fn no_file_of_tests_is_forgotten() {
        let mut files: Vec<String> = fs::read_dir(exec::root().join("tests/tests"))
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        files.sort();
        let mut known = [&WITH_STRUCT_OPS[..], &LEFT_OUT].concat();
        known.sort_unstable();
        assert_eq!(files, known);
    }
}
