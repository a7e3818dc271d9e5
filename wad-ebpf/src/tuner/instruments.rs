//! TCP knows these things of the flows of the paths: an iterator over the flows'
//! state, in all network namespaces at once, which the agent reads when it is asked.
//! It changes nothing, and takes no lock of a socket: a number may be one of a moment
//! later than the next. Connections on no path are shown as well, to whoever asks for them.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::{bpf_jiffies64, bpf_ktime_get_ns, bpf_seq_write};
use wad_common::{
    flow::{Outcome, Role},
    instruments::{Head, Members, Place},
    policy::NO_PATH,
    process::Process,
    refused::Refused,
    signals::Signals,
};

use crate::{
    flows,
    progress::Context,
    socket::{Socket as _, Visited},
    sockets,
};

/// Members that are written at once.
const AT_ONCE: u32 = 16;

/// The agent sets it before the program is loaded, and freezes it.
#[unsafe(no_mangle)]
static MEMBERS: Members = Members::NONE;

#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/bpf_sk_storage_map")]
pub extern "C" fn wad_instruments(ctx: *const Context) -> u32 {
    let (meta, sk, flow) = Context::read(ctx);
    if flow.is_null() {
        return 0;
    }
    macro_rules! of_flow {
        ($field:ident) => {
            // SAFETY: the flow's state, which is there for as long as this run.
            unsafe { (&raw const (*flow).$field).read_volatile() }
        };
    }
    let (outcome, established_ns) = (of_flow!(outcome), of_flow!(established_ns));
    if outcome == Outcome::Ended as u32 || established_ns == 0 {
        return 0;
    }
    let Some(socket) = Visited::of(sk) else { return 0 };
    // SAFETY: the kernel's own output; the verifier checks the load.
    let out = unsafe { *meta };
    write_head(
        &socket,
        out,
        &Known {
            established_ns,
            policy: of_flow!(policy),
            role: of_flow!(role),
            outcome,
            refused: of_flow!(refused),
        },
    );
    // SAFETY: a record is read, which has no padding.
    unsafe {
        let process = (&raw const (*flow).process).cast_mut();
        bpf_seq_write(out.cast(), process.cast(), size_of::<Process>() as u32);
        let signals = (&raw const (*flow).signals).cast_mut();
        bpf_seq_write(out.cast(), signals.cast(), size_of::<Signals>() as u32);
    }
    write_members(&socket, out);
    0
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
        // Nobody has seen it begin.
        established_ns: 0,
        policy: NO_PATH,
        role: Role::Running as u32,
        outcome: Outcome::NoPath as u32,
        refused: Refused::default(),
    };
    write_head(&socket, out, &known);
    let (process, signals) = (Process::default(), Signals::default());
    // SAFETY: records are read, which have no padding.
    unsafe {
        let process = (&raw const process).cast_mut();
        bpf_seq_write(out.cast(), process.cast(), size_of::<Process>() as u32);
        let signals = (&raw const signals).cast_mut();
        bpf_seq_write(out.cast(), signals.cast(), size_of::<Signals>() as u32);
    }
    write_members(&socket, out);
    0
}

/// The flow's state says this of it.
struct Known {
    established_ns: u64,
    policy: u32,
    role: u32,
    outcome: u32,
    refused: Refused,
}

// Each has the stack to itself, which has 512 bytes.

#[inline(never)]
fn write_head(socket: &Visited, out: *mut c_void, known: &Known) {
    // SAFETY: reads the clocks.
    let (now_ns, ticks) = unsafe { (bpf_ktime_get_ns(), bpf_jiffies64() as u32) };
    let ends = socket.ends();
    let head = Head {
        cookie: socket.cookie(),
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
    };
    // The output takes all of a flow, or the kernel comes back with the same flow.
    let bytes = size_of::<Head>() as u32;
    // SAFETY: a record is read, which has no padding.
    unsafe { bpf_seq_write(out.cast(), (&raw const head).cast_mut().cast(), bytes) };
}

#[inline(never)]
fn write_members(socket: &Visited, out: *mut c_void) {
    // SAFETY: a valid static. Volatile, because the compiler would otherwise take the
    // initializer for the value.
    let count = unsafe { (&raw const MEMBERS.count).read_volatile() };
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

#[inline(always)]
fn place(n: usize) -> Place {
    // SAFETY: a valid static, volatile as above; the agent counts no more than there
    // are places for.
    unsafe { (&raw const MEMBERS.places).cast::<Place>().add(n).read_volatile() }
}
