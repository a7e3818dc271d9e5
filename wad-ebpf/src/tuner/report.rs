//! Events to the agent.

use core::ptr;

use aya_ebpf::{
    bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP},
    helpers::{bpf_ktime_get_ns, generated::bpf_ringbuf_query},
};
use wad_common::{
    counter::Counter,
    event::{Event, Kind},
    flow::Flow,
};
use wad_ebpf::{
    counts,
    maps::{self, EVENTS},
};

use crate::{account, socket::Socket};

/// The agent looks every tenth of a second. To wake it for each event would cost
/// a connection more than all else here, so that is left for when much is waiting:
/// a quarter of the buffer. Once awake it takes all that comes until nothing is left, so
/// that it is for the first events beyond that; several, should processors pass by it at once.
const WAKE_BYTES: u64 = maps::EVENTS_BYTES as u64 / 4;
const WAKES_END_BYTES: u64 = WAKE_BYTES + 16 * size_of::<Event>() as u64;

/// Sends one event, where anybody wants it, or counts it as lost where the ring buffer is
/// full.
#[inline(always)]
pub fn send(socket: &impl Socket, flow: &Flow, kind: Kind) {
    if !counts::are_wanted(kind) {
        return;
    }
    let Some(mut entry) = EVENTS.reserve(0) else {
        account::count(Counter::EventsLost);
        return;
    };
    // SAFETY: room for one event; every field is written before it is submitted.
    let event: &mut Event = unsafe { &mut *entry.as_mut_ptr() };
    event.flow = *flow;
    // SAFETY: reads the clock.
    event.time_ns = unsafe { bpf_ktime_get_ns() };
    event.kind = kind as u32;
    socket.describe(event);
    // SAFETY: a ring buffer of this program's.
    let waiting_bytes = unsafe {
        bpf_ringbuf_query(ptr::from_ref(&EVENTS).cast_mut().cast(), BPF_RB_AVAIL_DATA.into())
    };
    let is_to_wake = (WAKE_BYTES..WAKES_END_BYTES).contains(&waiting_bytes);
    let wake = if is_to_wake { BPF_RB_FORCE_WAKEUP } else { BPF_RB_NO_WAKEUP };
    entry.submit(wake.into());
}
