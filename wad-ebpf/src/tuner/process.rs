//! Whose flows are: the process that connects is the one for which the kernel works at that
//! moment. Of a connection that comes in, the handshake is nobody's work: who accepts it is
//! seen when `accept(2)` hands it out.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::{bpf_get_current_task_btf, bpf_seq_write, bpf_sock_from_file};
use wad_common::process::{Held, Process, TaskOffsets};
use wad_ebpf::kernel::Kernel;

use crate::{
    flows,
    socket::{Socket as _, Visited},
};

/// The agent sets it before the programs are loaded, and freezes it.
#[unsafe(no_mangle)]
static TASK: TaskOffsets = TaskOffsets { tgid: u32::MAX, group_leader: 0, comm: 0, socket_sk: 0 };

macro_rules! offset {
    ($field:ident) => {
        // SAFETY: a valid static. Volatile, because the compiler would otherwise
        // take the initializer for the value.
        unsafe { (&raw const TASK.$field).read_volatile() }
    };
}

/// Returns the process that the kernel works for.
#[inline(always)]
pub fn current() -> Process {
    // SAFETY: returns the task that runs.
    of(Kernel::at(unsafe { bpf_get_current_task_btf() } as *const u8))
}

/// Returns a task's process, by the name of its first thread, as ps has it.
#[inline(always)]
fn of(task: Kernel) -> Process {
    let leader = task.follow(offset!(group_leader));
    let (command, pid) = (leader.name(offset!(comm)), leader.read(offset!(tgid)));
    Process { command, pid, reserved: 0 }
}

/// `struct sock *inet_csk_accept(struct sock *, struct proto_accept_arg *)`, since Linux
/// 6.10.
#[unsafe(no_mangle)]
#[unsafe(link_section = "fexit/inet_csk_accept")]
pub extern "C" fn wad_accepted(ctx: *const u64) -> u32 {
    // SAFETY: the result, behind two arguments; the verifier checks the load.
    note_accepted(unsafe { ctx.add(2).read_volatile() })
}

/// `struct sock *inet_csk_accept(struct sock *, int flags, int *err, bool kern)`, before.
#[unsafe(no_mangle)]
#[unsafe(link_section = "fexit/inet_csk_accept")]
pub extern "C" fn wad_accepted_before(ctx: *const u64) -> u32 {
    // SAFETY: the result, behind four arguments; the verifier checks the load.
    note_accepted(unsafe { ctx.add(4).read_volatile() })
}

#[inline(always)]
fn note_accepted(sk: u64) -> u32 {
    let sk = sk as *mut c_void;
    if let Some(flow) = Visited::of(sk).as_ref().and_then(flows::live) {
        flow.process = current();
    }
    0
}

/// `struct bpf_iter__task_file`.
#[repr(C)]
pub struct Context {
    meta: *const *mut c_void,
    task: *const u8,
    fd: u32,
    file: *mut c_void,
}

/// Goes through the open files of all processes: flows that nobody saw being connected or
/// accepted are those of the first that has them. Sockets without a state are told.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task_file")]
pub extern "C" fn wad_holders(ctx: *const Context) -> u32 {
    // SAFETY: the kernel's own arguments; the verifier checks the loads.
    let (meta, task, file) = unsafe {
        (
            (&raw const (*ctx).meta).read_volatile(),
            (&raw const (*ctx).task).read_volatile(),
            (&raw const (*ctx).file).read_volatile(),
        )
    };
    if task.is_null() || file.is_null() {
        return 0;
    }
    // SAFETY: a file of the kernel's.
    let socket = unsafe { bpf_sock_from_file(file.cast()) };
    if socket.is_null() {
        return 0;
    }
    let at = socket.cast::<u8>().wrapping_add(offset!(socket_sk) as usize);
    // SAFETY: a load that the verifier checks against the kernel's BTF.
    let sk = unsafe { at.cast::<*mut c_void>().read_volatile() };
    let Some(socket) = Visited::of(sk) else { return 0 };
    let process = || of(Kernel::at(task));
    if let Some(flow) = flows::live(&socket) {
        if flow.process.pid == 0 {
            flow.process = process();
        }
    } else if socket.can_send() {
        let held = Held { cookie: socket.cookie(), process: process() };
        let bytes = size_of::<Held>() as u32;
        // SAFETY: the kernel's own output; a record is read, which has no padding.
        unsafe { bpf_seq_write((*meta).cast(), (&raw const held).cast_mut().cast(), bytes) };
    }
    0
}
