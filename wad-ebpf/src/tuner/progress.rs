//! The flows of the paths tell this of them: an iterator over the flows' state, in
//! all network namespaces at once, which the agent reads now and then. It takes no lock of
//! a socket: a number may be one of a moment later than the next. It changes nothing but
//! the most that arrived, which begins anew with each reading.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::{bpf_jiffies64, bpf_seq_write};
use wad_common::{
    flow::{Flow, Outcome},
    progress::Progress,
};

use crate::socket::{Socket as _, Visited};

/// `struct bpf_iter__bpf_sk_storage_map`.
#[repr(C)]
pub struct Context {
    meta: *const *mut c_void,
    map: *mut c_void,
    sk: *mut c_void,
    flow: *const Flow,
}

impl Context {
    /// A `struct bpf_iter_meta`, whose first member is the output; the socket and its
    /// state, which both are null at the end.
    #[inline(always)]
    pub fn read(ctx: *const Self) -> (*const *mut c_void, *mut c_void, *const Flow) {
        // SAFETY: the kernel's own arguments; the verifier checks the loads.
        unsafe {
            (
                (&raw const (*ctx).meta).read_volatile(),
                (&raw const (*ctx).sk).read_volatile(),
                (&raw const (*ctx).flow).read_volatile(),
            )
        }
    }
}

/// Returns the number of this reading of an iterator, which no other has: the second
/// member of its `struct bpf_iter_meta`.
#[inline(always)]
pub fn session(meta: *const *mut c_void) -> u64 {
    // SAFETY: the kernel's own arguments; the verifier checks the load.
    unsafe { meta.cast::<u64>().add(1).read_volatile() }
}

#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/bpf_sk_storage_map")]
pub extern "C" fn wad_progress(ctx: *const Context) -> u32 {
    let (meta, sk, flow) = Context::read(ctx);
    if flow.is_null() {
        return 0;
    }
    // SAFETY: the flow's state, which is there for as long as this run. Others may change
    // it meanwhile, each field by itself.
    let flow = unsafe { &mut *flow.cast_mut() };
    if flow.outcome == Outcome::Ended as u32 {
        return 0;
    }
    let Some(socket) = Visited::of(sk).filter(Visited::can_send) else { return 0 };
    let progress = progress(&socket, flow);
    flow.arrivals.most_bytes_per_second = 0;
    let bytes = size_of::<Progress>() as u32;
    // SAFETY: the kernel's own output; a record is read, which has no padding.
    unsafe { bpf_seq_write((*meta).cast(), (&raw const progress).cast_mut().cast(), bytes) };
    0
}

#[inline(always)]
fn progress(socket: &Visited, flow: &Flow) -> Progress {
    let (state, counts) = (socket.state(), socket.counts());
    // SAFETY: reads the clock.
    let ticks = unsafe { bpf_jiffies64() } as u32;
    Progress {
        cookie: socket.cookie(),
        bytes_acked: counts.bytes_acked,
        bytes_received: counts.bytes_received,
        arrived_bytes_per_second: flow.arrivals.most_bytes_per_second,
        policy: flow.policy,
        delivered_segments: state.delivered_segments,
        delivered_in_us: state.delivered_in_us,
        app_limited: socket.app_limited(),
        min_rtt_us: state.min_rtt_us,
        receiving_rtt_us: socket.receiving_rtt_us(),
        mss_bytes: state.mss_bytes,
        cwnd_segments: state.cwnd_segments,
        ssthresh_segments: state.ssthresh_segments,
        limits: socket.limits(ticks),
        ticks,
        reserved: 0,
    }
}
