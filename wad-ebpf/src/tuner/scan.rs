//! Scans go over all flows, or all paths, at once: the agent runs them with BPF_PROG_TEST_RUN.
//!
//! A scan of flows goes over their slots, finds each socket by the address that its flow's state
//! has, and reads it where it is, in whatever network namespace. It takes no lock of a socket, so
//! that nobody can hold it up: a number may be one of a moment later than the next. A flow that is
//! there all the while is met once; one that begins or ends meanwhile may be.
//!
//! aya-obj knows no programs of type `syscall`: they are in the section `freplace/scan`, which it
//! parses like any other, and the agent loads them itself.

use core::{ffi::c_void, ptr};

use aya_ebpf::helpers::generated::bpf_for_each_map_elem;
use wad_common::{
    flow::Flow,
    scan::Header,
    slots::{FIRST_SLOTS, Slot},
    stats::PathStats,
};
use wad_ebpf::maps::{self, OUTPUT, PATHS, SLOTS};

use crate::{slots, socket::Visited};

/// Visits each flow in a scan. Others may change the flow meanwhile, each field by itself:
/// what is made of it holds until the next scan.
pub trait VisitFlow {
    fn visit(flow: &mut Flow);
}

/// Visits the counts of each path in a scan.
pub trait VisitPath {
    fn visit(stats: &mut PathStats);
}

/// The kernel calls this for an element: the map, the key, the value, and what it was told to hand
/// on. It goes on with the next one after [`GO_ON`].
type Callback<V> = extern "C" fn(*mut c_void, *const u32, *mut V, *mut c_void) -> u64;

const GO_ON: u64 = 0;
const STOP: u64 = 1;

/// Visits all flows.
#[inline(always)]
pub fn flows<V: VisitFlow>() {
    each(maps::address(&SLOTS), visit_slot::<V>);
}

/// Visits the counts of all paths.
#[inline(always)]
pub fn paths<V: VisitPath>() {
    each(maps::address(&PATHS), visit_path::<V>);
}

#[inline(always)]
fn each<V>(map: *mut c_void, callback: Callback<V>) {
    let callback = callback as *const () as *mut c_void;
    // SAFETY: the callback takes what the kernel calls it with for this map.
    unsafe { bpf_for_each_map_elem(map, callback, ptr::null_mut(), 0) };
}

extern "C" fn visit_slot<V: VisitFlow>(
    _map: *mut c_void,
    number: *const u32,
    slot: *mut Slot,
    _handed_on: *mut c_void,
) -> u64 {
    // SAFETY: an element of the map.
    let (number, cookie) =
        unsafe { (number.read_volatile(), (&raw const (*slot).cookie).read_volatile()) };
    if number % BATCH == 0 {
        if u64::from(number) >= slots::in_use() {
            return STOP;
        }
        load(number);
    }
    // One that another flow is given just now has another cookie, or none.
    if cookie != 0
        && let Some(flow) = maps::flow(cookie)
        && flow.cookie == cookie
    {
        V::visit(flow);
    }
    GO_ON
}

/// Slots whose flows are loaded together; those in use are a multiple of it.
const BATCH: u32 = 32;
const _: () = assert!(FIRST_SLOTS.is_multiple_of(BATCH as u64));

/// Loads what visits of the next slots read into the processor's cache. Most of a scan would be
/// waiting for memory, and a processor waits for several flows at once where it has little else to
/// do for each.
#[inline(never)]
fn load(first: u32) {
    for n in 0..BATCH {
        let Some(slot) = SLOTS.get(first.wrapping_add(n)) else { return };
        if slot.cookie == 0 {
            continue;
        }
        Visited::load(slot.socket);
        if let Some(flow) = maps::flow(slot.cookie) {
            let lines = ptr::from_ref(flow).cast::<[u64; 8]>();
            for line in 0..size_of::<Flow>() / size_of::<[u64; 8]>() {
                // SAFETY: within the flow. Volatile, because nothing is made of it.
                unsafe { lines.add(line).cast::<u64>().read_volatile() };
            }
        }
    }
}

extern "C" fn visit_path<V: VisitPath>(
    _map: *mut c_void,
    _policy: *const u32,
    stats: *mut PathStats,
    _handed_on: *mut c_void,
) -> u64 {
    // SAFETY: an element of the map, which the agent removes only when no scan runs. Whatever
    // others change of it meanwhile they change by atomic operations.
    V::visit(unsafe { &mut *stats });
    GO_ON
}

/// Returns the number of this scan.
#[inline(always)]
pub fn number() -> u64 {
    header().map_or(0, |header| header.scan)
}

/// Returns room for the next record, of as many bytes as the agent gave to the elements of the
/// output; None where there is none left. It counts when it is [`keep`]t.
#[inline(always)]
pub fn room<T>() -> Option<*mut T> {
    let header = header()?;
    // The header is the first.
    let room = OUTPUT.get_ptr_mut(header.written + 1);
    if room.is_none() {
        header.missing += 1;
    }
    room.map(<*mut _>::cast)
}

/// Keeps the record that was written last.
#[inline(always)]
pub fn keep() {
    if let Some(header) = header() {
        header.written += 1;
    }
}

#[inline(always)]
fn header<'a>() -> Option<&'a mut Header> {
    let header: *mut Header = OUTPUT.get_ptr_mut(0)?.cast();
    // SAFETY: all elements are large enough for it, and one scan at a time has this output.
    Some(unsafe { &mut *header })
}
