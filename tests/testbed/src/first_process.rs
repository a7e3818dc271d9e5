//! Process 1 of namespaces of its own, which end with it: the child of an `unshare` with
//! `--fork` and `--kill-child`.

use std::{ffi::OsStr, fs, process::Command, time::Duration};

use crate::{
    process::Process,
    signal::Interrupted,
    stand::{Late, until},
};

/// Returns its number outside, once it has begun.
///
/// # Errors
/// When it does not begin within the limit.
pub fn number<E: From<Late> + From<Interrupted>>(
    outer: &Process,
    limit: Duration,
) -> Result<u32, E> {
    let id = outer.id();
    let children = format!("/proc/{id}/task/{id}/children");
    let first = || {
        let children = fs::read_to_string(&children).unwrap_or_default();
        Ok::<_, E>(children.trim().parse().ok())
    };
    let number = until("process 1 has begun", limit, first, Option::is_some)?;
    Ok(number.expect("waited for"))
}

/// Returns a command that runs in the namespaces of that process.
pub fn command(number: u32, program: impl AsRef<OsStr>) -> Command {
    within(number, &["--all"], program)
}

/// Returns a command that runs in its namespaces, but for that of the network: in the
/// caller's.
pub fn command_on_own_network(number: u32, program: impl AsRef<OsStr>) -> Command {
    within(number, &["--mount", "--uts", "--ipc", "--pid", "--cgroup"], program)
}

fn within(number: u32, namespaces: &[&str], program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("nsenter");
    command.arg("--target").arg(number.to_string()).args(namespaces).arg("--").arg(program);
    command
}
