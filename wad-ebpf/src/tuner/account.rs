//! The counts that the kernel side keeps, and the bounds that rest on them.

use core::intrinsics::{AtomicOrdering, atomic_xadd, atomic_xsub};

use aya_ebpf::bindings::BPF_NOEXIST;
use wad_common::{
    counter::{Counter, Setting},
    flow::{Counts, Flow, Outcome},
    policy::Policy,
    stats::PathStats,
};
use wad_ebpf::maps::{COUNTERS, PATHS, SETTINGS};

/// How a count is added to, which a program is compiled for. A kernel that lacks
/// an instruction refuses a program that has it anywhere.
pub const FETCH: bool = true;
pub const PLAIN: bool = false;

/// A count that all processors change.
#[derive(Clone, Copy)]
struct Shared(*mut u64);

// The target has no `AtomicU64::fetch_add` (rustc takes BPF to lack what a
// compare-and-swap loop needs); the instructions themselves are there: atomic
// add with fetch, Linux 5.12.
impl Shared {
    /// What it was before. Not relaxed: of that LLVM 22 makes the older
    /// instruction, which has no result, and takes `amount` for it (seen).
    #[inline(always)]
    fn fetch_add(self, amount: u64) -> u64 {
        // SAFETY: an aligned u64 in a map, valid for the program's run.
        unsafe { atomic_xadd::<_, _, { AtomicOrdering::SeqCst }>(self.0, amount) }
    }

    /// Adds, and tells what the others had made of it. With [`PLAIN`] that may
    /// include what they add meanwhile: a bound is kept then, too, but of two at
    /// a time both may find it reached.
    #[inline(always)]
    fn add_to_others<const ADDITION: bool>(self, amount: u64) -> u64 {
        if ADDITION == FETCH {
            self.fetch_add(amount)
        } else {
            self.add(amount);
            // SAFETY: as above; an aligned load of 64 bits is a single one.
            unsafe { self.0.read_volatile() }.wrapping_sub(amount)
        }
    }

    #[inline(always)]
    fn add(self, amount: u64) {
        // SAFETY: as above.
        unsafe { atomic_xadd::<_, _, { AtomicOrdering::Relaxed }>(self.0, amount) };
    }

    #[inline(always)]
    fn sub(self, amount: u64) {
        // SAFETY: as above.
        unsafe { atomic_xsub::<_, _, { AtomicOrdering::Relaxed }>(self.0, amount) };
    }

    #[inline(always)]
    fn store(self, value: u64) {
        // SAFETY: as above; an aligned store of 64 bits is a single one.
        unsafe { self.0.write_volatile(value) };
    }
}

#[inline(always)]
pub fn count(counter: Counter) {
    if let Some(place) = counter_place(counter) {
        place.add(1);
    }
}

/// Reserves what a flow's policy takes, if the bounds allow it.
#[inline(always)]
pub fn reserve<const ADDITION: bool>(flow: &mut Flow, policy: &Policy) -> Outcome {
    if policy.observes() {
        return Outcome::Observed;
    }
    let (Some(stats), Some(reserved), Some(limit)) = (
        stats(flow.policy),
        counter_place(Counter::MemoryReserved),
        SETTINGS.get(Setting::MaxMemory as u32),
    ) else {
        return Outcome::NoMemory;
    };
    let tuned_now = shared(&mut stats.tuned_now);
    let others = tuned_now.add_to_others::<ADDITION>(1);
    if policy.max_flows != 0 && others >= policy.max_flows.into() {
        tuned_now.sub(1);
        shared(&mut stats.too_many).add(1);
        return Outcome::TooMany;
    }
    let bytes = policy.memory_bytes();
    if reserved.add_to_others::<ADDITION>(bytes) + bytes > *limit {
        reserved.sub(bytes);
        tuned_now.sub(1);
        shared(&mut stats.no_memory).add(1);
        return Outcome::NoMemory;
    }
    flow.memory_bytes = bytes;
    Outcome::Tuned
}

/// Has a tuned flow reserve what its policy takes now, or keep what it had if the
/// bound does not allow that. Whether it does.
#[inline(always)]
pub fn resize(flow: &mut Flow, policy: &Policy) -> bool {
    let (Some(reserved), Some(limit)) =
        (counter_place(Counter::MemoryReserved), SETTINGS.get(Setting::MaxMemory as u32))
    else {
        return false;
    };
    let (before, after) = (flow.memory_bytes, policy.memory_bytes());
    if after > before {
        let more = after - before;
        if reserved.fetch_add(more) + more > *limit {
            reserved.sub(more);
            if let Some(stats) = stats(flow.policy) {
                shared(&mut stats.no_memory).add(1);
            }
            return false;
        }
    } else {
        reserved.sub(before - after);
    }
    flow.memory_bytes = after;
    true
}

/// Gives back what a flow had reserved.
#[inline(always)]
pub fn release(flow: &mut Flow) {
    if !flow.is_tuned() {
        return;
    }
    if let Some(stats) = stats(flow.policy) {
        shared(&mut stats.tuned_now).sub(1);
    }
    if let Some(reserved) = counter_place(Counter::MemoryReserved) {
        reserved.sub(flow.memory_bytes);
    }
    flow.memory_bytes = 0;
}

#[inline(always)]
pub fn matched(policy: u32) {
    if stats(policy).is_none() {
        // Another processor may have made it meanwhile; either will do.
        let _ = PATHS.insert(policy, PathStats::default(), BPF_NOEXIST.into());
    }
    if let Some(stats) = stats(policy) {
        shared(&mut stats.matched).add(1);
    }
}

#[inline(always)]
pub fn opened(flow: &Flow) {
    if let Some(stats) = stats(flow.policy) {
        shared(&mut stats.opened).add(1);
        if flow.outcome == Outcome::Partly as u32 {
            shared(&mut stats.partly).add(1);
        }
    }
}

/// A flow of which all was set gets something that the kernel does not set.
#[inline(always)]
pub fn refused(policy: u32) {
    if let Some(stats) = stats(policy) {
        shared(&mut stats.partly).add(1);
    }
}

/// A flow ends, or leaves its path: what it counted is the path's.
#[inline(always)]
pub fn closed(policy: u32, counts: &Counts, srtt_us: u32) {
    let Some(stats) = stats(policy) else { return };
    shared(&mut stats.closed).add(1);
    shared(&mut stats.bytes_acked).add(counts.bytes_acked);
    shared(&mut stats.bytes_received).add(counts.bytes_received);
    shared(&mut stats.data_segs_out).add(counts.data_segs_out.into());
    shared(&mut stats.segs_retrans).add(counts.segs_retrans.into());
    shared(&mut stats.srtt_us).store(srtt_us.into());
}

#[inline(always)]
fn stats(policy: u32) -> Option<&'static mut PathStats> {
    let stats = PATHS.get_ptr_mut(policy)?;
    // SAFETY: entries are never removed while the programs run, and each field
    // is changed by atomic operations only.
    Some(unsafe { &mut *stats })
}

#[inline(always)]
fn counter_place(counter: Counter) -> Option<Shared> {
    COUNTERS.get_ptr_mut(counter as u32).map(Shared)
}

#[inline(always)]
fn shared(place: &mut u64) -> Shared {
    Shared(place)
}
