//! Tests that need a BPF program which the kernel here refuses are left to virtual machines, whose
//! kernels take all of them, and are named with the reason.

use std::{collections::HashMap, process::Command};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_testbed::{refusing_kernel::RefusingKernel, wad};

use super::Test;

/// A test that this kernel cannot run, and why.
pub struct LeftToMachines {
    pub test: &'static Test,
    pub reason: String,
}

/// Takes the tests out that this kernel cannot run.
pub fn leave_to_machines(tests: &mut Vec<&'static Test>) -> Result<Vec<LeftToMachines>> {
    if tests.iter().all(|test| test.needs.is_none()) {
        return Ok(Vec::new());
    }
    let refused = refused()?;
    let why = |test: &Test| test.needs.and_then(|program| refused.get(program));
    let left = tests.iter().filter_map(|test| Some((*test, why(test)?)));
    let left: Vec<_> =
        left.map(|(test, reason)| LeftToMachines { test, reason: reason.clone() }).collect();
    tests.retain(|test| why(test).is_none());
    Ok(left)
}

/// Returns the programs that the kernel refuses, with their kinds, as `wad check --host` finds out.
fn refused() -> Result<HashMap<String, String>> {
    let mut command = Command::new(wad::program()?);
    command.args(["check", "--host", "--json"]);
    if let Some(kernel) = RefusingKernel::of_environment()? {
        kernel.apply(&mut command)?;
    }
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "wad check --host: {said}");
    let host: Value = serde_json::from_slice(&output.stdout)?;
    let programs = host["programs"].as_array().context("wad check --host has no programs")?;
    let of = |program: &Value| {
        let name = program["program"].as_str()?.to_owned();
        let reason = format!("this kernel refuses {name} ({})", program["kind"].as_str()?);
        program["refusal"].is_string().then_some((name, reason))
    };
    Ok(programs.iter().filter_map(of).collect())
}
