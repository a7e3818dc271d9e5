//! The programs of `tests/`, built as static ones: they run on this machine and in
//! virtual machines.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::{dist, exec};

/// Builds the end-to-end tests.
pub fn end_to_end(target: &str) -> Result<PathBuf> {
    build("wad-e2e", "wad-e2e", target)
}

/// Builds a program of the lab.
pub fn of_lab(name: &str, target: &str) -> Result<PathBuf> {
    build("wad-lab", name, target)
}

fn build(package: &str, name: &str, target: &str) -> Result<PathBuf> {
    let mut cargo = dist::cargo("build", target, "guest");
    cargo.args(["--package", package, "--bin", name]);
    built(&mut cargo)
}

/// Returns the file of the program that a cargo builds.
fn built(cargo: &mut Command) -> Result<PathBuf> {
    let messages = messages(cargo)?;
    let path = messages.iter().find_map(|message| message["executable"].as_str());
    Ok(exec::root().join(path.context("cargo built no program")?))
}

/// Runs a cargo that builds, and returns its messages: one for each thing that it builds.
///
/// # Errors
/// If something does not build: the compiler has said why on standard error.
pub fn messages(cargo: &mut Command) -> Result<Vec<Value>> {
    cargo.args(["--message-format", "json-render-diagnostics"]);
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "the programs of the tests do not build");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).context("cargo's messages")).collect()
}
