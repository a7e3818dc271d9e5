//! The flows of the paths tell what they have measured: a scan, which the agent makes now and
//! then. It changes nothing but the most that arrived, which begins anew with each.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::bpf_jiffies64;
use wad_common::{
    flow::{Flow, Outcome},
    progress::Progress,
};
use wad_ebpf::kernel::Scanned;

use crate::{
    scan::{self, VisitFlow},
    socket::Visited,
};

#[unsafe(no_mangle)]
#[unsafe(link_section = "freplace/scan")]
pub extern "C" fn wad_progress(_ctx: *mut c_void) -> u32 {
    scan::flows::<Measures>();
    0
}

/// Reads what each flow has measured.
struct Measures;

impl VisitFlow for Measures {
    #[inline(always)]
    fn visit(flow: &mut Flow) {
        if flow.outcome != Outcome::Ended as u32
            && let Some(socket) = Visited::of_flow(flow).filter(Visited::can_send)
            && let Some(record) = scan::room::<Progress>()
        {
            // SAFETY: room for one record.
            unsafe { record.write(progress(&socket, flow)) };
            if socket.still_has(flow) {
                flow.arrivals.most_bytes_per_second = 0;
                scan::keep();
            }
        }
    }
}

#[inline(always)]
fn progress(socket: &Visited<Scanned>, flow: &Flow) -> Progress {
    let (state, counts) = (socket.state(), socket.counts());
    // SAFETY: reads the clock.
    let ticks = unsafe { bpf_jiffies64() } as u32;
    Progress {
        cookie: flow.cookie,
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
