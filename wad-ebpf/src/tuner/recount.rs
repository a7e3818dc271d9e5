//! The counts of paths are held against the flows that there are, by a walk over the paths, over the
//! flows of all network namespaces, and over the paths again.

use aya_ebpf::helpers::bpf_ktime_get_ns;
use wad_common::{
    counter::Counter,
    flow::{Flow, Outcome},
    recount::{Counted, Drift, Seen},
    stats::PathStats,
};
use wad_ebpf::{
    counts::{Shared, stats},
    maps::{self, FLOWS},
};

use crate::{account, scan::scan, socket::Visited};

#[inline(always)]
fn counted(stats: &mut PathStats) -> Counted {
    Counted {
        admitted: Shared::new(&mut stats.admitted).load(),
        released: Shared::new(&mut stats.released).load(),
        opened: Shared::new(&mut stats.opened).load(),
        closed: Shared::new(&mut stats.closed).load(),
    }
}

scan!("wad_recount",
    over PATHS begin(_policy: u32, stats: PathStats) { begin_walk(stats); }
    over FLOWS visit(cookie: u64, flow: Flow) { walk(cookie, flow); }
    over PATHS finish(_policy: u32, stats: PathStats) { end_walk(stats); }
);

#[inline(always)]
fn begin_walk(stats: &mut PathStats) {
    stats.walk.before = counted(stats);
    stats.walk.seen = Seen::default();
    // Later than the counts: of what they hold, all was matched before.
    // SAFETY: reads the clock.
    stats.walk.began_ns = unsafe { bpf_ktime_get_ns() };
}

#[inline(always)]
fn walk(cookie: u64, flow: &Flow) {
    match Visited::of_flow(cookie, flow) {
        Some(socket) if !socket.is_over() && socket.has_cookie(cookie) => see(flow),
        _ => end_unseen(cookie),
    }
}

/// Ends a flow whose end nobody saw, or it would not be in the map: it is looked up, since what
/// the walk has met may have been taken out meanwhile, and be another flow's by now. That it is
/// not among the flows any more is what the end of the walk finds.
#[inline(always)]
fn end_unseen(cookie: u64) {
    let Some(flow) = maps::flow(cookie) else { return };
    if flow.cookie != cookie {
        // It is being made.
        return;
    }
    match Visited::of_flow(cookie, flow) {
        // A process may hold the socket still, and have it make another connection.
        Some(socket) if socket.is_over() => flow.outcome = Outcome::Ended as u32,
        Some(_) => {}
        None => {
            flow.outcome = Outcome::Ended as u32;
            // It is there.
            let _ = FLOWS.remove(cookie);
        }
    }
}

#[inline(always)]
fn see(flow: &Flow) {
    if flow.outcome == Outcome::Ended as u32 {
        return;
    }
    let Some(stats) = stats(flow.policy) else { return };
    let (began_ns, seen) = (stats.walk.began_ns, &mut stats.walk.seen);
    let is_tuned = flow.outcome == Outcome::Tuned as u32;
    seen.add(is_tuned, [flow.matched_ns, flow.established_ns], began_ns);
}

#[inline(always)]
fn end_walk(stats: &mut PathStats) {
    let after = counted(stats);
    let found = Drift::between(&stats.walk.before, &after, &stats.walk.seen);
    let agreed = found.agreed(&stats.walk.found);
    stats.walk.found = found.without(&agreed);
    if agreed.tuned != 0 {
        let by = agreed.tuned.unsigned_abs();
        let is_too_many = agreed.tuned > 0;
        let corrected = if is_too_many { &mut stats.released } else { &mut stats.admitted };
        Shared::new(corrected).add(by);
        Shared::new(&mut stats.drift).add(by);
        // Others have other parts of what is divided.
        account::count(Counter::Divisions);
    }
    if agreed.unseen > 0 {
        Shared::new(&mut stats.closed).add(agreed.unseen as u64);
        Shared::new(&mut stats.unseen).add(agreed.unseen as u64);
    }
}
