//! Counts that all processors change.

use core::intrinsics::{AtomicOrdering, atomic_xadd, atomic_xsub};

use aya_ebpf::{bindings::BPF_NOEXIST, helpers::bpf_ktime_get_ns};
use wad_common::{
    counter::{Counter, Setting},
    event::Kind,
    flow::Flow,
    growth::Room,
    refused::{Refusal, SocketSetting},
    stats::PathStats,
};

use crate::maps::{COUNTERS, PATHS, REFUSALS, SETTINGS};

/// A count that all processors change.
#[derive(Clone, Copy)]
pub struct Shared(*mut u64);

// The target has no `AtomicU64::fetch_add` (rustc takes BPF to lack what a
// compare-and-swap loop needs); the instructions themselves are there: atomic
// add with fetch, Linux 5.12.
impl Shared {
    #[inline(always)]
    #[must_use]
    pub const fn new(place: &mut u64) -> Self {
        Self(place)
    }

    #[inline(always)]
    #[must_use]
    pub fn of(counter: Counter) -> Option<Self> {
        COUNTERS.get_ptr_mut(counter as u32).map(Self)
    }

    /// Returns what it was before. Not relaxed: of that LLVM 22 makes the older
    /// instruction, which has no result, and takes `amount` for it (seen).
    #[inline(always)]
    pub fn fetch_add(self, amount: u64) -> u64 {
        // SAFETY: an aligned u64 in a map, valid for the program's run.
        unsafe { atomic_xadd::<_, _, { AtomicOrdering::SeqCst }>(self.0, amount) }
    }

    #[inline(always)]
    pub fn add(self, amount: u64) {
        // SAFETY: as above.
        unsafe { atomic_xadd::<_, _, { AtomicOrdering::Relaxed }>(self.0, amount) };
    }

    #[inline(always)]
    pub fn sub(self, amount: u64) {
        // SAFETY: as above.
        unsafe { atomic_xsub::<_, _, { AtomicOrdering::Relaxed }>(self.0, amount) };
    }

    #[inline(always)]
    #[must_use]
    pub fn load(self) -> u64 {
        // SAFETY: as above; an aligned load of 64 bits is a single one.
        unsafe { self.0.read_volatile() }
    }

    #[inline(always)]
    pub fn store(self, value: u64) {
        // SAFETY: as above; an aligned store of 64 bits is a single one.
        unsafe { self.0.write_volatile(value) };
    }
}

/// The counts of a path, by its policy's index.
#[inline(always)]
#[must_use]
pub fn stats(policy: u32) -> Option<&'static mut PathStats> {
    let stats = PATHS.get_ptr_mut(policy)?;
    // SAFETY: entries are never removed while the programs run, and each field
    // is changed by atomic operations only.
    Some(unsafe { &mut *stats })
}

/// The tuned flows of a path, by its policy's index.
#[inline(always)]
#[must_use]
pub fn tuned_flows(policy: u32) -> u32 {
    match stats(policy) {
        // As many do not fit into a host.
        Some(stats) => tuned_now(stats) as u32,
        None => 0,
    }
}

/// The flows of a path that send now, by its policy's index; 1 where that is not known.
#[inline(always)]
#[must_use]
pub fn senders(policy: u32) -> u32 {
    // SAFETY: reads the clock.
    let now_ns = unsafe { bpf_ktime_get_ns() };
    stats(policy).map_or(1, |stats| stats.senders.flows(now_ns))
}

#[inline(always)]
fn tuned_now(stats: &mut PathStats) -> u64 {
    // In this order: of one that comes and goes meanwhile, the coming counts.
    let released = Shared::new(&mut stats.released).load();
    Shared::new(&mut stats.admitted).load().saturating_sub(released)
}

/// Notes that a flow is refused a setting which it was not refused before, and counts it.
#[inline(always)]
pub fn refuse(flow: &mut Flow, setting: SocketSetting, error: i32) {
    if !flow.refused.are_any()
        && let Some(stats) = stats(flow.policy)
    {
        Shared::new(&mut stats.refused).add(1);
    }
    flow.refused.note(setting, Err(error));
    let reason = flow.refused.reasons[setting as usize];
    count_refusal(Refusal { policy: flow.policy, setting: setting as u16, reason });
}

/// Counts a flow among those that were refused a setting for one reason.
#[inline(always)]
pub fn count_refusal(refusal: Refusal) {
    if REFUSALS.get_ptr_mut(refusal).is_none() {
        // Another processor may have made it meanwhile; either will do.
        let _ = REFUSALS.insert(refusal, 0, BPF_NOEXIST.into());
    }
    if let Some(count) = REFUSALS.get_ptr_mut(refusal) {
        // SAFETY: entries are never removed while the programs run, and each is
        // changed by atomic operations only.
        Shared::new(unsafe { &mut *count }).add(1);
    }
}

/// Most that a buffer of a flow may have while memory is short, in bytes as the kernel
/// keeps it.
#[inline(always)]
#[must_use]
pub fn cap_bytes(flow: &Flow) -> u32 {
    match SETTINGS.get(Setting::BufferCap as u32) {
        Some(bytes) if *bytes != 0 && flow.room == Room::Cut as u32 => *bytes as u32,
        _ => u32::MAX,
    }
}

/// Whether there is memory for a flow's buffers to grow.
#[inline(always)]
#[must_use]
pub fn may_grow(flow: &Flow) -> bool {
    flow.room == Room::Free as u32
        || SETTINGS.get(Setting::HoldsGrowth as u32).is_none_or(|holds| *holds == 0)
}

/// Whether anybody wants events of this kind.
#[inline(always)]
#[must_use]
pub fn are_wanted(kind: Kind) -> bool {
    SETTINGS.get(Setting::Unwanted as u32).is_none_or(|unwanted| *unwanted & kind.bit() == 0)
}
