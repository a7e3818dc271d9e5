//! This is done to a flow, whichever program comes by it: it is matched, tuned,
//! changed, and let go. The larger steps are functions of their own in the kernel, too:
//! programs that come by them in two ways have them once, which more than halves the
//! tuner and the time that the verifier takes for it.

use aya_ebpf::helpers::bpf_ktime_get_ns;
use wad_common::{
    arrivals::Arrivals,
    counter::Counter,
    division::{Division, part_bytes},
    event::Kind,
    flow::{
        Asks, Counts, Flow, Outcome, Own, Role, Settings,
        option::{CONGESTION, RCVBUF, SNDBUF, UNNOTED},
    },
    growth::Room,
    policy::{ANY_USER, DIVIDES, OVERRIDES, Policy, RESUMES_KNOWN},
    process::Process,
    refused::{Refused, SocketSetting},
    saved::Resuming,
    share,
    signals::Signals,
};
use wad_ebpf::{counts, maps::FLOWS, policies};

use crate::{account, options, own::Unnoted, report, resume, slots, socket::Socket};

/// The state of the socket's connection, if that is not over.
#[inline(always)]
pub fn live<'a>(socket: &impl Socket) -> Option<&'a mut Flow> {
    socket.flow().filter(|flow| flow.outcome != Outcome::Ended as u32)
}

/// Matches a flow, gives it its state, and settles whether it is tuned.
#[inline(always)]
pub fn adopt<'a, const ADDITION: bool>(
    socket: &impl Socket,
    role: Role,
) -> Option<(&'a mut Flow, &'a Policy)> {
    let (policy, matched) = find(socket)?;
    let adopted = adopt_under::<ADDITION>(socket, role, policy, matched);
    if adopted.is_none() && !socket.is_mptcp_subflow() {
        account::count(Counter::NoStorage);
    }
    adopted
}

/// Returns the policy that a flow falls under, unless it is a probe's.
#[inline(always)]
pub fn find(socket: &impl Socket) -> Option<(&'static Policy, Match)> {
    let generation = policies::generation();
    let mut user = ANY_USER;
    let index = policies::find(generation, &socket.ends(), |set, by| {
        let owner = socket.owner(set, by);
        user = owner.user;
        owner
    })?;
    let policy = policies::policy(generation, index)?;
    if socket.is_of_probe() { None } else { Some((policy, Match { index, user })) }
}

/// The policy that a flow falls under, and by whom.
#[derive(Clone, Copy)]
pub struct Match {
    /// Index of the policy.
    pub index: u32,
    /// It goes to [`Flow::user`].
    pub user: u32,
}

/// Tunes a flow that is known to fall under a policy; None where it is a multipath subflow, or where
/// there is no room for its state.
#[inline(always)]
pub fn adopt_under<'a, const ADDITION: bool>(
    socket: &impl Socket,
    role: Role,
    policy: &'static Policy,
    matched: Match,
) -> Option<(&'a mut Flow, &'static Policy)> {
    if socket.is_mptcp_subflow() {
        account::count(Counter::MptcpSubflows);
        return None;
    }
    let flow = socket.flow_or_insert()?;
    // Of the socket's last connection, should its end have gone unseen.
    account::release(flow);
    // A scan that comes by meanwhile counts none of the two.
    flow.outcome = Outcome::Ended as u32;
    if flow.cookie == 0
        && let Some(earlier) = socket.earlier()
    {
        flow.given = earlier.given;
        flow.chosen = earlier.chosen;
        flow.own = earlier.own;
        flow.after = earlier.after;
    }
    flow.socket = socket.address();
    flow.cookie = socket.cookie();
    if ADDITION == account::FETCH && flow.slot == 0 {
        match slots::take(flow.cookie, flow.socket) {
            Some(slot) => flow.slot = slot,
            None => {
                let _ = FLOWS.remove(flow.cookie);
                return None;
            }
        }
    }
    // SAFETY: reads the clock.
    flow.matched_ns = unsafe { bpf_ktime_get_ns() };
    flow.established_ns = 0;
    flow.generation = policy.generation;
    flow.policy = matched.index;
    flow.user = matched.user;
    flow.role = role as u32;
    flow.initial_window_segments = 0;
    flow.room = Room::Cut as u32;
    flow.earlier = Counts::default();
    flow.arrivals = Arrivals::default();
    flow.refused = Refused::default();
    flow.process = Process::default();
    flow.signals = Signals::default();
    flow.resuming = Resuming::default();
    ask(socket, flow, policy);
    socket.read_buffers(&mut flow.before);
    note_choices(socket, flow);
    let stats = account::matched(matched.index);
    flow.outcome = if policy.share != share::ALL && is_left_out(socket, policy.share) {
        Outcome::Untuned
    } else {
        account::admit::<ADDITION>(flow, policy, stats)
    } as u32;
    socket.ask_for_state_changes();
    Some((flow, policy))
}

/// Whether it is not among the share of new flows that get their policy. A function of its
/// own: most policies are for all.
#[inline(never)]
pub fn is_left_out<S: Socket>(socket: &S, share: u32) -> bool {
    !socket.ends().are_in(share)
}

/// A flow is to get this. Its buffers are divided when it is admitted.
#[inline(always)]
pub fn ask(socket: &impl Socket, flow: &mut Flow, policy: &Policy) {
    flow.asks = Asks::of(policy);
    if policy.flags & OVERRIDES != 0 {
        socket.note_overridden();
    }
    // What it was given it has until it is given something else.
    let rate_flows = flow.division.rate_flows;
    let division =
        if policy.flags & DIVIDES != 0 { socket.division() } else { Division::default() };
    flow.division = Division { rate_flows, ..division };
}

/// Notes what the application has chosen by itself: what is set and was not given
/// by a policy, or is not any more as it was then.
#[inline(never)]
pub fn note_choices<S: Socket>(socket: &S, flow: &mut Flow) {
    let given = u32::from(flow.given);
    let set = socket.set_options();
    flow.chosen = flow.chosen & UNNOTED as u16 | (set & !given) as u16;
    if (given | set) & CONGESTION == 0 && given == 0 {
        return;
    }
    let mut now = Settings::default();
    socket.read_buffers(&mut now);
    socket.read_congestion(&mut now.congestion);
    // What an agent before this one gave, of which nothing else is known any more:
    // its laws are hardly an application's choice, and neither are buffers beside them.
    if !S::IS_NEW && given == 0 && now.congestion.starts_with(b"wad_") {
        flow.chosen = 0;
        flow.given = (set & (SNDBUF | RCVBUF) | UNNOTED) as u16;
        flow.own = Own::NONE;
        flow.after = now;
        return;
    }
    let after = &flow.after;
    let mut changed = 0;
    if now.sndbuf_bytes != after.sndbuf_bytes {
        changed |= SNDBUF;
    }
    if now.rcvbuf_bytes != after.rcvbuf_bytes {
        changed |= RCVBUF;
    }
    if u128::from_ne_bytes(now.congestion) != u128::from_ne_bytes(after.congestion) {
        changed |= CONGESTION;
    }
    flow.chosen |= (set & given & changed) as u16;
    flow.given = (given & !changed) as u16;
}

/// Whether its policy may set an option of a flow.
#[inline(always)]
fn may_set(flow: &Flow, option: u32) -> bool {
    flow.asks.flags & OVERRIDES != 0 || u32::from(flow.chosen) & option == 0
}

/// Sets what should hold as early as can be.
#[inline(always)]
pub fn set_before_data(socket: &impl Socket, flow: &mut Flow) {
    if !flow.is_tuned() {
        return;
    }
    Unnoted::TrafficClass.give(socket, flow);
    set_buffers(socket, flow);
}

/// Sets the buffers that are fixed. Those that grow are the kernel's at first, see
/// `growth`; but for the one to receive on a path that is known.
#[inline(never)]
pub fn set_buffers<S: Socket>(socket: &S, flow: &mut Flow) {
    if flow.asks.sndbuf_bytes != 0 && !flow.sndbuf_grows() && may_set(flow, SNDBUF) {
        let set = socket.set_sndbuf(flow.sndbuf_bytes());
        if set.is_ok() {
            flow.given |= SNDBUF as u16;
        }
        flow.refused.note(SocketSetting::Sndbuf, set);
    }
    let rcvbuf_bytes =
        if flow.rcvbuf_grows() { first_rcvbuf_bytes::<S>(flow) } else { flow.rcvbuf_bytes() };
    if rcvbuf_bytes != 0 && may_set(flow, RCVBUF) {
        let set = socket.set_rcvbuf(rcvbuf_bytes);
        if set.is_ok() {
            flow.given |= RCVBUF as u16;
        }
        flow.refused.note(SocketSetting::Rcvbuf, set);
    }
}

/// Returns the receive buffer that a new flow begins with where its path is known, so that the
/// other end may make use of that as well (RFC 9959): what the path holds, divided among its flows, of
/// which each may be one whose application reads nothing; where the policy divides, it is a part already.
/// The SYN offers all of it, as the window scale stays that for when the others have gone.
/// 0 leaves it to the kernel, as where memory is short, or that would be less.
#[inline(always)]
fn first_rcvbuf_bytes<S: Socket>(flow: &Flow) -> u32 {
    if !S::IS_NEW || flow.asks.flags & RESUMES_KNOWN == 0 {
        return 0;
    }
    let whole_bytes = flow.rcvbuf_bytes();
    let kernels_bytes = flow.before.rcvbuf_bytes / 2;
    let flows = if flow.divides() { 0 } else { counts::tuned_flows(flow.policy) };
    let bytes = part_bytes(whole_bytes, flows, 0);
    if bytes > kernels_bytes && counts::may_grow(flow) {
        let is_connecting = flow.role == Role::Active as u32 && flow.established_ns == 0;
        return if is_connecting { whole_bytes } else { bytes };
    }
    // Others may have come since the SYN.
    if u32::from(flow.given) & RCVBUF != 0 { kernels_bytes } else { 0 }
}

#[inline(never)]
pub fn establish<S: Socket>(socket: &S, flow: &mut Flow, policy: &Policy, now_ns: u64) {
    flow.established_ns = now_ns;
    socket.read_control(&mut flow.before);
    if flow.is_tuned() {
        let divides_now = S::IS_NEW && flow.divides() && flow.division.rcvbuf_flows == 0;
        if divides_now {
            flow.division.rcvbuf_flows = flow.division.sndbuf_flows;
        }
        let is_known = flow.rcvbuf_grows() && flow.asks.flags & RESUMES_KNOWN != 0;
        let has_offered_all = S::IS_NEW && is_known && flow.role == Role::Active as u32;
        if divides_now || has_offered_all {
            set_buffers(socket, flow);
        }
        set_control(socket, flow, policy);
    }
    read_back(socket, flow);
    account::opened(flow);
    report::send(socket, flow, Kind::Open);
}

/// Takes note of what came of it.
#[inline(always)]
pub fn read_back(socket: &impl Socket, flow: &mut Flow) {
    socket.read_buffers(&mut flow.after);
    socket.read_control(&mut flow.after);
    // The kernel cuts a buffer to net.core.{w,r}mem_max without a word.
    let is_cut = |bytes: u32, wanted_bytes: u32| bytes / 2 < wanted_bytes;
    let given = u32::from(flow.given);
    if !flow.is_tuned() {
        return;
    }
    if given & SNDBUF != 0
        && !flow.sndbuf_grows()
        && is_cut(flow.after.sndbuf_bytes, flow.sndbuf_bytes())
    {
        flow.refused.note_cut(SocketSetting::Sndbuf);
    }
    if given & RCVBUF != 0
        && !flow.rcvbuf_grows()
        && is_cut(flow.after.rcvbuf_bytes, flow.rcvbuf_bytes())
    {
        flow.refused.note_cut(SocketSetting::Rcvbuf);
    }
}

#[inline(always)]
pub fn set_control<S: Socket>(socket: &S, flow: &mut Flow, policy: &Policy) {
    // After a lost SYN the window is the kernel's to choose (RFC 5681 section
    // 3.1, RFC 6928 section 2).
    if S::IS_NEW && policy.initial_window_segments != 0 && socket.counts().segs_retrans == 0 {
        let set = socket.set_initial_window(policy.initial_window_segments);
        if set.is_ok() {
            flow.initial_window_segments = policy.initial_window_segments;
        }
        flow.refused.note(SocketSetting::InitialWindow, set);
    }
    options::set(socket, flow);
    // Last: a law that paces reckons with the window at its start.
    if policy.congestion[0] != 0 && may_set(flow, CONGESTION) {
        // A law of ours asks who gave it, as it begins.
        let given = flow.given;
        flow.given |= CONGESTION as u16;
        let set = socket.set_congestion(&policy.congestion);
        if set.is_err() {
            flow.given = given;
        }
        flow.refused.note(SocketSetting::Congestion, set);
    }
}

/// The socket makes another connection: what it has of the last one's policy goes, but for
/// buffers. (To take it back at each end would cost each flow what few need.)
#[inline(always)]
pub fn start_over(socket: &impl Socket) {
    if let Some(unseen) = socket.flow() {
        // Its end has gone unseen.
        account::release(unseen);
        let_go(socket, unseen, true);
    }
    let Some(earlier) = socket.earlier() else { return };
    let had = earlier.asks;
    if had.is(&Asks::default()) {
        return;
    }
    note_choices(socket, earlier);
    options::undo(socket, earlier, &had, &Asks::default());
    earlier.asks = Asks::default();
}

/// The connection is over, or is no longer its policy's. What is left of the flow's state is not
/// its own any more.
#[inline(always)]
pub fn end(socket: &impl Socket, flow: &mut Flow, kind: Kind) {
    settle(socket, flow, kind);
    resume::leave(socket, flow);
    let_go(socket, flow, matches!(kind, Kind::Leave));
}

/// Takes a flow out of the map. What it was given stays known with its socket where that may have
/// another flow.
#[inline(always)]
fn let_go(socket: &impl Socket, flow: &mut Flow, has_another: bool) {
    flow.outcome = Outcome::Ended as u32;
    if flow.given != 0 && (has_another || socket.stays_held()) {
        socket.keep(flow);
    }
    forget(flow);
}

/// Removes a flow's state from the map, and frees its slot. The removal fails where the kernel does
/// not get the lock of the map's bucket in time (Linux 6.15 and later). Then the slot stays taken, so
/// that the next recount finds the flow and tries again.
#[inline(always)]
pub fn forget(flow: &mut Flow) {
    flow.outcome = Outcome::Ended as u32;
    let slot = flow.slot;
    if FLOWS.remove(flow.cookie).is_ok() {
        slots::give_back(slot);
    }
}

#[inline(never)]
fn settle<S: Socket>(socket: &S, flow: &mut Flow, kind: Kind) {
    let counts = socket.counts().since(&flow.earlier);
    account::ended(flow, &counts, socket.state().srtt_us);
    if flow.established_ns != 0 {
        report::send(socket, flow, kind);
    }
    if !flow.is_tuned() || matches!(kind, Kind::Leave) {
        // There is nothing to take back, or it has been.
        flow.asks = Asks::default();
    }
}
