//! A kernel that refuses BPF programs is played on this one: bpf(2) answers EPERM to a process,
//! and to all that it starts, when it loads one of them. All other programs load as ever.
//!
//! The process is started under a filter of seccomp(2) that hands each BPF_PROG_LOAD to a thread
//! of the test, which answers it or lets it go on (Linux 5.5). So nothing is changed in the
//! program under test. A process has one such thread at most: the kernel refuses a second
//! filter of the kind with EBUSY.

use std::{
    collections::HashMap,
    env,
    ffi::OsString,
    io::{self, IoSliceMut, Read as _, Write as _},
    mem::zeroed,
    net::Shutdown,
    os::{
        fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::{net::UnixStream, process::CommandExt as _},
    },
    process::Command,
    sync::{Arc, Mutex},
    thread,
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::uio::{RemoteIoVec, process_vm_readv},
    unistd::{Pid, getpid},
};

use crate::{kernel_types, mutex::locked};

/// The kinds of programs that a hardened kernel refuses, whoever asks: a Linux 6.18 was seen to
/// refuse all of these, and to load iterators over sockets and files, and raw tracepoints.
pub const HARDENED: &[&str] = &[
    "iter/bpf_sk_storage_map",
    "iter/bpf_map_elem",
    "iter/sockmap",
    "fentry",
    "fexit",
    "fmod_ret",
    "lsm",
];

/// Where it is `hardened`, all tests that play no kernel themselves run on one that refuses
/// [`HARDENED`].
const VARIABLE: &str = "WAD_E2E_REFUSE";

/// Tells what kept a kernel from being played.
#[derive(Debug, thiserror::Error)]
pub enum RefusingKernelError {
    #[error("cannot tell which iterator a program is for")]
    Types { source: io::Error },
    #[error("cannot watch what a process asks of bpf(2)")]
    Watch { source: io::Error },
    #[error("{VARIABLE} can only be `hardened`, not {0:?}")]
    Variable(OsString),
}

/// A program that a process has asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The name that the process gives it, at most 15 characters.
    pub name: String,
    /// The kind, as sections of object files are called: `fexit`, `iter/tcp`.
    pub kind: String,
}

/// A kernel that refuses some programs. Processes that were started on it stay on it when this
/// is dropped.
pub struct RefusingKernel(Arc<Rules>);

struct Rules {
    /// Names and kinds of programs.
    refused: Vec<String>,
    /// The functions that stand for iterators, by their type ids.
    iterators: HashMap<u32, String>,
    refusals: Mutex<Vec<Program>>,
}

impl RefusingKernel {
    /// Plays a kernel that refuses these programs, by name (`wad_signals`) or by kind (`fexit`,
    /// `iter/tcp`).
    ///
    /// # Errors
    /// When the kernel has no type information.
    pub fn new(refused: &[&str]) -> Result<Self, RefusingKernelError> {
        let iterators = kernel_types::functions(ITERATOR)
            .map_err(|source| RefusingKernelError::Types { source })?;
        Ok(Self(Arc::new(Rules {
            refused: refused.iter().map(|word| (*word).to_owned()).collect(),
            iterators,
            refusals: Mutex::default(),
        })))
    }

    /// Returns the kernel that the environment has all tests run on, if it names one.
    ///
    /// # Errors
    /// When there is no such kernel, or it cannot be played.
    pub fn of_environment() -> Result<Option<Self>, RefusingKernelError> {
        match env::var_os(VARIABLE) {
            None => Ok(None),
            Some(word) if word == "hardened" => Self::new(HARDENED).map(Some),
            Some(other) => Err(RefusingKernelError::Variable(other)),
        }
    }

    /// Has a command run on this kernel, once.
    ///
    /// # Errors
    /// When there is no room for a thread.
    pub fn apply(&self, command: &mut Command) -> Result<(), RefusingKernelError> {
        let failed = |source| RefusingKernelError::Watch { source };
        let (own, of_child) = UnixStream::pair().map_err(failed)?;
        let rules = Arc::clone(&self.0);
        // It ends with the process, or with a command that is never run.
        thread::Builder::new()
            .name("refuses".to_owned())
            .spawn(move || {
                if let Ok(listener) = take_listener(&own) {
                    rules.answer_all(&listener);
                }
                // The child has a copy of this end until it runs the command.
                let _ = own.shutdown(Shutdown::Both);
            })
            .map_err(failed)?;
        // SAFETY: makes system calls only: no allocation, no lock.
        unsafe { command.pre_exec(move || hand_over_listener(&of_child)) };
        Ok(())
    }

    /// Returns the programs that were refused so far, in the order of time.
    #[must_use]
    pub fn refusals(&self) -> Vec<Program> {
        locked(&self.0.refusals).clone()
    }

    /// Returns how often a program of this name was refused.
    #[must_use]
    pub fn refused(&self, name: &str) -> usize {
        locked(&self.0.refusals).iter().filter(|program| program.name == name).count()
    }
}

impl Rules {
    /// Answers until there is no process left that asks.
    fn answer_all(&self, listener: &OwnedFd) {
        loop {
            let mut polled = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
            match poll(&mut polled, PollTimeout::NONE) {
                Ok(_) => {}
                Err(Errno::EINTR) => continue,
                Err(_) => return,
            }
            if !polled[0].revents().is_some_and(|events| events.contains(PollFlags::POLLIN)) {
                return;
            }
            match receive(listener) {
                Ok(call) => self.answer(listener, &call),
                // Who has asked is gone.
                Err(Errno::ENOENT | Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    }

    fn answer(&self, listener: &OwnedFd, call: &libc::seccomp_notif) {
        let refused = self.program(call).filter(|program| self.refuses(program));
        // Whoever is refused goes on at once, and somebody may look for the refusal then.
        let mut refusals = locked(&self.refusals);
        if send(listener, call.id, refused.is_some()).is_ok() {
            refusals.extend(refused);
        }
    }

    fn refuses(&self, program: &Program) -> bool {
        self.refused.iter().any(|word| *word == program.name || *word == program.kind)
    }

    /// Returns what is to be loaded; None where the kernel will find no attributes either.
    fn program(&self, call: &libc::seccomp_notif) -> Option<Program> {
        // These are offsets in `union bpf_attr`, whose end older programs leave out.
        const KIND: usize = 0;
        const NAME: usize = 48;
        const ATTACH_TYPE: usize = 68;
        const ATTACH_BTF_ID: usize = 108;
        let mut attributes = [0_u8; 112];
        let bytes = attributes.len().min(call.data.args[2] as usize);
        let remote = RemoteIoVec { base: call.data.args[1] as usize, len: bytes };
        let mut local = [IoSliceMut::new(&mut attributes[..bytes])];
        process_vm_readv(Pid::from_raw(call.pid.cast_signed()), &mut local, &[remote]).ok()?;
        let word = |at: usize| {
            attributes[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
        };
        let name = attributes[NAME..NAME + 16].split(|byte| *byte == 0).next()?;
        Some(Program {
            name: String::from_utf8_lossy(name).into_owned(),
            kind: self.kind(word(KIND), word(ATTACH_TYPE), word(ATTACH_BTF_ID)),
        })
    }

    /// Returns the name of a kind by `enum bpf_prog_type`, `enum bpf_attach_type` and the type
    /// id of what the program is for; a number where tests need no name.
    fn kind(&self, kind: u32, attach_type: u32, attach_btf_id: u32) -> String {
        const TRACING: u32 = 26;
        const LSM: u32 = 29;
        const SYSCALL: u32 = 31;
        match (kind, attach_type) {
            (TRACING, 23) => "tp_btf".to_owned(),
            (TRACING, 24) => "fentry".to_owned(),
            (TRACING, 25) => "fexit".to_owned(),
            (TRACING, 26) => "fmod_ret".to_owned(),
            (TRACING, 28) => match self.iterators.get(&attach_btf_id) {
                Some(name) => format!("iter/{}", name.trim_start_matches(ITERATOR)),
                None => "iter".to_owned(),
            },
            (LSM, _) => "lsm".to_owned(),
            (SYSCALL, _) => "syscall".to_owned(),
            _ => kind.to_string(),
        }
    }
}

/// The kernel has a function of this name for each kind of iterator.
const ITERATOR: &str = "bpf_iter_";

const BPF_PROG_LOAD: u32 = 5;

const fn step(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// Skips so many steps if what was loaded is another number.
const fn unless_equal(k: u32, jf: u8) -> libc::sock_filter {
    let code = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    libc::sock_filter { code: code as u16, jt: 0, jf, k }
}

/// The offset of the lower half of the call's first argument in `struct seccomp_data`, after its
/// number, architecture and address.
const FIRST_ARGUMENT: u32 = if cfg!(target_endian = "little") { 16 } else { 20 };

/// The seccomp filter: the listener decides about BPF_PROG_LOAD, every other call goes on.
const FILTER: [libc::sock_filter; 6] = [
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
    unless_equal(libc::SYS_bpf as u32, 3),
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, FIRST_ARGUMENT),
    unless_equal(BPF_PROG_LOAD, 1),
    step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_USER_NOTIF),
    step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
];

/// Puts this process under the filter, and waits until its supervisor has the listener. It runs
/// between fork(2) and execve(2), which closes the listener here.
fn hand_over_listener(mut supervisor: &UnixStream) -> io::Result<()> {
    let filter = FILTER;
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the kernel reads the filter, which lives until then.
    let listener = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        )
    };
    if listener < 0 {
        return Err(io::Error::last_os_error());
    }
    supervisor.write_all(&getpid().as_raw().to_ne_bytes())?;
    supervisor.write_all(&(listener as i32).to_ne_bytes())?;
    supervisor.read_exact(&mut [0])
}

/// Takes the listener out of the child.
fn take_listener(mut child: &UnixStream) -> io::Result<OwnedFd> {
    let (mut process, mut listener) = ([0; 4], [0; 4]);
    child.read_exact(&mut process)?;
    child.read_exact(&mut listener)?;
    let process = descriptor(libc::SYS_pidfd_open, i32::from_ne_bytes(process), 0)?;
    let listener = i32::from_ne_bytes(listener);
    let listener = descriptor(libc::SYS_pidfd_getfd, process.as_raw_fd(), listener)?;
    child.write_all(&[0])?;
    Ok(listener)
}

/// Makes a call that returns a descriptor.
fn descriptor(call: libc::c_long, first: i32, second: i32) -> io::Result<OwnedFd> {
    // SAFETY: a plain system call without pointers.
    let made = unsafe { libc::syscall(call, first, second, 0) };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that was just made and is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(made as i32) })
}

fn receive(listener: &OwnedFd) -> nix::Result<libc::seccomp_notif> {
    // SAFETY: all bytes may be zero, as the kernel wants them.
    let mut call: libc::seccomp_notif = unsafe { zeroed() };
    // SAFETY: the kernel fills in the struct, whose size is in the number of the command.
    let result =
        unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) };
    Errno::result(result).map(|_| call)
}

/// Has a call fail with EPERM, or go on.
fn send(listener: &OwnedFd, id: u64, is_refused: bool) -> nix::Result<()> {
    let (error, flags) = if is_refused {
        (-libc::EPERM, 0)
    } else {
        (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32)
    };
    let mut answer = libc::seccomp_notif_resp { id, val: 0, error, flags };
    // SAFETY: the kernel reads the struct, whose size is in the number of the command.
    let result = unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer)
    };
    Errno::result(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_refused_by_its_name_or_by_its_kind() {
        let rules = Rules {
            refused: ["wad_signals", "iter/sockmap"].map(str::to_owned).into(),
            iterators: HashMap::from([(7, "bpf_iter_sockmap".to_owned())]),
            refusals: Mutex::default(),
        };
        let refuses = |name: &str, (kind, attach_type, id)| {
            let kind = rules.kind(kind, attach_type, id);
            rules.refuses(&Program { name: name.to_owned(), kind })
        };
        assert!(refuses("wad_signals", (26, 23, 1)) && refuses("a", (26, 28, 7)));
        // Another kind, another iterator, another name.
        assert!(!refuses("a", (26, 23, 7)) && !refuses("a", (26, 28, 8)));
        assert!(!refuses("wad_signal", (26, 25, 7)));
    }
}
