//! Pacing: the rate of the flows whose law has `cong_control`, as the kernel leaves it to
//! that; of the others' what the kernel gives too much; and how much any of our flows sends
//! at a time.

use wad_common::law::{
    Window,
    pacing::{
        enough_bytes_per_second, least_segments, rapid_bytes_per_second, window_bytes_per_second,
    },
};

use crate::{context::Context, loss_based, parameters::Parameters, tcp::Tcp};

/// Paces, at the rate that fits the window.
#[inline(always)]
pub fn follow_window(tcp: Tcp, window: &Window, doubles: bool) {
    tcp.pace();
    let rate = window_bytes_per_second(window, tcp.mss_bytes(), tcp.srtt_us(), doubles);
    if let Some(rate) = rate {
        tcp.set_pacing_bytes_per_second(rate);
    }
}

/// Returns how many segments a flow is to send at a time at least. Many flows of a path
/// would else send two each, every one with a timer of its own.
#[inline(always)]
pub fn min_tso_segs(ctx: Context) -> u64 {
    let tcp = Tcp::of(ctx);
    least_segments(Parameters::as_kept(tcp).burst_segments(), tcp.cwnd_segments()).into()
}

/// Returns that of a flow that the kernel sets a rate for. It asks after it has set the rate, in
/// `tcp_write_xmit()` and `tcp_xmit_retransmit_queue()`: here that can be changed.
#[inline(always)]
pub fn min_tso_segs_within_window(ctx: Context) -> u64 {
    let tcp = Tcp::of(ctx);
    if tcp.is_paced() {
        let window = Parameters::as_kept(tcp).bounded_window(0);
        let packets_out = tcp.packets_out_segments();
        let (mss_bytes, srtt_us) = (tcp.mss_bytes(), tcp.srtt_us());
        if loss_based::is_rapid(tcp) && !window.is_limited() {
            if let Some(rate) = rapid_bytes_per_second(&window, mss_bytes, srtt_us) {
                tcp.set_pacing_bytes_per_second(rate);
            }
        } else if let Some(rate) = enough_bytes_per_second(&window, packets_out, mss_bytes, srtt_us)
        {
            tcp.lower_pacing_bytes_per_second(rate);
        }
    }
    min_tso_segs(ctx)
}
