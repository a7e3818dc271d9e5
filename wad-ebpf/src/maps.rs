//! The maps. All but [`OUTPUT`] are pinned, so that tuning outlives the agent.

use core::{ffi::c_void, ptr};

use aya_ebpf::{
    bindings::{BPF_F_INNER_MAP, BPF_F_MMAPABLE, BPF_F_NO_PREALLOC, BPF_SK_STORAGE_GET_F_CREATE},
    btf_maps::{Array, ArrayOfMaps, HashMap, LpmTrie, LruHashMap, RingBuf, SkStorage},
    helpers::generated::bpf_sk_storage_get,
    macros::btf_map,
};
use wad_common::{
    counter::{Counter, Setting},
    event::Event,
    flow::Flow,
    growth::Holder,
    policy::{INTERFACE_BYTES, MAX_PATHS, Policy, Rule, RuleRun},
    refused::{MAX_REFUSALS, Refusal},
    saved::{Endpoint, Saved},
    slots::Slot,
    stats::PathStats,
};

/// Remote prefixes, IPv4 mapped into IPv6.
pub type Prefixes = LpmTrie<[u8; 16], RuleRun, 1>;
/// The rules of all prefixes, run after run.
pub type Rules = Array<Rule, 1, { BPF_F_INNER_MAP as usize }>;
/// The policies, by index.
pub type Policies = Array<Policy, 1, { BPF_F_INNER_MAP as usize }>;

/// The cgroups that fit patterns of paths, by their numbers, with a bit for each pattern.
pub type Cgroups = HashMap<u64, u64, 1, { BPF_F_NO_PREALLOC as usize }>;

/// Names of interfaces, with a bit for each pattern that they fit. A whole name has its final
/// zero.
pub type Interfaces = LpmTrie<[u8; INTERFACE_BYTES], u64, 1>;

// Two policy sets: the lowest bit of the generation says which is in force. The
// agent makes the inner maps, each as large as its set.

#[btf_map(name = "PREFIX_SETS")]
pub static PREFIX_SETS: ArrayOfMaps<Prefixes, 2> = ArrayOfMaps::new();

#[btf_map(name = "RULE_SETS")]
pub static RULE_SETS: ArrayOfMaps<Rules, 2> = ArrayOfMaps::new();

#[btf_map(name = "POLICY_SETS")]
pub static POLICY_SETS: ArrayOfMaps<Policies, 2> = ArrayOfMaps::new();

#[btf_map(name = "CGROUP_SETS")]
pub static CGROUP_SETS: ArrayOfMaps<Cgroups, 2> = ArrayOfMaps::new();

#[btf_map(name = "INTERFACE_SETS")]
pub static INTERFACE_SETS: ArrayOfMaps<Interfaces, 2> = ArrayOfMaps::new();

/// Indexed by [`Setting`].
#[btf_map(name = "SETTINGS")]
pub static SETTINGS: Array<u64, { Setting::COUNT as usize }> = Array::new();

/// Indexed by [`Counter`].
#[btf_map(name = "COUNTERS")]
pub static COUNTERS: Array<u64, { Counter::COUNT as usize }> = Array::new();

/// Statistics of the paths that were used, by policy index.
#[btf_map(name = "PATHS")]
pub static PATHS: HashMap<u32, PathStats, { MAX_PATHS as usize }, { BPF_F_NO_PREALLOC as usize }> =
    HashMap::new();

/// Flows that were refused a setting, by path, setting and reason.
#[btf_map(name = "REFUSALS")]
pub static REFUSALS: HashMap<
    Refusal,
    u64,
    { MAX_REFUSALS as usize },
    { BPF_F_NO_PREALLOC as usize },
> = HashMap::new();

/// The holders who have their part of memory while it is short, with the `Room` that their
/// flows have.
#[btf_map(name = "HELD")]
pub static HELD: HashMap<Holder, u32, { MAX_PATHS as usize }, { BPF_F_NO_PREALLOC as usize }> =
    HashMap::new();

/// It keeps what is saved of the capacity of paths, by the ends of their flows. The least recently used
/// make room.
#[btf_map(name = "SAVED")]
pub static SAVED: LruHashMap<Endpoint, Saved, 8_192> = LruHashMap::new();

/// Flows that the map of them has room for, where the agent does not say otherwise.
const USUAL_FLOWS: usize = 1 << 17;

/// State of the matched flows, by the cookies of their sockets.
#[btf_map(name = "FLOWS")]
pub static FLOWS: HashMap<u64, Flow, USUAL_FLOWS, { BPF_F_NO_PREALLOC as usize }> = HashMap::new();

/// The slots of the flows. Scans go over these: over the buckets of [`FLOWS`] they would take
/// milliseconds where there is hardly a flow.
#[btf_map(name = "SLOTS")]
pub static SLOTS: Array<Slot, { 2 * USUAL_FLOWS }> = Array::new();

/// Keeps what a socket was given for its latest flow, for the next connection that it makes: only of
/// sockets that a process holds still when their connection has ended.
#[btf_map(name = "EARLIER")]
pub static EARLIER: SkStorage<Flow> = SkStorage::new();

/// The cookies of sockets whose policy overrides their options: programs at setsockopt(2) have
/// no other way to find the flow.
#[btf_map(name = "OVERRIDDEN")]
pub static OVERRIDDEN: SkStorage<u64> = SkStorage::new();

/// The output of a scan. The agent makes a map of its own for each: its elements have the
/// size of that scan's records, but for the first, the [`Header`](wad_common::scan::Header).
#[btf_map(name = "OUTPUT")]
pub static OUTPUT: Array<[u64; 2], 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// Size of the ring buffer: 4,100 events, a fifth of a second at 20,000
/// connections per second.
pub const EVENTS_BYTES: usize = 1 << 21;

/// Events for the agent.
#[btf_map(name = "EVENTS")]
pub static EVENTS: RingBuf<Event, EVENTS_BYTES> = RingBuf::new();

/// The state of the flow whose socket has this cookie.
#[inline(always)]
#[must_use]
pub fn flow(cookie: u64) -> Option<&'static mut Flow> {
    let flow = FLOWS.get_ptr_mut(cookie)?;
    // SAFETY: programs that change a flow have the lock of its socket, but for scans, which change
    // fields that are theirs, each by itself. An element that is taken out meanwhile stays memory
    // of this map for as long as the program's run.
    Some(unsafe { &mut *flow })
}

/// Returns what a socket keeps in this map; null if it keeps nothing.
///
/// # Safety
///
/// `sk` must be a socket that the kernel gave to this program.
#[inline(always)]
#[must_use]
pub unsafe fn kept<T>(map: &'static SkStorage<T>, sk: *mut c_void) -> *mut T {
    // SAFETY: as the caller vouches; the storage lives as long as the socket, which outlives this
    // run of the program.
    unsafe { bpf_sk_storage_get(address(map), sk, ptr::null_mut(), 0).cast() }
}

/// Returns the same, made of zeros if it keeps nothing; null where there is no memory.
///
/// # Safety
///
/// As of [`kept`].
#[inline(always)]
#[must_use]
pub unsafe fn kept_or_new<T>(map: &'static SkStorage<T>, sk: *mut c_void) -> *mut T {
    let flags = u64::from(BPF_SK_STORAGE_GET_F_CREATE);
    // SAFETY: as above.
    unsafe { bpf_sk_storage_get(address(map), sk, ptr::null_mut(), flags).cast() }
}

/// Returns the address of a map, for helpers.
#[inline(always)]
#[must_use]
pub const fn address<T>(map: &'static T) -> *mut c_void {
    ptr::from_ref(map).cast_mut().cast()
}
