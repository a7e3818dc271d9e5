//! A helper's processes, from their start to their end.

use std::{
    fs, io,
    os::{
        fd::{FromRawFd as _, OwnedFd},
        unix::process::{CommandExt as _, ExitStatusExt as _},
    },
    process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::{
        resource::{Resource, setrlimit},
        signal::{Signal, kill, killpg},
    },
    unistd::Pid,
};
use tokio::io::unix::AsyncFd;

use super::{Helper, OWN, RUN};

/// Rounds in which those are looked for that have left the group: each may have made
/// another one meanwhile.
const MOST_ROUNDS: usize = 20;
/// A killed process is gone within this time, unless the kernel holds it.
const GONE_WITHIN: Duration = Duration::from_millis(100);
const STEP: Duration = Duration::from_millis(1);

static RUNS: AtomicU64 = AtomicU64::new(0);

pub struct Group {
    /// None when it is reaped.
    leader: Option<Child>,
    /// Its number stays its own until it is reaped, and so does the group's.
    id: Pid,
    /// Readable when the leader has ended.
    end: AsyncFd<OwnedFd>,
    /// Its processes are known by this: a variable with its value.
    sign: String,
}

impl Group {
    pub fn start(helper: &Helper) -> io::Result<Self> {
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let run = format!("{}-{number}", std::process::id());
        let mut command = Command::new(&helper.program);
        command.args(&helper.arguments);
        command.envs(helper.variables.iter().map(|(name, value)| (name, value)));
        for name in OWN {
            command.env_remove(name);
        }
        command.env("LC_ALL", "C").env(RUN, &run);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        let memory_bytes = helper.memory_bytes;
        let parent = std::process::id();
        // SAFETY: system calls alone, which take no lock and no memory.
        unsafe { command.pre_exec(move || bound(memory_bytes, parent)) };
        let leader = command.spawn()?;
        let id = Pid::from_raw(leader.id().cast_signed());
        let sign = format!("{RUN}={run}");
        let opened = open(id).and_then(|end| {
            // SAFETY: it is the descriptor's owner, and gives it away to nobody.
            Ok(unsafe { AsyncFd::register(end) }?)
        });
        match opened {
            Ok(end) => Ok(Self { leader: Some(leader), id, end, sign }),
            Err(error) => {
                end(leader, id, &sign);
                Err(error)
            }
        }
    }

    /// Takes the ends of its output and its errors.
    pub fn pipes(&mut self) -> (ChildStdout, ChildStderr) {
        let leader = self.leader.as_mut().expect("it runs");
        (leader.stdout.take().expect("a pipe"), leader.stderr.take().expect("a pipe"))
    }

    /// Waits until the leader has ended.
    pub async fn ended(&self) -> io::Result<()> {
        self.end.readable().await.map(drop)
    }

    /// Ends what is left of it, and returns how its leader ended.
    pub fn end(&mut self) -> io::Result<ExitStatus> {
        match self.leader.take() {
            Some(leader) => end(leader, self.id, &self.sign),
            None => None,
        }
        .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ended = self.end();
    }
}

/// Sets the bounds of the process that this is to become.
fn bound(memory_bytes: u64, parent: u32) -> io::Result<()> {
    setrlimit(Resource::RLIMIT_AS, memory_bytes, memory_bytes)?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    // The parent may have ended before that.
    if nix::unistd::getppid().as_raw().cast_unsigned() != parent {
        return Err(Errno::ESRCH.into());
    }
    Ok(())
}

/// Opens a descriptor of a process (Linux 5.3).
fn open(id: Pid) -> io::Result<OwnedFd> {
    // SAFETY: numbers alone are handed over.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, id.as_raw(), 0) };
    match i32::try_from(fd) {
        // SAFETY: it was opened just now, for nobody else.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Kills a group and those that have left it, and reaps its leader: not before the others
/// are gone, because the numbers of a process and its group stay theirs for as long.
fn end(mut leader: Child, id: Pid, sign: &str) -> Option<ExitStatus> {
    for _ in 0..MOST_ROUNDS {
        // Nobody is left in it, or they are gone already.
        let _ = killpg(id, Signal::SIGKILL);
        let others = signed(sign, id);
        if others.is_empty() {
            break;
        }
        for other in others {
            let _ = kill(other, Signal::SIGKILL);
        }
    }
    let mut waited = Duration::ZERO;
    while waited < GONE_WITHIN {
        match leader.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) => thread::sleep(STEP),
            Err(_) => return None,
        }
        waited += STEP;
    }
    // The kernel holds it, as on a dead file server. It is reaped when it is let go.
    thread::spawn(move || leader.wait());
    Some(ExitStatus::from_raw(Signal::SIGKILL as i32))
}

/// Returns the processes but its leader that are of a run. Those that have ended have no
/// environment any more.
fn signed(sign: &str, leader: Pid) -> Vec<Pid> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_signed = |id: &i32| {
        // Of other users' processes it cannot be read, and they are none of ours.
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == sign.as_bytes())
    };
    let of_run = ids.filter(|id| *id != leader.as_raw()).filter(is_signed);
    of_run.map(Pid::from_raw).collect()
}
