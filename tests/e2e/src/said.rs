//! Commands tell programs what they tell people, as JSON.

use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// Returns what a command says as JSON, whatever its exit code.
pub fn json(command: &mut Command) -> Result<Value> {
    let output = command.arg("--json").output()?;
    serde_json::from_slice(&output.stdout).with_context(|| format!("{output:?}"))
}
