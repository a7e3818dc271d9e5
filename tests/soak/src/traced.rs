//! A process is run under ptrace(2), with all of its threads, and killed right before or right
//! after one of the calls by which it changes the host.
//!
//! A filter of seccomp(2) has threads stop at such calls alone. A kill before a call means that the
//! kernel never begins it: where a fatal signal is pending when the tracer lets a thread go on, the
//! call is left out (`__seccomp_filter()`).

mod call;

use std::{
    collections::{BTreeSet, HashMap},
    io,
    mem::{size_of, zeroed},
    os::unix::process::CommandExt as _,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI32, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use nix::{
    errno::Errno,
    sys::{
        ptrace::{self, Options},
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
use wad_testbed::{bpf, mutex::locked};

use call::Call;

/// Objects of BPF that traced processes have made, by kind and number.
pub type Objects = Arc<Mutex<BTreeSet<(bpf::Kind, u32)>>>;

/// A moment at which a process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// The number of the call, from 1.
    pub nth: usize,
    pub when: When,
}

/// Tells on which side of a call a process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// The kernel never begins it
    Before,
    /// It is over
    After,
}

/// Says how a process ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// It returned 0.
    pub is_success: bool,
    /// It was killed at this call.
    pub killed_at: Option<String>,
}

/// The tracer and who looks on share this.
#[derive(Default)]
struct Shared {
    process: AtomicI32,
    /// Calls count at this moment.
    counts: AtomicBool,
    calls: Mutex<Vec<String>>,
    ended: Mutex<Option<Ended>>,
}

/// A traced process; killed when dropped.
pub struct Traced {
    shared: Arc<Shared>,
    tracer: Option<JoinHandle<()>>,
}

impl Traced {
    /// Starts a command, with the kill that it is to have. Calls count from the first one, or
    /// from [`Traced::count`] on.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn start(
        command: Command,
        counts: bool,
        kill: Option<Kill>,
        made: &Objects,
    ) -> Result<Self> {
        let shared = Arc::new(Shared { counts: AtomicBool::new(counts), ..Shared::default() });
        let (begun, is_begun) = mpsc::channel();
        let tracer = Tracer {
            shared: Arc::clone(&shared),
            made: Arc::clone(made),
            kill,
            entered: HashMap::new(),
            process: Pid::from_raw(0),
            counted: 0,
            killed_at: None,
        };
        // All of ptrace(2) is for the thread that began with it.
        let tracer = thread::spawn(move || tracer.run(command, &begun));
        is_begun.recv().context("the tracer ended")?.context("cannot start a traced process")?;
        Ok(Self { shared, tracer: Some(tracer) })
    }

    /// Has its calls counted from now on, or no more.
    pub fn count(&self, counts: bool) {
        self.shared.counts.store(counts, Ordering::SeqCst);
    }

    pub fn id(&self) -> u32 {
        self.shared.process.load(Ordering::SeqCst).cast_unsigned()
    }

    /// Returns the calls that were counted so far.
    pub fn calls(&self) -> Vec<String> {
        locked(&self.shared.calls).clone()
    }

    /// Returns how it ended, if it has.
    pub fn ended(&self) -> Option<Ended> {
        locked(&self.shared.ended).clone()
    }

    pub fn signal(&self, signal: Signal) {
        if self.ended().is_none() {
            // It may end just now.
            let _ = kill(Pid::from_raw(self.shared.process.load(Ordering::SeqCst)), signal);
        }
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        if let Some(tracer) = self.tracer.take() {
            let _ = tracer.join();
        }
    }
}

struct Tracer {
    shared: Arc<Shared>,
    made: Objects,
    kill: Option<Kill>,
    /// The calls that threads are in, with the numbers of those that count.
    entered: HashMap<Pid, (Call, Option<usize>)>,
    process: Pid,
    counted: usize,
    killed_at: Option<String>,
}

impl Tracer {
    fn run(mut self, mut command: Command, begun: &mpsc::Sender<io::Result<()>>) {
        let filter = match filter() {
            Ok(filter) => filter,
            Err(error) => {
                let _ = begun.send(Err(io::Error::other(error)));
                return;
            }
        };
        let be_traced = move || {
            ptrace::traceme()?;
            seccompiler::apply_filter(&filter).map_err(|_| io::Error::last_os_error())
        };
        // SAFETY: makes system calls only.
        unsafe { command.pre_exec(be_traced) };
        let child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                let _ = begun.send(Err(error));
                return;
            }
        };
        self.process = Pid::from_raw(child.id().cast_signed());
        self.shared.process.store(self.process.as_raw(), Ordering::SeqCst);
        let _ = begun.send(Ok(()));
        let is_success = self.follow();
        *locked(&self.shared.ended) = Some(Ended { is_success, killed_at: self.killed_at });
    }

    /// Follows all threads to the end of the process; says whether it returned 0.
    fn follow(&mut self) -> bool {
        // Those of this thread alone: others have children of their own.
        let all = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        loop {
            match waitpid(None, Some(all)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == self.process => return code == 0,
                Ok(WaitStatus::Signaled(pid, ..)) if pid == self.process => return false,
                Ok(WaitStatus::PtraceEvent(thread, _, libc::PTRACE_EVENT_SECCOMP)) => {
                    self.enters(thread);
                    // The next stop is at its end.
                    let _ = ptrace::syscall(thread, None);
                }
                Ok(WaitStatus::PtraceSyscall(thread)) => {
                    self.leaves(thread);
                    self.go_on(thread, None);
                }
                // The first one of all comes of execve(2).
                Ok(WaitStatus::Stopped(thread, Signal::SIGTRAP)) => {
                    let options = Options::PTRACE_O_TRACESYSGOOD
                        | Options::PTRACE_O_TRACECLONE
                        | Options::PTRACE_O_TRACEFORK
                        | Options::PTRACE_O_TRACEVFORK
                        | Options::PTRACE_O_TRACEEXEC
                        | Options::PTRACE_O_TRACESECCOMP
                        | Options::PTRACE_O_EXITKILL;
                    let _ = ptrace::setoptions(thread, options);
                    self.go_on(thread, None);
                }
                // A new thread begins so.
                Ok(WaitStatus::Stopped(thread, Signal::SIGSTOP)) => self.go_on(thread, None),
                Ok(WaitStatus::Stopped(thread, signal)) => self.go_on(thread, Some(signal)),
                Ok(WaitStatus::PtraceEvent(thread, ..)) => self.go_on(thread, None),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Fails only for a thread that is dead.
    fn go_on(&self, thread: Pid, signal: Option<Signal>) {
        let _ = ptrace::cont(thread, signal);
    }

    fn enters(&mut self, thread: Pid) {
        let Some(Stop::Entry { number, arguments }) = Stop::of(thread) else { return };
        let call = Call { thread, number, arguments };
        let counts = self.shared.counts.load(Ordering::SeqCst) && call.changes_host();
        let number = counts.then(|| {
            self.counted += 1;
            locked(&self.shared.calls).push(call.shown());
            self.counted
        });
        self.kill_at(number, When::Before, &call);
        self.entered.insert(thread, (call, number));
    }

    fn leaves(&mut self, thread: Pid) {
        let Some((call, number)) = self.entered.remove(&thread) else { return };
        if let (Some(made), Some(Stop::Exit { result: result @ 0.. })) =
            (call.makes(), Stop::of(thread))
            && let Some(id) = call.made(made, result)
        {
            locked(&self.made).insert((made, id));
        }
        self.kill_at(number, When::After, &call);
    }

    fn kill_at(&mut self, number: Option<usize>, when: When, call: &Call) {
        let is_now = self.kill.is_some_and(|kill| number == Some(kill.nth) && kill.when == when);
        if is_now {
            self.killed_at = Some(call.shown());
            let _ = kill(self.process, Signal::SIGKILL);
        }
    }
}

/// Makes the filter that has a thread stop where a call may change the host.
fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let calls = call::numbers().map(|number| (number, Vec::new())).collect();
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(calls, SeccompAction::Allow, SeccompAction::Trace(0), architecture)?
        .try_into()
}

/// Where a thread has stopped.
enum Stop {
    Entry { number: libc::c_long, arguments: [u64; 6] },
    Exit { result: i64 },
}

impl Stop {
    /// Asks by PTRACE_GET_SYSCALL_INFO (Linux 5.3), which musl's headers lack.
    fn of(thread: Pid) -> Option<Self> {
        const GET_SYSCALL_INFO: libc::c_int = 0x420e;
        /// These are the fields of `struct ptrace_syscall_info` (include/uapi/linux/ptrace.h).
        #[repr(C)]
        struct Info {
            operation: u8,
            reserved: [u8; 3],
            architecture: u32,
            instruction: u64,
            stack: u64,
            /// The number at an entry, the result at an exit.
            first: u64,
            arguments: [u64; 6],
            more: u64,
        }
        const EXIT: u8 = 2;
        const SECCOMP: u8 = 3;
        // SAFETY: all bytes may be zero.
        let mut info: Info = unsafe { zeroed() };
        // SAFETY: the kernel writes no more bytes than there are.
        let bytes = unsafe {
            libc::ptrace(GET_SYSCALL_INFO as _, thread.as_raw(), size_of::<Info>(), &raw mut info)
        };
        match (bytes > 0, info.operation) {
            (true, SECCOMP) => {
                Some(Self::Entry { number: info.first as libc::c_long, arguments: info.arguments })
            }
            (true, EXIT) => Some(Self::Exit { result: info.first.cast_signed() }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn ended(traced: &Traced) -> Ended {
        for _ in 0..1000 {
            if let Some(ended) = traced.ended() {
                return ended;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("it goes on");
    }

    /// Makes two folders, and ends with 0.
    fn folders(at: &std::path::Path) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "umask 77; exec mkdir a b"]).current_dir(at);
        command
    }

    #[test]
    fn each_call_is_seen_and_a_kill_is_before_or_after_it() {
        let made = Objects::default();
        let folder = tempfile::tempdir().unwrap();
        let whole = Traced::start(folders(folder.path()), true, None, &made).unwrap();
        assert!(ended(&whole).is_success);
        let calls = whole.calls();
        let place = |words: &str| calls.iter().position(|call| call == words).unwrap();
        let (a, b) = (place("mkdir a"), place("mkdir b"));
        assert!(a < b, "{calls:?}");

        for (nth, when, expected) in [
            (a + 1, When::Before, [false, false]),
            (a + 1, When::After, [true, false]),
            (b + 1, When::Before, [true, false]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let kill = Some(Kill { nth, when });
            let killed = Traced::start(folders(folder.path()), true, kill, &made).unwrap();
            let end = ended(&killed);
            drop(killed);
            assert!(end.killed_at.is_some_and(|call| call.starts_with("mkdir ")));
            let there = ["a", "b"].map(|name| folder.path().join(name).exists());
            assert_eq!(there, expected, "{nth} {when:?}");
        }
    }
}
