//! The counts that the kernel side keeps, and the bounds that rest on them.

use aya_ebpf::bindings::BPF_NOEXIST;
use wad_common::{
    counter::Counter,
    flow::{Counts, Flow, Outcome},
    policy::Policy,
    refused::{Refusal, Refused},
    stats::PathStats,
};
use wad_ebpf::{
    counts::{self, Shared, stats},
    maps::PATHS,
};

/// A way says how a count is added to, which a program is compiled for. A kernel that
/// lacks an instruction refuses a program that has it anywhere.
pub const FETCH: bool = true;
pub const PLAIN: bool = false;

/// Returns what a count was before, or was made of by others meanwhile. With
/// [`PLAIN`] a bound is kept, too, but of two at a time both may find it reached.
#[inline(always)]
pub fn add_to_others<const ADDITION: bool>(count: Shared, amount: u64) -> u64 {
    if ADDITION == FETCH {
        count.fetch_add(amount)
    } else {
        count.add(amount);
        count.load().wrapping_sub(amount)
    }
}

#[inline(always)]
pub fn count(counter: Counter) {
    if let Some(place) = Shared::of(counter) {
        place.add(1);
    }
}

/// Lets a flow have what its policy says, if the path's bound allows it.
#[inline(always)]
pub fn admit<const ADDITION: bool>(
    flow: &mut Flow,
    policy: &Policy,
    stats: Option<&mut PathStats>,
) -> Outcome {
    if policy.observes() {
        return Outcome::Observed;
    }
    let Some(stats) = stats else { return Outcome::TooMany };
    let released = Shared::new(&mut stats.released);
    let admitted = Shared::new(&mut stats.admitted);
    let before = add_to_others::<ADDITION>(admitted, 1);
    flow.resuming.admitted = (before as u32).wrapping_add(1);
    let others = before.saturating_sub(released.load());
    if policy.max_flows != 0 && others >= policy.max_flows.into() {
        released.add(1);
        Shared::new(&mut stats.too_many).add(1);
        return Outcome::TooMany;
    }
    flow.division.set_among(if flow.divides() { others as u32 + 1 } else { 0 });
    if flow.divides() {
        count(Counter::Divisions);
    }
    if flow.sndbuf_grows() || flow.rcvbuf_grows() || policy.path_bytes != 0 {
        count(Counter::LookedAt);
    }
    Outcome::Tuned
}

/// Lets a flow go: others may come in its place.
#[inline(always)]
pub fn release(flow: &Flow) {
    if flow.is_tuned()
        && let Some(stats) = stats(flow.policy)
    {
        release_from(flow, stats);
    }
}

#[inline(always)]
fn release_from(flow: &Flow, stats: &mut PathStats) {
    Shared::new(&mut stats.released).add(1);
    if flow.divides() {
        count(Counter::Divisions);
    }
}

/// It is not on the stack, which is short of room.
const NO_STATS: &PathStats = &PathStats::NONE;

/// Counts a flow, and returns the counts of its path.
#[inline(always)]
pub fn matched(policy: u32) -> Option<&'static mut PathStats> {
    let stats = counts::stats(policy).or_else(|| {
        // Another processor may have made it meanwhile; either will do.
        let _ = PATHS.insert(policy, NO_STATS, BPF_NOEXIST.into());
        counts::stats(policy)
    })?;
    Shared::new(&mut stats.matched).add(1);
    Some(stats)
}

#[inline(always)]
pub fn opened(flow: &Flow) {
    if let Some(stats) = stats(flow.policy) {
        Shared::new(&mut stats.opened).add(1);
    }
    refused(flow, &Refused::default());
}

/// Counts what a flow is refused now and was not `before`.
#[inline(always)]
pub fn refused(flow: &Flow, before: &Refused) {
    if !flow.refused.are_any() {
        return;
    }
    if !before.are_any()
        && let Some(stats) = stats(flow.policy)
    {
        Shared::new(&mut stats.refused).add(1);
    }
    for (setting, (reason, had)) in flow.refused.reasons.iter().zip(&before.reasons).enumerate() {
        if *reason != 0 && reason != had {
            count_refusal(flow.policy, setting as u32, (*reason).into());
        }
    }
}

/// A function of its own: the loop above has it eight times.
#[inline(never)]
fn count_refusal(policy: u32, setting: u32, reason: u32) {
    counts::count_refusal(Refusal { policy, setting: setting as u16, reason: reason as u16 });
}

/// A flow ends, or leaves its path: others may come in its place, and what it counted is
/// the path's, if it was established.
#[inline(always)]
pub fn ended(flow: &Flow, counts: &Counts, srtt_us: u32) {
    let Some(stats) = stats(flow.policy) else { return };
    if flow.is_tuned() {
        release_from(flow, stats);
    }
    if flow.established_ns == 0 {
        return;
    }
    Shared::new(&mut stats.closed).add(1);
    Shared::new(&mut stats.bytes_acked).add(counts.bytes_acked);
    Shared::new(&mut stats.bytes_received).add(counts.bytes_received);
    Shared::new(&mut stats.data_segs_out).add(counts.data_segs_out.into());
    Shared::new(&mut stats.segs_retrans).add(counts.segs_retrans.into());
    Shared::new(&mut stats.srtt_us).store(srtt_us.into());
}
