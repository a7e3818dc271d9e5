//! The tuner's part of Careful Resume (RFC 9959): what is saved of a path's capacity is given
//! to one flow at a time, and what a flow has observed is saved at its end. The jump itself is
//! the law's.

use aya_ebpf::{bindings::BPF_NOEXIST, helpers::bpf_ktime_get_ns};
use wad_common::{
    flow::Flow,
    policy::{Policy, RESUMES_KNOWN},
    saved::{AtEnd, Capacity, Endpoint, Observed, Resuming, Saved, Use},
};
use wad_ebpf::{counts::Shared, maps::SAVED, policies};

use crate::{
    account,
    socket::{Socket, Visited},
};

const SECOND_NS: u64 = 1_000_000_000;

/// It is not on the stack, which is short of room.
const NOTHING: &Saved = &Saved {
    saved_ns: 0,
    users: 0,
    used_ns: 0,
    rests_until_ns: 0,
    bytes: 0,
    rtt_us: 0,
    failures: 0,
    is_least: 0,
};

/// Gives a new flow what is known of its path, if no other flow has it.
#[inline(always)]
pub fn take<const ADDITION: bool>(
    socket: &impl Socket,
    flow: &mut Flow,
    policy: &Policy,
    now_ns: u64,
) {
    if policy.resume_lifetime_s != 0 && flow.is_tuned() {
        take_of::<ADDITION, _>(socket, flow, policy, now_ns);
    }
}

/// A function of its own: the verifier would follow all that comes after it with each way
/// through it.
#[inline(never)]
fn take_of<const ADDITION: bool, S: Socket>(
    socket: &S,
    flow: &mut Flow,
    policy: &Policy,
    now_ns: u64,
) {
    flow.resuming.has = Use::Observes as u32;
    // Congestion before the first segment (RFC 9959, Reconnaissance): of a handshake.
    if socket.counts().segs_retrans != 0 {
        return;
    }
    let Some(saved) = saved(&endpoint(socket)) else { return };
    let Some(known) = known(saved, policy, now_ns) else { return };
    let users = Shared::new(&mut saved.users);
    // Who has it leaves 0: to take one's own addition back could come after that.
    if account::add_to_others::<ADDITION>(users, 1) != 0 {
        if saved.is_abandoned(now_ns) {
            // The next one has it.
            users.store(0);
        }
        return;
    }
    saved.used_ns = now_ns;
    let Capacity { bytes, rtt_us, until_s } = known;
    flow.resuming = Resuming { bytes, rtt_us, until_s, has: Use::Has as u32, ..flow.resuming };
}

/// Ends the Observing phase of an idle flow before its FIN is sent. The kernel halves the window of a
/// flow that has sent nothing for an RTO when the FIN leaves (`tcp_cwnd_application_limited()`), so at
/// the close it would prove too little. A flow with data in flight is observed at its close.
#[inline(always)]
pub fn on_fin(socket: &impl Socket, flow: &mut Flow) {
    if flow.resuming.has != Use::None as u32
        && Visited::of(socket.sk()).is_some_and(|socket| !socket.sends())
    {
        leave_of(socket, flow);
    }
}

/// Lets others have it, and saves what the flow has observed.
#[inline(always)]
pub fn leave(socket: &impl Socket, flow: &mut Flow) {
    if flow.resuming.has != Use::None as u32 {
        leave_of(socket, flow);
    }
}

/// A function of its own, for the same reason.
#[inline(never)]
fn leave_of<S: Socket>(socket: &S, flow: &mut Flow) {
    let has = flow.resuming.has;
    flow.resuming = Resuming::default();
    let Some(saved) = saved(&endpoint(socket)) else { return };
    // SAFETY: reads the clock.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    if has != Use::Observes as u32 {
        Shared::new(&mut saved.users).store(0);
    }
    if has == Use::Failed as u32 {
        saved.fail(now_ns);
        return;
    }
    if has == Use::Jumped as u32 {
        saved.succeed();
    }
    let counts = socket.counts().since(&flow.earlier);
    let state = socket.state();
    let marked_segments = Visited::of(socket.sk()).map_or(0, |socket| socket.marked_segments());
    let observed = Observed::at_end(&AtEnd {
        cwnd_segments: state.cwnd_segments,
        ssthresh_segments: state.ssthresh_segments,
        mss_bytes: state.mss_bytes,
        min_rtt_us: state.min_rtt_us,
        had_congestion: counts.segs_retrans != 0 || marked_segments != 0,
    });
    if let Some(observed) = observed.filter(|observed| counts.bytes_acked > observed.bytes.into())
        && let Some(policy) = policies::of_flow(flow)
    {
        saved.save(observed, now_ns, lifetime_ns(policy));
    }
}

#[inline(always)]
fn known(saved: &Saved, policy: &Policy, now_ns: u64) -> Option<Capacity> {
    let lifetime_ns = lifetime_ns(policy);
    let known = saved.known(now_ns, lifetime_ns);
    let is_told = policy.flags & RESUMES_KNOWN != 0 && policy.path_bytes != 0;
    // What flows have seen goes before what is told, unless they have seen a part of it only.
    let has_better =
        known.is_some_and(|known| saved.is_least == 0 || known.bytes >= policy.path_bytes);
    if has_better || !is_told || saved.rests(now_ns) {
        return known;
    }
    Some(Capacity::until(now_ns.saturating_add(lifetime_ns), policy.path_bytes, policy.path_rtt_us))
}

#[inline(always)]
fn lifetime_ns(policy: &Policy) -> u64 {
    u64::from(policy.resume_lifetime_s) * SECOND_NS
}

/// Returns what is kept for two ends, which is nothing at first.
#[inline(always)]
fn saved(endpoint: &Endpoint) -> Option<&'static mut Saved> {
    let saved = SAVED.get_ptr_mut(endpoint).or_else(|| {
        // Another processor may have made it meanwhile; either will do.
        let _ = SAVED.insert(endpoint, NOTHING, BPF_NOEXIST.into());
        SAVED.get_ptr_mut(endpoint)
    })?;
    // SAFETY: one that has to make room while this runs is another's then, to whom this is
    // a wrong number at worst.
    Some(unsafe { &mut *saved })
}

#[inline(always)]
fn endpoint(socket: &impl Socket) -> Endpoint {
    let ends = socket.ends();
    let netns = Visited::of(socket.sk()).map_or(0, |socket| socket.netns());
    Endpoint::of(ends.remote, ends.local, netns)
}
