//! The maps. All are pinned, so that tuning outlives the agent.

use core::{ffi::c_void, ptr};

use aya_ebpf::{
    bindings::{BPF_F_INNER_MAP, BPF_F_NO_PREALLOC, BPF_SK_STORAGE_GET_F_CREATE},
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

/// State of the matched flows.
#[btf_map(name = "FLOWS")]
pub static FLOWS: SkStorage<Flow> = SkStorage::new();

/// Size of the ring buffer: 6,200 events, a third of a second at 20,000
/// connections per second.
pub const EVENTS_BYTES: usize = 1 << 21;

/// Events for the agent.
#[btf_map(name = "EVENTS")]
pub static EVENTS: RingBuf<Event, EVENTS_BYTES> = RingBuf::new();

/// The flow state of a socket, if it has one.
///
/// # Safety
///
/// `sk` must be a socket that the kernel gave to this program.
#[inline(always)]
#[must_use]
pub unsafe fn flow(sk: *mut c_void) -> Option<&'static mut Flow> {
    // SAFETY: as the caller vouches; the storage lives as long as the socket,
    // which outlives this run of the program, and its lock is held.
    unsafe { bpf_sk_storage_get(flows_map(), sk, ptr::null_mut(), 0).cast::<Flow>().as_mut() }
}

/// The flow state of a socket, made of zeros if it has none.
///
/// # Safety
///
/// `sk` must be a socket that the kernel gave to this program.
#[inline(always)]
#[must_use]
pub unsafe fn flow_or_insert(sk: *mut c_void) -> Option<&'static mut Flow> {
    let flags = u64::from(BPF_SK_STORAGE_GET_F_CREATE);
    // SAFETY: as above.
    unsafe { bpf_sk_storage_get(flows_map(), sk, ptr::null_mut(), flags).cast::<Flow>().as_mut() }
}

#[inline(always)]
fn flows_map() -> *mut c_void {
    ptr::from_ref(&FLOWS).cast_mut().cast()
}
