//! TCP knows these things of the flows of the paths: a scan, which the agent makes when it is
//! asked. Connections on no path are shown as well, to whoever asks for them.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::{bpf_jiffies64, bpf_ktime_get_ns, bpf_seq_write};
use wad_common::{
    flow::{Flow, Outcome, Role},
    instruments::{Head, Members, Place},
    policy::NO_PATH,
    process::Process,
    refused::Refused,
    signals::Signals,
};
use wad_ebpf::kernel::{Access, Scanned};

use crate::{
    flows,
    scan::{self, VisitFlow},
    socket::{Socket as _, Visited},
    sockets,
};

/// Members that are written at once.
const AT_ONCE: u32 = 16;

/// The agent sets it before the program is loaded, and freezes it.
#[unsafe(no_mangle)]
static MEMBERS: Members = Members::NONE;

/// A record: its members are behind it.
#[repr(C)]
struct Record {
    head: Head,
    process: Process,
    signals: Signals,
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "freplace/scan")]
pub extern "C" fn wad_instruments(_ctx: *mut c_void) -> u32 {
    scan::flows::<Reads>();
    0
}

/// Reads what TCP knows of each flow.
struct Reads;

impl VisitFlow for Reads {
    #[inline(always)]
    fn visit(flow: &mut Flow) {
        if flow.outcome != Outcome::Ended as u32
            && flow.established_ns != 0
            && let Some(socket) = Visited::of_flow(flow)
            && let Some(record) = scan::room::<Record>()
        {
            write(&socket, flow, record);
            write_members(&socket, record);
            if socket.still_has(flow) {
                scan::keep();
            }
        }
    }
}

#[inline(always)]
fn write(socket: &Visited<Scanned>, flow: &Flow, record: *mut Record) {
    let known = Known {
        cookie: flow.cookie,
        established_ns: flow.established_ns,
        policy: flow.policy,
        role: flow.role,
        outcome: flow.outcome,
        refused: flow.refused,
    };
    // SAFETY: room for a record.
    unsafe {
        (&raw mut (*record).head).write(head(socket, &known));
        (&raw mut (*record).process).write(flow.process);
        (&raw mut (*record).signals).write(flow.signals);
    }
}

/// Writes the members behind a record.
#[inline(never)]
fn write_members(socket: &Visited<Scanned>, record: *mut Record) {
    // SAFETY: the elements of the output have room for as many members behind a record.
    let members = unsafe { record.add(1) }.cast::<u64>();
    for n in 0..count() {
        // SAFETY: as above.
        unsafe { members.add(n as usize).write(socket.member(place(n as usize))) };
    }
}

/// Goes through the sockets of a network namespace for those on no path, with their locks
/// held, as the kernel's iterator does.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/tcp")]
pub extern "C" fn wad_others(ctx: *const sockets::Context) -> u32 {
    let (meta, sk) = sockets::Context::read(ctx);
    let Some(socket) = Visited::of(sk) else { return 0 };
    if !socket.can_send() || flows::live(&socket).is_some() || !socket.is_in_cgroup() {
        return 0;
    }
    if socket.is_of_probe() {
        return 0;
    }
    // SAFETY: the kernel's own output; the verifier checks the load.
    let out = unsafe { *meta };
    let known = Known {
        cookie: socket.cookie(),
        // Nobody has seen it begin.
        established_ns: 0,
        policy: NO_PATH,
        role: Role::Running as u32,
        outcome: Outcome::NoPath as u32,
        refused: Refused::default(),
    };
    print_head(&socket, out, &known);
    let (process, signals) = (Process::default(), Signals::default());
    // SAFETY: records are read, which have no padding.
    unsafe {
        let process = (&raw const process).cast_mut();
        bpf_seq_write(out.cast(), process.cast(), size_of::<Process>() as u32);
        let signals = (&raw const signals).cast_mut();
        bpf_seq_write(out.cast(), signals.cast(), size_of::<Signals>() as u32);
    }
    print_members(&socket, out);
    0
}

/// Holds what is known of a flow beside its socket.
struct Known {
    cookie: u64,
    established_ns: u64,
    policy: u32,
    role: u32,
    outcome: u32,
    refused: Refused,
}

// Each has the stack to itself, which has 512 bytes.

#[inline(never)]
fn print_head(socket: &Visited, out: *mut c_void, known: &Known) {
    let head = head(socket, known);
    // The output takes all of a flow, or the kernel comes back with the same flow.
    let bytes = size_of::<Head>() as u32;
    // SAFETY: a record is read, which has no padding.
    unsafe { bpf_seq_write(out.cast(), (&raw const head).cast_mut().cast(), bytes) };
}

#[inline(always)]
fn head<A: Access>(socket: &Visited<A>, known: &Known) -> Head {
    // SAFETY: reads the clocks.
    let (now_ns, ticks) = unsafe { (bpf_ktime_get_ns(), bpf_jiffies64() as u32) };
    let ends = socket.ends();
    Head {
        cookie: known.cookie,
        now_ns,
        established_ns: known.established_ns,
        remote: ends.remote,
        local: ends.local,
        remote_port: ends.remote_port,
        local_port: ends.local_port,
        policy: known.policy,
        role: known.role,
        outcome: known.outcome,
        netns: socket.netns(),
        limits: socket.limits(ticks),
        congestion: socket.congestion(),
        refused: known.refused,
        cgroup: socket.cgroup(),
        user: socket.user(),
        reserved: 0,
    }
}

#[inline(never)]
fn print_members(socket: &Visited, out: *mut c_void) {
    let count = count();
    let mut written = 0;
    while written < count {
        let left = count - written;
        let now = if left < AT_ONCE { left } else { AT_ONCE };
        let mut values = [0_u64; AT_ONCE as usize];
        for (n, value) in values.iter_mut().enumerate().take(now as usize) {
            *value = socket.member(place(written as usize + n));
        }
        // SAFETY: so many of them are read.
        unsafe { bpf_seq_write(out.cast(), values.as_mut_ptr().cast(), 8 * now) };
        written += now;
    }
}

/// Returns how many members there are.
#[inline(always)]
fn count() -> u32 {
    // SAFETY: a valid static. Volatile, because the compiler would otherwise take the
    // initializer for the value.
    unsafe { (&raw const MEMBERS.count).read_volatile() }
}

#[inline(always)]
fn place(n: usize) -> Place {
    // SAFETY: a valid static, volatile as above; the agent counts no more than there
    // are places for.
    unsafe { (&raw const MEMBERS.places).cast::<Place>().add(n).read_volatile() }
}
