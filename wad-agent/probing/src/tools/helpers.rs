//! Real programs that measure run beside us as helpers, each within bounds, and none is left
//! when it is not waited for any more.
//!
//! A helper leads a process group of its own, which is killed as a whole. Whoever has left
//! the group is known by its environment ([`RUN`]). Should this process be killed itself,
//! the kernel kills the helper with the thread that started it.

pub mod command;
mod group;
pub mod iperf3;
mod output;
pub mod ping;
#[cfg(test)]
mod tests;

use std::{ffi::OsString, io, process::ExitStatus};

use self::{group::Group, output::Output};

/// All of a helper's processes have this variable, with a value of this run alone.
const RUN: &str = "WAD_PROBE_RUN";
/// Variables that are for this process alone: sd_notify(3), sd_listen_fds(3).
const OWN: [&str; 5] =
    ["NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_PID", "LISTEN_FDS"];
/// Characters of what a helper says of its failure that are told.
const MOST_SAID: usize = 300;

/// A helper is a program with what it may take.
#[derive(Debug)]
pub struct Helper {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    pub variables: Vec<(&'static str, String)>,
    /// Address space of each of its processes (`RLIMIT_AS`).
    pub memory_bytes: u64,
    /// The bytes that it may write, to its output and of errors each.
    pub output_bytes: usize,
}

/// A helper has ended by itself.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub output: Vec<u8>,
    /// The last line that it wrote of errors.
    pub said: String,
}

#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    #[error("cannot start {program}: is it installed?")]
    Start { program: String, source: io::Error },
    #[error("cannot hear of {program}")]
    Hear { program: String, source: io::Error },
    #[error("{program} was ended: it wrote more than {most_bytes} bytes")]
    Flood { program: String, most_bytes: usize },
    #[error("{program} ended with {status}{}", because(said))]
    Ended { program: String, status: ExitStatus, said: String },
    #[error("{program} gives what cannot be read: {reason}")]
    Unreadable { program: String, reason: String },
    #[error("{program} says: {reason}")]
    Refused { program: String, reason: String },
    #[error("{program} cannot mark its packets (mark)")]
    Mark { program: &'static str },
}

fn because(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": {said}") }
}

impl Helper {
    fn name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    /// Runs it to its end. Nothing of it is left when this returns, or is dropped.
    pub async fn run(&self) -> Result<Ended, HelperError> {
        let start = |source| HelperError::Start { program: self.name(), source };
        let hear = |source| HelperError::Hear { program: self.name(), source };
        let mut group = Group::start(self).map_err(start)?;
        let (stdout, stderr) = group.pipes();
        let mut output = Output::new(stdout, self.output_bytes).map_err(hear)?;
        let mut errors = Output::new(stderr, self.output_bytes).map_err(hear)?;
        loop {
            tokio::select! {
                ended = group.ended() => { ended.map_err(hear)?; break }
                more = output.more(), if !output.is_at_end => more.map_err(hear)?,
                more = errors.more(), if !errors.is_at_end => more.map_err(hear)?,
            }
            if output.is_flood() || errors.is_flood() {
                let (program, most_bytes) = (self.name(), self.output_bytes);
                return Err(HelperError::Flood { program, most_bytes });
            }
        }
        // Others of its group may hold the pipes open.
        let status = group.end().map_err(hear)?;
        output.rest().map_err(hear)?;
        errors.rest().map_err(hear)?;
        let text = String::from_utf8_lossy(errors.bytes());
        let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let said = last.trim().chars().take(MOST_SAID).collect();
        Ok(Ended { status, output: output.into_bytes(), said })
    }
}

impl Ended {
    /// Returns the error of a helper that failed.
    fn failed(self, helper: &Helper) -> HelperError {
        let Self { status, said, .. } = self;
        HelperError::Ended { program: helper.name(), status, said }
    }
}
