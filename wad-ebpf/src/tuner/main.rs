//! The tuner: a sock_ops program that matches each new flow against the policy
//! and sets what the policy says. What a flow that runs already gets: `running`.
//!
//! Buffers are set before the SYN of a connection that this host makes, since
//! its window scale follows from them, and at establishment of one that it
//! accepts. Congestion control and initial window are set at establishment in
//! both: `tcp_init_transfer()` resets the window just before those callbacks.
//!
//! The window scale of an accepted connection goes out in the SYN-ACK, before its
//! buffers are set here. It follows from net.core.rmem_max, which the agent has
//! raised to the largest receive buffer (`tcp_select_initial_window()`). RWND_INIT
//! could ask for a larger one, but a connection made from a SYN cookie computes its
//! scale again without asking, and would misread its peer: an initial receive
//! window is bounded so that the scale never depends on it. The window clamp needs
//! no setting: `tcp_init_buffer_space()` sets it after these callbacks.
//!
//! Nothing here can refuse a connection; where a setting fails, the flow goes
//! on with the kernel's.
#![no_std]
#![no_main]
#![feature(core_intrinsics)]
#![expect(internal_features, reason = "compare and exchange, see slots.rs")]

mod account;
mod flows;
mod growth;
mod health;
mod instruments;
mod options;
mod override_options;
mod own;
mod process;
mod progress;
mod recount;
mod report;
mod resume;
mod running;
mod scan;
mod signals;
mod slots;
mod socket;
mod sockets;

use aya_ebpf::{
    bindings::{
        BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB, BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB,
        BPF_SOCK_OPS_RWND_INIT, BPF_SOCK_OPS_STATE_CB, BPF_SOCK_OPS_TCP_CONNECT_CB, BPF_TCP_CLOSE,
        BPF_TCP_FIN_WAIT1, BPF_TCP_LAST_ACK,
    },
    helpers::bpf_ktime_get_ns,
    macros::sock_ops,
    programs::SockOpsContext,
};
use wad_common::{
    event::Kind,
    flow::Role,
    policy::{DIVIDES, Owner, Policy},
    share,
};
use wad_ebpf::policies;

use crate::socket::{Calling, Socket};

#[sock_ops]
pub fn wad_tuner(ctx: SockOpsContext) -> u32 {
    tune::<{ account::FETCH }>(&ctx)
}

/// This one is for kernels before Linux 5.12.
#[sock_ops]
pub fn wad_tuner_plain(ctx: SockOpsContext) -> u32 {
    tune::<{ account::PLAIN }>(&ctx)
}

#[inline(always)]
fn tune<const ADDITION: bool>(ctx: &SockOpsContext) -> u32 {
    let op = ctx.op();
    if op == BPF_SOCK_OPS_RWND_INIT {
        set_initial_receive_window(ctx);
    } else if let Some(socket) = Calling::of(ctx) {
        match op {
            BPF_SOCK_OPS_TCP_CONNECT_CB => on_connect::<ADDITION>(&socket),
            BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB | BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB => {
                let connected = op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB;
                let role = if connected { Role::Active } else { Role::Passive };
                on_established::<ADDITION>(&socket, role);
            }
            BPF_SOCK_OPS_STATE_CB => on_state(&socket, ctx.arg(1)),
            _ => {}
        }
    }
    // Others may sit on the same cgroup: no reply is touched but for a path that
    // asks for it, and 1 lets their verdict stand.
    1
}

/// The kernel asks before a SYN or a SYN-ACK leaves, when there may be but a request and
/// no state to find the policy by (`tcp_rwnd_init_bpf()`). Not before a SYN-ACK with a
/// cookie, which offers what the kernel has for all: its request belongs to no
/// socket, hence to no cgroup (`sk_to_full_sk()`). Whose a request will be it does not
/// say: it is offered the usual where paths depend on that.
#[inline(always)]
fn set_initial_receive_window(ctx: &SockOpsContext) {
    if !policies::offers() {
        return;
    }
    let Some(policy) = initial_policy(ctx) else { return };
    let segments = match policy.initial_receive_window_segments {
        0 if policy.flags & DIVIDES != 0 => usual_initial_window(ctx),
        segments => segments,
    };
    if segments != 0 {
        ctx.set_reply(segments);
    }
}

/// Segments of 1460 bytes that the kernel lets into an untuned connection at first.
const USUAL_INITIAL_SEGMENTS: u32 = 65_535 / 1_460;

/// A connection that this host makes would offer all of its buffer with its second
/// segment, and what has been offered cannot be divided any more: it offers what an
/// untuned one does. (The MSS is not known yet.) 0 for one that is accepted, which
/// offers no more by itself.
#[inline(always)]
fn usual_initial_window(ctx: &SockOpsContext) -> u32 {
    if Calling::of(ctx).is_some() { USUAL_INITIAL_SEGMENTS } else { 0 }
}

/// Returns the policy that says what a connection offers at first: of one that this host
/// makes it has been settled by then.
#[inline(always)]
fn initial_policy(ctx: &SockOpsContext) -> Option<&'static Policy> {
    let calling = Calling::of(ctx);
    if let Some(flow) = calling.as_ref().and_then(flows::live) {
        return if flow.is_tuned() { policies::of_flow(flow) } else { None };
    }
    if calling.as_ref().is_some_and(Socket::is_of_probe) {
        return None;
    }
    let whose = |set, by| match &calling {
        Some(socket) => socket.owner(set, by),
        None => Owner::UNKNOWN,
    };
    let (generation, ends) = (policies::generation(), socket::ends(ctx));
    let policy = policies::policy(generation, policies::find(generation, &ends, whose)?)?;
    if policy.share == share::ALL || ends.are_in(policy.share) { Some(policy) } else { None }
}

#[inline(always)]
fn on_connect<const ADDITION: bool>(socket: &Calling<'_>) {
    // Before the last connection's class is taken back: that takes the route with it
    // (`__ip_sock_set_tos()`), by which the interface is known.
    let found = flows::find(socket);
    flows::start_over(socket);
    if let Some((policy, matched)) = found
        && let Some((flow, _policy)) =
            flows::adopt_under::<ADDITION>(socket, Role::Active, policy, matched)
    {
        // Kernels before Linux 5.12 do not say.
        if ADDITION == account::FETCH {
            flow.process = process::current();
        }
        // The SYN settles the window scale: it is to do for when the others have gone.
        // Divided it is when the connection is established.
        flow.division.rcvbuf_flows = 0;
        flows::set_before_data(socket, flow);
    }
}

/// One that was accepted has a state already if both ends connected to each other
/// at once (RFC 9293 section 3.5); one that connected has none if its SYN left
/// before this program was attached.
#[inline(always)]
fn on_established<const ADDITION: bool>(socket: &Calling<'_>, role: Role) {
    let (flow, policy, now_ns) = if let Some(flow) = flows::live(socket) {
        let Some(policy) = policies::of_flow(flow) else { return };
        // SAFETY: reads the clock.
        (flow, policy, unsafe { bpf_ktime_get_ns() })
    } else {
        // That was counted when it connected.
        if matches!(role, Role::Active) && socket.is_mptcp_subflow() {
            return;
        }
        let Some((flow, policy)) = flows::adopt::<ADDITION>(socket, role) else { return };
        flows::set_before_data(socket, flow);
        let now_ns = flow.matched_ns;
        (flow, policy, now_ns)
    };
    resume::take::<ADDITION>(socket, flow, policy, now_ns);
    flows::establish(socket, flow, policy, now_ns);
}

#[inline(always)]
fn on_state(socket: &Calling<'_>, state: u32) {
    if !matches!(state, BPF_TCP_FIN_WAIT1 | BPF_TCP_LAST_ACK | BPF_TCP_CLOSE) {
        return;
    }
    let Some(flow) = flows::live(socket) else { return };
    if state == BPF_TCP_CLOSE {
        flows::end(socket, flow, Kind::Close);
    } else {
        resume::on_fin(socket, flow);
    }
}

// The kernel's own helpers are for GPL-compatible programs.
#[unsafe(no_mangle)]
#[unsafe(link_section = "license")]
pub static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
