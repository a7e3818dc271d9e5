//! Short commands are run to their end here.

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Command, ExitStatus, Output, Stdio},
    time::Duration,
};

use crate::signal::Interrupted;

/// Tells what went wrong with a child process.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("cannot run {command}")]
    Spawn { command: String, source: io::Error },
    #[error("{command} failed ({status}): {message}")]
    Failed { command: String, status: ExitStatus, message: String },
    #[error("{command} still runs after {} s", waited.as_secs())]
    Late { command: String, waited: Duration },
    #[error("cannot wait for {command}")]
    Wait { command: String, source: io::Error },
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

/// Runs a command to its end; its output, if it succeeds.
///
/// # Errors
/// When it cannot be run, or fails; then with what it wrote to stderr.
pub fn run(program: &str, arguments: &[&str]) -> Result<String, ProcessError> {
    run_command(Command::new(program).args(arguments))
}

/// Does as [`run`] for a command that was prepared by the caller.
///
/// # Errors
/// When it cannot be run, or fails.
pub fn run_command(command: &mut Command) -> Result<String, ProcessError> {
    // Its own group: a Ctrl-C at the terminal must not kill what cleans up.
    let output = command
        .process_group(0)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| ProcessError::Spawn { command: shown(command), source })?;
    success(command, output)
}

fn success(command: &Command, output: Output) -> Result<String, ProcessError> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(ProcessError::Failed {
        command: shown(command),
        status: output.status,
        message: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_says_what_it_wrote() {
        let error = run("sh", &["-c", "echo broken >&2; exit 3"]).unwrap_err().to_string();
        assert!(error.contains("broken") && error.contains('3'), "{error}");
    }
}
