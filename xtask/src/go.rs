//! Programs that no registry has but as Go modules are built by Go, once, into the user's
//! cache.

use std::process::Command;

use anyhow::{Context as _, Result};

use crate::exec;

/// Returns Go, to build with what it has itself. `what` is built, by this version or later.
pub fn command(what: &str, version: &str) -> Result<Command> {
    let go = exec::find_program("go").with_context(|| {
        format!(
            "{what} is built by Go {version} or later, which is not there; https://go.dev/dl has it"
        )
    })?;
    let mut command = Command::new(go);
    command.env("CGO_ENABLED", "0");
    Ok(command)
}
