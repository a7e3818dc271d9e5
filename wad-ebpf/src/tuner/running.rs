//! Flows that run already: an iterator over the sockets of a network namespace,
//! which the agent reads when it starts and when the policy has changed.
//!
//! A flow that matches and has no state gets one, and all that can be changed
//! while it runs: not its window scale, nor its initial windows. A flow with a
//! state gets what its policy asks for now.

use core::ffi::c_void;

use aya_ebpf::{bindings::BPF_TCP_CLOSE, helpers::generated::bpf_seq_write};
use wad_common::{
    event::Kind,
    flow::{Asks, Flow, Outcome, Role, Visit},
    policy::{ANY_USER, BY_INTERFACE, NO_PATH, Policy},
    refused::Refused,
    share,
};
use wad_ebpf::{counts, policies};

use crate::{
    account::{self, FETCH},
    flows::{self, Match},
    growth, options,
    own::Unnoted,
    report,
    socket::{Socket as _, Visited},
    sockets::Context,
};

#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/tcp")]
pub extern "C" fn wad_running(ctx: *const Context) -> u32 {
    let (meta, sk) = Context::read(ctx);
    let Some(socket) = Visited::of(sk) else { return 0 };
    if let Some(done) = visit(&socket) {
        tell(&socket, done);
        let byte = done as u8;
        // SAFETY: as above; one byte is read.
        unsafe { bpf_seq_write((*meta).cast(), (&raw const byte).cast(), 1) };
    }
    0
}

/// `inet_sock_set_state(sk, oldstate, newstate)`, for kernels that have no callback
/// at the end of a flow that ran already: attached to those only.
#[unsafe(no_mangle)]
#[unsafe(link_section = "tp_btf/inet_sock_set_state")]
pub extern "C" fn wad_ended(ctx: *const u64) -> u32 {
    // SAFETY: the tracepoint's arguments; the verifier checks the loads.
    let (sk, state) = unsafe { (ctx.read_volatile(), ctx.add(2).read_volatile()) };
    // An `int`: the rest of the register is not defined.
    if state as u32 == BPF_TCP_CLOSE
        && let Some(socket) = Visited::of(sk as *mut c_void)
        && let Some(flow) = flows::live(&socket)
    {
        flows::end(&socket, flow, Kind::Close);
    }
    0
}

#[inline(always)]
fn visit(socket: &Visited) -> Option<Visit> {
    // A multipath subflow was counted when it was made, or is counted nowhere: each
    // visit would be one more.
    if !socket.can_send() || !socket.is_in_cgroup() || socket.is_mptcp_subflow() {
        return None;
    }
    let generation = policies::generation();
    // Not an Option: its number is read where there is none, too. "invalid read from
    // stack R10 off=-200 size=4", Linux 6.1.
    let mut user = match flows::live(socket) {
        // Whose it was at first it is, whoever has accepted it.
        Some(flow) => flow.user,
        None => ANY_USER,
    };
    let whose = |set, by| {
        let mut owner = socket.owner(set, by);
        if user != ANY_USER {
            owner.user = user;
        }
        user = owner.user;
        owner
    };
    let index = policies::find(generation, &socket.ends(), whose).unwrap_or(NO_PATH);
    if let Some(flow) = flows::live(socket) {
        // One that was matched, but whose establishment found no policy, is begun
        // anew.
        let stays = index == flow.policy || is_lost(socket, generation, flow.policy);
        if stays && flow.outcome == Outcome::Untuned as u32 {
            // What it has was settled when it was made.
            return None;
        }
        if stays && flow.established_ns != 0 {
            let policy = policies::policy(generation, flow.policy)?;
            return change(socket, flow, policy);
        }
        if flow.is_tuned() {
            flows::note_choices(socket, flow);
            let had = flow.asks;
            options::undo(socket, flow, &had, &Asks::default());
        }
        flows::end(socket, flow, Kind::Leave);
        if index == NO_PATH {
            return Some(Visit::Left);
        }
    }
    let policy = policies::policy(generation, index)?;
    if socket.is_of_probe() {
        return None;
    }
    let (flow, policy) =
        flows::adopt_under::<FETCH>(socket, Role::Running, policy, Match { index, user })?;
    flow.earlier = socket.counts();
    flows::set_before_data(socket, flow);
    let now_ns = flow.matched_ns;
    flows::establish(socket, flow, policy, now_ns);
    Some(Visit::Adopted)
}

/// Whether it is not known by which device it leaves until its next packet does, where that
/// matters: it stays on this path, if that is still there. A function of its own, which is
/// looked through once: of a flag the verifier would follow all that comes after it twice.
#[inline(never)]
fn is_lost(socket: &Visited, generation: u64, index: u32) -> bool {
    !socket.has_route()
        && policies::depends_on(generation, &socket.ends()) & BY_INTERFACE != 0
        && policies::policy(generation, index).is_some()
}

/// Sends an event of a change. Those that come or leave have theirs.
#[inline(always)]
fn tell(socket: &Visited, done: Visit) {
    let kind = match done {
        Visit::Changed => Kind::Change,
        Visit::Divided => Kind::Divide,
        Visit::Adopted | Visit::Left => return,
    };
    if let Some(flow) = flows::live(socket) {
        report::send(socket, flow, kind);
    }
}

/// Gives a flow what its policy asks for now, if that is anything else. Parameters of
/// its law the law reads by itself.
#[inline(always)]
fn change(socket: &Visited, flow: &mut Flow, policy: &Policy) -> Option<Visit> {
    let asks = Asks::of(policy);
    let has_parameters = takes_parameters(flow, policy);
    flow.generation = policy.generation;
    if flow.asks.is(&asks) {
        // What else there is to be done comes with the next visit.
        return if has_parameters { Some(Visit::Changed) } else { divide(socket, flow) };
    }
    if flow.outcome == Outcome::Observed as u32
        && policy.share != share::ALL
        && flows::is_left_out(socket, policy.share)
    {
        // It follows when its policy is for all again.
        return None;
    }
    let had = flow.asks;
    if policy.observes() {
        if flow.is_tuned() {
            flows::note_choices(socket, flow);
            options::undo(socket, flow, &had, &asks);
        }
        account::release(flow);
        flow.asks = asks;
        flow.refused = Refused::default();
        flow.outcome = Outcome::Observed as u32;
        return Some(Visit::Changed);
    }
    flows::ask(socket, flow, policy);
    if flow.is_tuned() {
        flow.division.set_among(flows_to_divide_among(flow));
        flows::note_choices(socket, flow);
        options::undo(socket, flow, &had, &asks);
    } else {
        flow.outcome = account::admit::<FETCH>(flow, policy, counts::stats(flow.policy)) as u32;
        if !flow.is_tuned() {
            return None;
        }
        flows::note_choices(socket, flow);
    }
    let was_refused = flow.refused;
    flow.refused = Refused::default();
    flows::set_before_data(socket, flow);
    flows::set_control(socket, flow, policy);
    flows::read_back(socket, flow);
    growth::follow(socket, flow);
    account::refused(flow, &was_refused);
    Some(Visit::Changed)
}

/// Whether its policy has other parameters of laws than when the flow was visited last,
/// as far as the set of that time is still there.
#[inline(always)]
fn takes_parameters(flow: &Flow, policy: &Policy) -> bool {
    if !flow.is_tuned() || flow.generation == policy.generation {
        return false;
    }
    match policies::of_flow(flow) {
        Some(before) => before.control != policy.control,
        None => false,
    }
}

/// 0 where what its path has is all its own.
#[inline(always)]
fn flows_to_divide_among(flow: &Flow) -> u32 {
    if flow.divides() { counts::tuned_flows(flow.policy) } else { 0 }
}

/// Gives a flow its part of what is divided, if others have come or gone. A receive
/// buffer that shrinks goes on with it at later looks ([`growth`]).
#[inline(always)]
fn divide(socket: &Visited, flow: &mut Flow) -> Option<Visit> {
    let flows = flows_to_divide_among(flow);
    if !flow.is_tuned() || flow.division.is_among(flows) {
        return None;
    }
    flow.division.set_among(flows);
    flows::note_choices(socket, flow);
    let was_refused = flow.refused;
    flows::set_buffers(socket, flow);
    Unnoted::MaxPacing.give(socket, flow);
    socket.read_buffers(&mut flow.after);
    growth::follow(socket, flow);
    account::refused(flow, &was_refused);
    Some(Visit::Divided)
}
