//! The tuner: a sock_ops program that matches each new flow against the policy
//! and sets what the policy says.
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
#![expect(internal_features, reason = "atomic addition, see account.rs")]

mod account;
mod report;
mod socket;

use aya_ebpf::{
    bindings::{
        BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB, BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB,
        BPF_SOCK_OPS_RWND_INIT, BPF_SOCK_OPS_STATE_CB, BPF_SOCK_OPS_TCP_CONNECT_CB, BPF_TCP_CLOSE,
    },
    helpers::bpf_ktime_get_ns,
    macros::sock_ops,
    programs::SockOpsContext,
};
use wad_common::{
    counter::Counter,
    event::Kind,
    flow::{Flow, Outcome, Role},
    policy::Policy,
};
use wad_ebpf::policies;

use crate::socket::Socket;

#[sock_ops]
pub fn wad_tuner(ctx: SockOpsContext) -> u32 {
    tune::<{ account::FETCH }>(&ctx)
}

/// The same for kernels before Linux 5.12.
#[sock_ops]
pub fn wad_tuner_plain(ctx: SockOpsContext) -> u32 {
    tune::<{ account::PLAIN }>(&ctx)
}

#[inline(always)]
fn tune<const ADDITION: bool>(ctx: &SockOpsContext) -> u32 {
    let op = ctx.op();
    if op == BPF_SOCK_OPS_RWND_INIT {
        set_initial_receive_window(ctx);
    } else if let Some(socket) = Socket::of(ctx) {
        match op {
            BPF_SOCK_OPS_TCP_CONNECT_CB => on_connect::<ADDITION>(&socket),
            BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB => on_active_established(&socket),
            BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB => on_passive_established::<ADDITION>(&socket),
            BPF_SOCK_OPS_STATE_CB if ctx.arg(1) == BPF_TCP_CLOSE => on_close(&socket),
            _ => {}
        }
    }
    // Others may sit on the same cgroup: no reply is touched but for a path that
    // asks for it, and 1 lets their verdict stand.
    1
}

/// Asked before a SYN or a SYN-ACK leaves, when there may be but a request and no
/// state to find the policy by (`tcp_rwnd_init_bpf()`). Not before a SYN-ACK with a
/// cookie, which offers what the kernel has for all: its request belongs to no
/// socket, hence to no cgroup (`sk_to_full_sk()`).
#[inline(always)]
fn set_initial_receive_window(ctx: &SockOpsContext) {
    let Some(policy) = initial_policy(ctx) else { return };
    if policy.initial_receive_window_segments != 0 {
        ctx.set_reply(policy.initial_receive_window_segments);
    }
}

/// That of a connection which this host makes has been settled by then.
#[inline(always)]
fn initial_policy(ctx: &SockOpsContext) -> Option<&'static Policy> {
    if let Some(flow) = Socket::of(ctx).and_then(|socket| live_flow(&socket)) {
        return policies::of_flow(flow);
    }
    let generation = policies::generation();
    policies::policy(generation, policies::find(generation, &socket::ends(ctx))?)
}

#[inline(always)]
fn on_connect<const ADDITION: bool>(socket: &Socket<'_>) {
    if let Some((flow, policy)) = adopt::<ADDITION>(socket, Role::Active) {
        set_before_data(socket, flow, policy);
    }
}

#[inline(always)]
fn on_active_established(socket: &Socket<'_>) {
    // A flow whose SYN left before this program was attached has no state, and
    // is left alone.
    let Some(flow) = live_flow(socket) else { return };
    let Some(policy) = policies::of_flow(flow) else { return };
    establish(socket, flow, policy);
}

#[inline(always)]
fn on_passive_established<const ADDITION: bool>(socket: &Socket<'_>) {
    // Both ends connected to each other at once (RFC 9293 section 3.5): this one
    // was matched when it did.
    if live_flow(socket).is_some() {
        return on_active_established(socket);
    }
    if let Some((flow, policy)) = adopt::<ADDITION>(socket, Role::Passive) {
        set_before_data(socket, flow, policy);
        establish(socket, flow, policy);
    }
}

#[inline(always)]
fn on_close(socket: &Socket<'_>) {
    let Some(flow) = live_flow(socket) else { return };
    account::release(flow);
    if flow.established_ns != 0 {
        account::closed(flow.policy, socket);
        report::send(socket, flow, Kind::Close);
    }
    flow.outcome = Outcome::Ended as u32;
}

/// The state of the socket's connection. A socket may make one connection after
/// another; what is left of the last is none of the next one's. (To delete it
/// would cost half as much as all of the tuning.)
#[inline(always)]
fn live_flow<'a>(socket: &Socket<'_>) -> Option<&'a mut Flow> {
    socket.flow().filter(|flow| flow.outcome != Outcome::Ended as u32)
}

/// Matches a new flow, gives it its state, and settles whether it is tuned.
#[inline(always)]
fn adopt<'a, const ADDITION: bool>(
    socket: &Socket<'_>,
    role: Role,
) -> Option<(&'a mut Flow, &'a Policy)> {
    let generation = policies::generation();
    let index = policies::find(generation, &socket.ends())?;
    let policy = policies::policy(generation, index)?;
    if socket.is_mptcp_subflow() {
        account::count(Counter::MptcpSubflows);
        return None;
    }
    let Some(flow) = socket.flow_or_insert() else {
        account::count(Counter::NoStorage);
        return None;
    };
    // Of the socket's last connection, should its end have gone unseen.
    account::release(flow);
    // SAFETY: reads the clock.
    flow.matched_ns = unsafe { bpf_ktime_get_ns() };
    flow.established_ns = 0;
    flow.generation = generation;
    flow.policy = index;
    flow.role = role as u32;
    flow.initial_window_segments = 0;
    socket.read_buffers(&mut flow.before);
    account::matched(index);
    flow.outcome = account::reserve::<ADDITION>(flow, policy) as u32;
    socket.ask_for_state_changes();
    Some((flow, policy))
}

/// What should hold as early as can be.
#[inline(always)]
fn set_before_data(socket: &Socket<'_>, flow: &mut Flow, policy: &Policy) {
    if !flow.is_tuned() {
        return;
    }
    if policy.traffic_class != 0 && socket.set_traffic_class(policy.traffic_class & 0xff).is_err() {
        flow.outcome = Outcome::Partly as u32;
    }
    if policy.sndbuf_bytes != 0 && socket.set_sndbuf(policy.sndbuf_bytes).is_err() {
        flow.outcome = Outcome::Partly as u32;
    }
    if policy.rcvbuf_bytes != 0 && socket.set_rcvbuf(policy.rcvbuf_bytes).is_err() {
        flow.outcome = Outcome::Partly as u32;
    }
}

#[inline(always)]
fn establish(socket: &Socket<'_>, flow: &mut Flow, policy: &Policy) {
    // SAFETY: reads the clock.
    flow.established_ns = unsafe { bpf_ktime_get_ns() };
    socket.read_control(&mut flow.before);
    if flow.is_tuned() {
        set_control(socket, flow, policy);
    }
    socket.read_buffers(&mut flow.after);
    socket.read_control(&mut flow.after);
    // The kernel cuts a buffer to net.core.{w,r}mem_max without a word. Before
    // Linux 6.0 it does not say what the buffers are, either.
    let is_cut = |bytes: u32, wanted_bytes: u32| bytes != 0 && bytes < 2 * wanted_bytes;
    let cut = is_cut(flow.after.sndbuf_bytes, policy.sndbuf_bytes)
        || is_cut(flow.after.rcvbuf_bytes, policy.rcvbuf_bytes);
    if cut && flow.is_tuned() {
        flow.outcome = Outcome::Partly as u32;
    }
    account::opened(flow);
    report::send(socket, flow, Kind::Open);
}

#[inline(always)]
fn set_control(socket: &Socket<'_>, flow: &mut Flow, policy: &Policy) {
    // After a lost SYN the window is the kernel's to choose (RFC 5681 section
    // 3.1, RFC 6928 section 2).
    if policy.initial_window_segments != 0 && socket.retransmitted_segments() == 0 {
        if socket.set_initial_window(policy.initial_window_segments).is_ok() {
            flow.initial_window_segments = policy.initial_window_segments;
        } else {
            flow.outcome = Outcome::Partly as u32;
        }
    }
    if policy.max_pacing_bytes_per_second != 0
        && socket.set_max_pacing_rate(policy.max_pacing_bytes_per_second).is_err()
    {
        flow.outcome = Outcome::Partly as u32;
    }
    // Last: a law that paces reckons with the window at its start.
    if policy.congestion[0] != 0 && socket.set_congestion(&policy.congestion).is_err() {
        flow.outcome = Outcome::Partly as u32;
    }
}

// The kernel's own helpers are for GPL-compatible programs.
#[unsafe(no_mangle)]
#[unsafe(link_section = "license")]
pub static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
