//! Flows of the paths tell how they get on: a scan, which the agent makes where guards watch
//! paths. It changes nothing, not even what begins anew with each reading of their progress.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::bpf_jiffies64;
use wad_common::{
    flow::{Flow, Outcome},
    health::Health,
};
use wad_ebpf::kernel::Scanned;

use crate::{
    scan::{self, VisitFlow},
    socket::Visited,
};

#[unsafe(no_mangle)]
#[unsafe(link_section = "freplace/scan")]
pub extern "C" fn wad_health(_ctx: *mut c_void) -> u32 {
    scan::flows::<GetsOn>();
    0
}

/// Reads how each flow gets on.
struct GetsOn;

impl VisitFlow for GetsOn {
    #[inline(always)]
    fn visit(flow: &mut Flow) {
        if flow.outcome != Outcome::Ended as u32
            && let Some(socket) = Visited::of_flow(flow).filter(Visited::can_send)
            && let Some(record) = scan::room::<Health>()
        {
            // SAFETY: room for one record.
            unsafe { record.write(health(&socket, flow)) };
            if socket.still_has(flow) {
                scan::keep();
            }
        }
    }
}

#[inline(always)]
fn health(socket: &Visited<Scanned>, flow: &Flow) -> Health {
    let (state, counts) = (socket.state(), socket.counts());
    // SAFETY: reads the clock.
    let ticks = unsafe { bpf_jiffies64() } as u32;
    Health {
        cookie: flow.cookie,
        bytes_acked: counts.bytes_acked,
        remote: socket.ends().remote,
        policy: flow.policy,
        outcome: flow.outcome,
        data_segs_out: counts.data_segs_out,
        segs_retrans: counts.segs_retrans,
        srtt_us: state.srtt_us,
        min_rtt_us: state.min_rtt_us,
        mss_bytes: state.mss_bytes,
        limits: socket.limits(ticks),
        ticks,
        reserved: 0,
    }
}
