//! Buffers that grow with need, and shrink where memory is short. A flow under a law of
//! ours has its send buffer grow by itself, on its ACKs; all else is the agent's to bring
//! about. It scans the flows now and then (`wad_needs`), and visits the sockets of the network
//! namespaces where there is anything to do ([`wad_growing`]).

use core::ffi::c_void;

use aya_ebpf::helpers::bpf_ktime_get_ns;
use wad_common::{
    flow::{
        Flow,
        option::{RCVBUF, SNDBUF},
    },
    growth::{
        Buffer, CHANGES_STILL, Holder, Holding, Room, STARTS, WANTS_VISIT, receive_needs_bytes,
        send_needs_bytes,
    },
    refused::SocketSetting,
};
use wad_ebpf::{
    buffers::{Kind, Now, buffer},
    counts,
    kernel::{Access, Scanned},
    maps::HELD,
    policies,
};

use crate::{
    account, flows,
    scan::{self, VisitFlow},
    socket::{Socket as _, Visited},
    sockets,
};

#[unsafe(no_mangle)]
#[unsafe(link_section = "freplace/scan")]
pub extern "C" fn wad_needs(_ctx: *mut c_void) -> u32 {
    scan::flows::<Needs>();
    0
}

/// Reads what each flow holds and wants.
struct Needs;

impl VisitFlow for Needs {
    #[inline(always)]
    fn visit(flow: &mut Flow) {
        if flow.is_tuned()
            && let Some(socket) = Visited::of_flow(flow).filter(Visited::is_in_use)
            && let Some(record) = scan::room::<Holding>()
        {
            // SAFETY: room for one record.
            unsafe { record.write(needs(&socket, flow)) };
            if socket.still_has(flow) {
                scan::keep();
            }
        }
    }
}

#[inline(always)]
fn needs(socket: &Visited<Scanned>, flow: &mut Flow) -> Holding {
    // What lies behind a hole counts when that is filled, all at once.
    if !socket.has_hole() {
        // SAFETY: reads the clock.
        flow.arrivals.look(socket.bytes_received(), unsafe { bpf_ktime_get_ns() });
    }
    let holder = Holder { cgroup: socket.cgroup(), policy: flow.policy, reserved: 0 };
    // SAFETY: a number in a map, which is there for as long as this run.
    flow.room = unsafe { HELD.get(holder) }.map_or(Room::Free as u32, |room| *room);
    let [sndbuf, rcvbuf] = buffers(socket, flow);
    let changes = sndbuf.is_to_change() || rcvbuf.is_to_change();
    let mut flags = if changes { CHANGES_STILL } else { 0 };
    let more_bytes = sndbuf.wants_bytes();
    // A law of ours sees to growth on ACKs, and the sooner. The application may have
    // chosen another.
    let grows_on_acks = || more_bytes > 0 && socket.congestion().starts_with(b"wad_");
    if sndbuf.next_bytes().is_some() && !grows_on_acks() || rcvbuf.next_bytes().is_some() {
        flags |= WANTS_VISIT;
    }
    let wants_bytes = more_bytes.saturating_add(rcvbuf.wants_bytes());
    let [sends_bytes, receives_bytes] = socket.held_bytes();
    let mut largest_growing_bytes = 0;
    if sndbuf.grows() {
        largest_growing_bytes = sends_bytes;
    }
    if rcvbuf.grows() && receives_bytes > largest_growing_bytes {
        largest_growing_bytes = receives_bytes;
    }
    // One whose other end takes nothing has all the more to send, and sends none of it.
    if socket.sends() && starts(socket, flow.policy) {
        flags |= STARTS;
    }
    Holding {
        holder,
        netns: socket.netns(),
        flags,
        sends_bytes,
        receives_bytes,
        wants_bytes,
        largest_growing_bytes,
    }
}

/// Counts a flow that sends. Returns whether it is in slow start where that depends on
/// how many do.
#[inline(always)]
fn starts(socket: &Visited<Scanned>, policy: u32) -> bool {
    let Some(stats) = counts::stats(policy) else { return false };
    // SAFETY: reads the clock.
    stats.senders.count(scan::number(), unsafe { bpf_ktime_get_ns() });
    let state = socket.state();
    let is_shared = policies::policy(policies::generation(), policy)
        .is_some_and(|policy| policy.path_bytes != 0);
    is_shared && state.cwnd_segments < state.ssthresh_segments
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/tcp")]
pub extern "C" fn wad_growing(ctx: *const sockets::Context) -> u32 {
    let (_, sk) = sockets::Context::read(ctx);
    let Some(socket) = Visited::of(sk) else { return 0 };
    if let Some(flow) = flows::live(&socket)
        && flow.is_tuned()
        && socket.is_in_use()
    {
        let was_refused = flow.refused;
        follow(&socket, flow);
        account::refused(flow, &was_refused);
    }
    0
}

/// Sets the buffers that are to have another size.
#[inline(always)]
pub fn follow(socket: &Visited, flow: &mut Flow) {
    let [sends, receives] = buffers(socket, flow);
    if let Some(bytes) = sends.next_bytes() {
        let set = socket.set_sndbuf(bytes / 2);
        took(socket, flow, (SocketSetting::Sndbuf, set), bytes);
    }
    if let Some(bytes) = receives.next_bytes() {
        let set = socket.set_rcvbuf(bytes / 2);
        took(socket, flow, (SocketSetting::Rcvbuf, set), bytes);
    }
}

/// Notes what came of setting one of them to so many bytes.
#[inline(always)]
fn took(
    socket: &Visited,
    flow: &mut Flow,
    (setting, set): (SocketSetting, Result<(), i32>),
    bytes: u32,
) {
    let is_sndbuf = matches!(setting, SocketSetting::Sndbuf);
    if set.is_ok() {
        flow.given |= if is_sndbuf { SNDBUF } else { RCVBUF } as u16;
    }
    flow.refused.note(setting, set);
    socket.read_buffers(&mut flow.after);
    let after = &flow.after;
    let after_bytes = if is_sndbuf { after.sndbuf_bytes } else { after.rcvbuf_bytes };
    if after_bytes < bytes / 2 * 2 {
        flow.refused.note_cut(setting);
    }
}

/// Returns the buffers, the one to send and the one to receive.
#[inline(always)]
fn buffers<A: Access>(socket: &Visited<A>, flow: &mut Flow) -> [Buffer; 2] {
    let locked = socket.choices();
    let [sndbuf_bytes, rcvbuf_bytes] = socket.buffers_bytes();
    let [autotuned_sndbuf_bytes, autotuned_rcvbuf_bytes] = socket.autotuned_bytes();
    let sends = Now {
        has_bytes: sndbuf_bytes,
        needs_bytes: send_needs_bytes(socket.cwnd_segments(), socket.mss_bytes()),
        autotuned_bytes: autotuned_sndbuf_bytes,
        is_locked: locked & SNDBUF != 0,
    };
    let receives = Now {
        has_bytes: rcvbuf_bytes,
        needs_bytes: receive_needs_bytes(socket.taken_bytes(), socket.scaling_ratio()),
        autotuned_bytes: autotuned_rcvbuf_bytes,
        is_locked: locked & RCVBUF != 0,
    };
    let sends = buffer(flow, &Kind::send(flow), &sends);
    let sends = hidden::<A>(flow, sends);
    let receives = buffer(flow, &Kind::receive(flow), &receives);
    let mut receives = hidden::<A>(flow, receives);
    if receives.has_bytes > receives.most_bytes {
        // It has to hold what it was offered for, until that has come.
        receives.least_bytes = socket.least_rcvbuf_bytes();
    }
    [sends, receives]
}

/// Returns the buffer, of whose bounds the verifier has forgotten how they came about. It
/// would follow each way to them with each way on: "BPF program is too large. Processed
/// 1000001 insn", Linux 6.18.
#[inline(always)]
fn hidden<A: Access>(flow: &mut Flow, buffer: Buffer) -> Buffer {
    let scratch = &raw mut flow.scratch[A::IS_SCAN as usize];
    let forget = |number: u32| {
        // SAFETY: a field of the flow's state. One program at a time has the socket's lock, and
        // one scan at a time uses the other field.
        unsafe {
            scratch.write_volatile(number);
            scratch.read_volatile()
        }
    };
    Buffer {
        flags: forget(buffer.flags),
        most_bytes: forget(buffer.most_bytes),
        kernel_bytes: forget(buffer.kernel_bytes),
        ..buffer
    }
}
