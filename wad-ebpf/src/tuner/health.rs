//! Flows of the paths tell how they get on: an iterator over the flows' state, in all network
//! namespaces at once, which the agent reads where guards watch paths. It takes no lock of a
//! socket: a number may be one of a moment later than the next. It changes nothing, not even what
//! begins anew with each reading of their progress.

use aya_ebpf::helpers::generated::{bpf_jiffies64, bpf_seq_write};
use wad_common::{flow::Outcome, health::Health};

use crate::{
    progress::Context,
    socket::{Socket as _, Visited},
};

#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/bpf_sk_storage_map")]
pub extern "C" fn wad_health(ctx: *const Context) -> u32 {
    let (meta, sk, flow) = Context::read(ctx);
    if flow.is_null() {
        return 0;
    }
    // SAFETY: the flow's state, which is there for as long as this run.
    let (policy, outcome) = unsafe {
        ((&raw const (*flow).policy).read_volatile(), (&raw const (*flow).outcome).read_volatile())
    };
    if outcome == Outcome::Ended as u32 {
        return 0;
    }
    let Some(socket) = Visited::of(sk).filter(Visited::can_send) else { return 0 };
    let health = health(&socket, policy, outcome);
    let bytes = size_of::<Health>() as u32;
    // SAFETY: the kernel's own output; a record is read, which has no padding.
    unsafe { bpf_seq_write((*meta).cast(), (&raw const health).cast_mut().cast(), bytes) };
    0
}

#[inline(always)]
fn health(socket: &Visited, policy: u32, outcome: u32) -> Health {
    let (state, counts) = (socket.state(), socket.counts());
    // SAFETY: reads the clock.
    let ticks = unsafe { bpf_jiffies64() } as u32;
    Health {
        cookie: socket.cookie(),
        bytes_acked: counts.bytes_acked,
        remote: socket.ends().remote,
        policy,
        outcome,
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
