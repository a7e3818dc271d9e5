//! The counts of paths are held against the flows that there are, by a walk over the paths, over the
//! flows of all network namespaces, and over the paths again.
//!
//! The recount also finds flows whose close callback never ran. There are two known causes. Another
//! program on the cgroup may clear the callback's flag. And a hardened kernel may skip BPF programs
//! while init (PID 1) is the current task: `__cgroup_bpf_run_filter_sock_ops()` of such a Linux 6.18
//! compares `current->tgid` with 1, except in interrupts. In another build of it one close in twenty
//! million was missed, probably because interrupts are not excepted there.

use core::ffi::c_void;

use aya_ebpf::helpers::bpf_ktime_get_ns;
use wad_common::{
    counter::Counter,
    flow::{Flow, Outcome},
    recount::{Counted, Drift, Seen},
    stats::PathStats,
};
use wad_ebpf::{
    counts::{Shared, stats},
    maps,
};

use crate::{
    account, flows,
    scan::{self, VisitFlow, VisitPath},
    socket::Visited,
};

#[unsafe(no_mangle)]
#[unsafe(link_section = "freplace/scan")]
pub extern "C" fn wad_recount(_ctx: *mut c_void) -> u32 {
    scan::paths::<Begin>();
    scan::flows::<Count>();
    scan::paths::<Correct>();
    0
}

/// Notes the counts of each path before its flows are counted.
struct Begin;

impl VisitPath for Begin {
    #[inline(always)]
    fn visit(stats: &mut PathStats) {
        stats.walk.before = counted(stats);
        stats.walk.seen = Seen::default();
        // Later than the counts: of what they hold, all was matched before.
        // SAFETY: reads the clock.
        stats.walk.began_ns = unsafe { bpf_ktime_get_ns() };
    }
}

/// Counts each flow.
struct Count;

impl VisitFlow for Count {
    #[inline(always)]
    fn visit(flow: &mut Flow) {
        match Visited::of_flow(flow) {
            Some(socket) if socket.still_has(flow) => see(flow),
            _ => end_unseen(flow.cookie),
        }
    }
}

/// Corrects the counts of each path, where this walk and the one before it agree.
struct Correct;

impl VisitPath for Correct {
    #[inline(always)]
    fn visit(stats: &mut PathStats) {
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
}

#[inline(always)]
fn counted(stats: &mut PathStats) -> Counted {
    Counted {
        admitted: Shared::new(&mut stats.admitted).load(),
        released: Shared::new(&mut stats.released).load(),
        opened: Shared::new(&mut stats.opened).load(),
        closed: Shared::new(&mut stats.closed).load(),
    }
}

/// Ends a flow whose end nobody saw, or it would not be in the map: it is looked up once more, since
/// what the walk has met may have been taken out meanwhile, and be another flow's by now. That it
/// is not among the flows any more is what the end of the walk finds.
#[inline(always)]
fn end_unseen(cookie: u64) {
    let Some(flow) = maps::flow(cookie).filter(|flow| flow.cookie == cookie) else { return };
    match Visited::of_flow(flow) {
        // A process may hold the socket still, and have it make another connection.
        Some(socket) if socket.is_over() => flow.outcome = Outcome::Ended as u32,
        Some(_) => {}
        None => flows::forget(flow),
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
