//! Child processes are placed in a namespace and a cgroup, and killed when their guard
//! is dropped. Short commands are run to their end by `command`.

use std::{
    io,
    os::{
        fd::{AsFd, AsRawFd},
        unix::process::CommandExt,
    },
    process::{Child, Command, ExitStatus},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

pub use crate::command::{ProcessError, run, run_command};
use crate::{cgroup::Cgroup, command::shown, netns::Netns, signal};

/// Returns the command in a mount namespace of its own, which a shell script has
/// changed before.
#[must_use]
pub fn in_mounts(script: &str, command: &Command) -> Command {
    let mut wrapped = Command::new("unshare");
    wrapped.args(["--mount", "sh", "-euc"]).arg(format!("{script}\nexec \"$@\"")).arg("sh");
    wrapped.arg(command.get_program()).args(command.get_args());
    wrapped
}

/// Tells where a process runs.
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
    /// Returns the child itself, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the child's exit status, if it has ended.
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
