//! A process that outlives the agent by a moment. While nobody follows the main
//! table, a copy of a route may lead to a gateway that is none any more: if the agent
//! is killed, the guard takes rules and copies out at once, as the agent would have.
//!
//! It is this program again, and sees the agent's end by that of a pipe.

use std::{
    io::{self, Read as _},
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
};

use anyhow::Result;
use nix::sys::signal::{SigHandler, Signal, signal};

use super::remove;

/// The argument that makes this program a guard.
pub const COMMAND: &str = "guard-routes";

/// Dropped, it does what it is there for.
#[derive(Debug)]
pub struct Guard(Child);

impl Guard {
    pub fn start() -> io::Result<Self> {
        // Also of a file that an upgrade has replaced.
        let child = Command::new("/proc/self/exe")
            .arg(COMMAND)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self(child))
    }

    /// Whether it has not been killed itself.
    pub fn is_there(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It ends by itself.
        let _ = self.0.wait();
    }
}

/// The process's whole life.
pub fn run() -> Result<()> {
    for ending in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        // SAFETY: ignoring a signal runs no code of ours.
        unsafe { signal(ending, SigHandler::SigIgn) }?;
    }
    // Nothing is ever sent.
    io::stdin().lock().read_to_end(&mut Vec::new())?;
    Ok(remove()?)
}
