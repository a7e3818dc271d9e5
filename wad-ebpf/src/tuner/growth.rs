//! Buffers that grow with need, and shrink where memory is short. A flow under a law of
//! ours has its send buffer grow by itself, on its ACKs; all else is the agent's to bring
//! about. It looks at the flows' state now and then, of all network namespaces and
//! without a lock ([`wad_needs`]), and visits the sockets of those where there is
//! anything to do ([`wad_growing`]).

use aya_ebpf::helpers::generated::{bpf_ktime_get_ns, bpf_seq_write};
use wad_common::{
    flow::{
        Flow,
        option::{RCVBUF, SNDBUF},
    },
    growth::{
        Buffer, GROWS_STILL, Holding, IS_FIXED, KEEPS_BOUND, MAY_GROW, STARTS, WANTS_VISIT,
        receive_needs_bytes, send_needs_bytes,
    },
    policy::OVERRIDES,
    refused::SocketSetting,
};
use wad_ebpf::{counts, policies};

use crate::{
    account, flows,
    progress::{Context, session},
    running,
    socket::{Socket as _, Visited},
};

#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/bpf_sk_storage_map")]
pub extern "C" fn wad_needs(ctx: *const Context) -> u32 {
    let (meta, sk, flow) = Context::read(ctx);
    if flow.is_null() {
        return 0;
    }
    // SAFETY: the flow's state, which is there for as long as this run. Others may change
    // it meanwhile, each field by itself: what is made of that holds until the next look.
    let flow = unsafe { &mut *flow.cast_mut() };
    if !flow.is_tuned() {
        return 0;
    }
    let Some(socket) = Visited::of(sk).filter(Visited::can_send) else { return 0 };
    let [sndbuf, rcvbuf] = buffers(&socket, flow);
    let mut flags = 0;
    let mut wants_bytes = 0_u32;
    if let Some(buffer) = sndbuf {
        let more_bytes = buffer.wants_bytes();
        wants_bytes = more_bytes;
        flags |= still(&buffer);
        // A law of ours sees to growth on ACKs, and the sooner.
        let is_own = flow.asks.congestion.starts_with(b"wad_");
        if buffer.next_bytes().is_some() && !(is_own && more_bytes > 0) {
            flags |= WANTS_VISIT;
        }
    }
    if let Some(buffer) = rcvbuf {
        wants_bytes = wants_bytes.saturating_add(buffer.wants_bytes());
        flags |= still(&buffer);
        if buffer.next_bytes().is_some() {
            flags |= WANTS_VISIT;
        }
    }
    let [sends_bytes, receives_bytes] = socket.held_bytes();
    if sends_bytes > 0 && sends(&socket, flow.policy, session(meta)) {
        flags |= STARTS;
    }
    let holding = Holding {
        netns: socket.netns(),
        flags,
        policy: flow.policy,
        sends_bytes,
        receives_bytes,
        wants_bytes,
    };
    let bytes = size_of::<Holding>() as u32;
    // SAFETY: the kernel's own output; a record is read, which has no padding.
    unsafe { bpf_seq_write((*meta).cast(), (&raw const holding).cast_mut().cast(), bytes) };
    0
}

/// Counts a flow that sends. Returns whether it is in slow start where that depends on
/// how many do.
#[inline(always)]
fn sends(socket: &Visited, policy: u32, look: u64) -> bool {
    let Some(stats) = counts::stats(policy) else { return false };
    // SAFETY: reads the clock.
    stats.senders.count(look, unsafe { bpf_ktime_get_ns() });
    let state = socket.state();
    let is_shared = policies::policy(policies::generation(), policy)
        .is_some_and(|policy| policy.path_bytes != 0);
    is_shared && state.cwnd_segments < state.ssthresh_segments
}

#[inline(always)]
fn still(buffer: &Buffer) -> u32 {
    let grows = buffer.flags & IS_FIXED == 0 && buffer.has_bytes < buffer.most_bytes;
    if grows { GROWS_STILL } else { 0 }
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/tcp")]
pub extern "C" fn wad_growing(ctx: *const running::Context) -> u32 {
    let (_, sk) = running::Context::read(ctx);
    let Some(socket) = Visited::of(sk) else { return 0 };
    if let Some(flow) = flows::live(&socket)
        && flow.is_tuned()
        && socket.can_send()
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
    if let Some(bytes) = sends.and_then(|buffer| buffer.next_bytes()) {
        let set = socket.set_sndbuf(bytes / 2);
        took(flow, SNDBUF, set, SocketSetting::Sndbuf);
        socket.read_buffers(&mut flow.after);
        if flow.after.sndbuf_bytes < bytes / 2 * 2 {
            flow.refused.note_cut(SocketSetting::Sndbuf);
        }
    }
    if let Some(bytes) = receives.and_then(|buffer| buffer.next_bytes()) {
        let set = socket.set_rcvbuf(bytes / 2);
        took(flow, RCVBUF, set, SocketSetting::Rcvbuf);
        socket.read_buffers(&mut flow.after);
        if flow.after.rcvbuf_bytes < bytes / 2 * 2 {
            flow.refused.note_cut(SocketSetting::Rcvbuf);
        }
    }
}

#[inline(always)]
fn took(flow: &mut Flow, option: u32, set: Result<(), i32>, setting: SocketSetting) {
    if set.is_ok() {
        flow.given |= option as u16;
    }
    flow.refused.note(setting, set);
}

/// Returns the buffers, the one to send and the one to receive; None for one that is
/// not the path's to size.
#[inline(always)]
fn buffers(socket: &Visited, flow: &mut Flow) -> [Option<Buffer>; 2] {
    let locked = socket.set_options();
    let [sndbuf, rcvbuf] = socket.buffers_bytes();
    let [kernel_sndbuf, kernel_rcvbuf] = socket.autotuned_bytes();
    let state = socket.state();
    let sends = Kind {
        option: SNDBUF,
        grows: flow.sndbuf_grows(),
        asked_bytes: flow.sndbuf_bytes(),
        after_bytes: flow.after.sndbuf_bytes,
        is_refused: flow.refused.reasons[SocketSetting::Sndbuf as usize] != 0,
    };
    let receives = Kind {
        option: RCVBUF,
        grows: flow.rcvbuf_grows(),
        asked_bytes: flow.rcvbuf_bytes(),
        after_bytes: flow.after.rcvbuf_bytes,
        is_refused: flow.refused.reasons[SocketSetting::Rcvbuf as usize] != 0,
    };
    let needs_bytes = send_needs_bytes(state.cwnd_segments, state.mss_bytes);
    let sends = buffer(flow, locked, &sends, [sndbuf, kernel_sndbuf]);
    let receives = buffer(flow, locked, &receives, [rcvbuf, kernel_rcvbuf]);
    let receives = receives.map(|buffer| {
        let least_bytes = socket.least_rcvbuf_bytes();
        Buffer {
            needs_bytes: receive_needs_bytes(socket.taken_bytes(), socket.scaling_ratio()),
            // It has to hold what it was offered for, until that has come.
            most_bytes: if buffer.has_bytes > buffer.most_bytes {
                least_bytes.max(buffer.most_bytes.into()).min(buffer.has_bytes.into()) as u32
            } else {
                buffer.most_bytes
            },
            ..buffer
        }
    });
    [sends.map(|buffer| Buffer { needs_bytes, ..buffer }), receives]
}

/// What is known of one of the two beside its size.
struct Kind {
    option: u32,
    grows: bool,
    asked_bytes: u32,
    after_bytes: u32,
    is_refused: bool,
}

#[inline(always)]
fn buffer(
    flow: &mut Flow,
    locked: u32,
    kind: &Kind,
    [has_bytes, kernel_bytes]: [u32; 2],
) -> Option<Buffer> {
    let overrides = flow.asks.flags & OVERRIDES != 0;
    let is_locked = locked & kind.option != 0;
    let is_given = u32::from(flow.given) & kind.option != 0;
    // A size that somebody else has set is the application's.
    let is_ours = is_given && has_bytes == kind.after_bytes || overrides;
    if kind.asked_bytes == 0 || kind.is_refused || is_locked && !is_ours {
        return None;
    }
    if !kind.grows && !is_given {
        return None;
    }
    let cap_bytes = counts::cap_bytes();
    let path_bytes = kind.asked_bytes.saturating_mul(2);
    let most_bytes = path_bytes.min(cap_bytes);
    let mut flags = 0;
    if is_locked || flow.divides() || has_bytes > cap_bytes {
        flags |= KEEPS_BOUND;
    }
    if !kind.grows {
        flags |= IS_FIXED;
    }
    if counts::may_grow() {
        flags |= MAY_GROW;
    }
    let kernel_bytes = if is_locked { 0 } else { kernel_bytes };
    let (flags, most_bytes) = (hidden(flow, flags), hidden(flow, most_bytes));
    let kernel_bytes = hidden(flow, kernel_bytes);
    Some(Buffer { has_bytes, needs_bytes: 0, most_bytes, kernel_bytes, flags })
}

/// Returns the number, of which the verifier has forgotten how it came about. It would
/// follow each way to it with each way on: "BPF program is too large. Processed 1000001
/// insn", Linux 6.18.
#[inline(always)]
fn hidden(flow: &mut Flow, number: u32) -> u32 {
    let scratch = &raw mut flow.scratch;
    // SAFETY: a field of the flow's state, which no other program uses.
    unsafe {
        scratch.write_volatile(number);
        scratch.read_volatile()
    }
}
