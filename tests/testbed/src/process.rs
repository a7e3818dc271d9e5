//! Child processes: short commands run to their end, and long ones placed in a
//! namespace and a cgroup that are killed when their guard is dropped.

use std::{
    io,
    os::{
        fd::{AsFd, AsRawFd},
        unix::process::CommandExt,
    },
    process::{Child, Command, ExitStatus, Output, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    cgroup::Cgroup,
    netns::Netns,
    signal::{self, Interrupted},
};

/// What went wrong with a child process.
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

/// As [`run`], for a command that was prepared by the caller.
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

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// The command in a mount namespace of its own, which a shell script has
/// changed before.
#[must_use]
pub fn in_mounts(script: &str, command: &Command) -> Command {
    let mut wrapped = Command::new("unshare");
    wrapped.args(["--mount", "sh", "-euc"]).arg(format!("{script}\nexec \"$@\"")).arg("sh");
    wrapped.arg(command.get_program()).args(command.get_args());
    wrapped
}

/// Where a process runs.
#[derive(Clone, Copy, Default)]
pub struct Place<'a> {
    pub netns: Option<&'a Netns>,
    pub cgroup: Option<&'a Cgroup>,
}

impl Place<'_> {
    /// Makes the command run here, in a process group of its own, and die with
    /// the thread that starts it.
    pub fn apply(self, command: &mut Command) {
        let netns = self.netns.map(|netns| netns.as_fd().as_raw_fd());
        let procs = self.cgroup.map(|cgroup| cgroup.procs().as_raw_fd());
        let enter = move || {
            // SAFETY: plain system calls on descriptors that outlive the spawn;
            // all are async-signal-safe.
            unsafe {
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                    return Err(io::Error::last_os_error());
                }
                // "0" is the process that writes.
                if procs.is_some_and(|fd| libc::write(fd, c"0".as_ptr().cast(), 1) != 1) {
                    return Err(io::Error::last_os_error());
                }
                if netns.is_some_and(|fd| libc::setns(fd, libc::CLONE_NEWNET) != 0) {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        };
        command.process_group(0);
        // SAFETY: the closure makes system calls only: no allocation, no lock.
        unsafe { command.pre_exec(enter) };
    }

    /// Starts a command here.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn spawn(self, mut command: Command) -> Result<Process, ProcessError> {
        self.apply(&mut command);
        let name = shown(&command);
        match command.spawn() {
            Ok(child) => Ok(Process { child, command: name }),
            Err(source) => Err(ProcessError::Spawn { command: name, source }),
        }
    }
}

/// A running child; killed when dropped.
pub struct Process {
    child: Child,
    command: String,
}

impl Process {
    /// The child itself, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its exit status, if it has ended.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, ProcessError> {
        self.child
            .try_wait()
            .map_err(|source| ProcessError::Wait { command: self.command.clone(), source })
    }

    /// Sends a signal; a process that has ended is left alone.
    pub fn signal(&mut self, signal: Signal) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let pid = i32::try_from(self.child.id()).expect("Linux process ids fit i32");
            // It may end between the two calls: nothing is lost then.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    /// Waits until it ends, calling `meanwhile` every 100 ms.
    ///
    /// # Errors
    /// When it takes longer than `limit`, or a signal comes.
    pub fn wait(
        &mut self,
        limit: Duration,
        mut meanwhile: impl FnMut(),
    ) -> Result<ExitStatus, ProcessError> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if begun.elapsed() > limit {
                return Err(ProcessError::Late { command: self.command.clone(), waited: limit });
            }
            signal::sleep(Duration::from_millis(100))?;
            meanwhile();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only for one that has ended, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_says_what_it_wrote() {
        let error = run("sh", &["-c", "echo broken >&2; exit 3"]).unwrap_err().to_string();
        assert!(error.contains("broken") && error.contains('3'), "{error}");
    }

    #[test]
    fn a_dropped_process_is_dead() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let process = Place::default().spawn(command).unwrap();
        let path = format!("/proc/{}", process.id());
        assert!(std::path::Path::new(&path).exists());
        drop(process);
        assert!(!std::path::Path::new(&path).exists());
    }
}
