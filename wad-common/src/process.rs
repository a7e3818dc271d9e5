//! A process is known by what the kernel says of it when it connects, or accepts.

use crate::record;

/// Bytes of a command's name (`TASK_COMM_LEN`).
pub const COMMAND_BYTES: usize = 16;

/// The process that opened a connection. Zeros where nobody has seen that.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// The name of its command, as `ps -o comm` shows it, zero-terminated.
    pub command: [u8; COMMAND_BYTES],
    /// Its number in the host's own PID namespace; 0 where it is not known.
    pub pid: u32,
    /// Keeps the record free of implicit padding.
    pub reserved: u32,
}
record!(Process, size = 24);

/// A socket of TCP without a state of its own, with a process that has it open.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The socket's cookie.
    pub cookie: u64,
    /// The process that has it open.
    pub process: Process,
}
record!(Held, size = 32);

/// These offsets say where the fields of `struct task_struct` lie, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskOffsets {
    /// `tgid`: the number of its process.
    pub tgid: u32,
    /// `group_leader`: the process's first thread, a pointer.
    pub group_leader: u32,
    /// `comm`: the name of its command.
    pub comm: u32,
    /// `sk` of `struct socket` is a pointer.
    pub socket_sk: u32,
}
record!(TaskOffsets, size = 16);
