//! The congestion signals of flows, whatever their algorithm: the kernel passes here when it
//! changes a flow's state of congestion control.

use core::ffi::c_void;

use wad_common::{control::IGNORE_LOCAL_STALLS, flow::Flow, signals};
use wad_ebpf::policies;

use crate::{flows, socket::Visited};

/// `tcp_cong_state_set(sk, ca_state)`, since Linux 5.19.
#[unsafe(no_mangle)]
#[unsafe(link_section = "tp_btf/tcp_cong_state_set")]
pub extern "C" fn wad_signals(ctx: *const u64) -> u32 {
    // SAFETY: the tracepoint's arguments; the verifier checks the loads.
    let (sk, to) = unsafe { (ctx.read_volatile(), ctx.add(1).read_volatile()) };
    // A byte: the rest of the register is not defined.
    let to = to as u8;
    if let Some(socket) = Visited::of(sk as *mut c_void)
        && !signals::counts_as_nothing(socket.congestion_state(), to)
        && let Some(flow) = flows::live(&socket)
    {
        let change = socket.change(to, heeds_stalls(&socket, flow));
        flow.signals.see(&change);
    }
    0
}

/// Whether the flow's window follows a full queue of this host.
#[inline(always)]
fn heeds_stalls(socket: &Visited, flow: &Flow) -> bool {
    let ignores = flow.is_tuned()
        && policies::of_flow(flow)
            .is_some_and(|policy| policy.control.flags & IGNORE_LOCAL_STALLS != 0);
    !(ignores && socket.congestion().starts_with(b"wad_"))
}
