//! Events to the agent.

use aya_ebpf::helpers::bpf_ktime_get_ns;
use wad_common::{
    counter::Counter,
    event::{Event, Kind},
    flow::Flow,
};
use wad_ebpf::maps::EVENTS;

use crate::{account, socket::Socket};

/// Sends one event, or counts it as lost where the ring buffer is full.
#[inline(always)]
pub fn send(socket: &Socket<'_>, flow: &Flow, kind: Kind) {
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
    event.reserved = 0;
    socket.describe(event);
    entry.submit(0);
}
