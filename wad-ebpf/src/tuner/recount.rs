//! The counts of paths are held against the flows that there are, in three runs: over
//! the paths, over the flows of all network namespaces, and over the paths again. None
//! of them says anything to the agent, so that each is one walk that skips nothing: a
//! run whose output is read in parts goes on by counting places, which others change.

use core::ffi::c_void;

use aya_ebpf::helpers::bpf_ktime_get_ns;
use wad_common::{
    counter::Counter,
    flow::Outcome,
    recount::{Counted, Drift, Seen},
    stats::PathStats,
};
use wad_ebpf::counts::{Shared, stats};

use crate::{account, progress, socket::Visited};

/// `struct bpf_iter__bpf_map_elem`.
#[repr(C)]
pub struct Context {
    meta: *const c_void,
    map: *const c_void,
    /// Index of the policy; null at the end.
    key: *const u32,
    /// Null at the end.
    stats: *mut PathStats,
}

/// Returns the counts of the path that a run over the paths is at.
#[inline(always)]
fn of_path<'a>(ctx: *const Context) -> Option<&'a mut PathStats> {
    // SAFETY: the kernel's own argument; the verifier checks the load. The entry stays
    // for the program's run, and whatever others change of it they change by atomic
    // operations.
    unsafe { (&raw const (*ctx).stats).read_volatile().as_mut() }
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

#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/bpf_map_elem")]
pub extern "C" fn wad_walk_begins(ctx: *const Context) -> u32 {
    if let Some(stats) = of_path(ctx) {
        stats.walk.before = counted(stats);
        stats.walk.seen = Seen::default();
        // Later than the counts: of what they hold, all was matched before.
        // SAFETY: reads the clock.
        stats.walk.began_ns = unsafe { bpf_ktime_get_ns() };
    }
    0
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/bpf_sk_storage_map")]
pub extern "C" fn wad_walk(ctx: *const progress::Context) -> u32 {
    let (_, sk, flow) = progress::Context::read(ctx);
    if flow.is_null() {
        return 0;
    }
    macro_rules! of_flow {
        ($field:ident) => {
            // SAFETY: the flow's state, which is there for as long as this run.
            unsafe { (&raw const (*flow).$field).read_volatile() }
        };
    }
    let outcome = of_flow!(outcome);
    if outcome == Outcome::Ended as u32 {
        return 0;
    }
    let Some(socket) = Visited::of(sk) else { return 0 };
    if socket.is_over() {
        // Nobody saw its end, or this would be noted: it is counted no more, and this is
        // what the run after this one finds.
        // SAFETY: as above; a store of 32 bits is a single one.
        unsafe { (&raw mut (*flow.cast_mut()).outcome).write_volatile(Outcome::Ended as u32) };
        return 0;
    }
    let Some(stats) = stats(of_flow!(policy)) else { return 0 };
    let (began_ns, seen) = (stats.walk.began_ns, &mut stats.walk.seen);
    let matched_ns = of_flow!(matched_ns);
    let established_ns = of_flow!(established_ns);
    seen.add(outcome == Outcome::Tuned as u32, [matched_ns, established_ns], began_ns);
    0
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/bpf_map_elem")]
pub extern "C" fn wad_walk_ends(ctx: *const Context) -> u32 {
    let Some(stats) = of_path(ctx) else { return 0 };
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
    0
}
