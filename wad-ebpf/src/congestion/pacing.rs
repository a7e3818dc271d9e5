//! Pacing: the rate of the flows whose law has `cong_control`, as the kernel leaves it to
//! that; and how much any of our flows sends at a time.

use wad_common::law::pacing::{bytes_per_second, least_segments};

use crate::{context::Context, parameters::Parameters, tcp::Tcp};

/// Paces, at the rate that fits the window.
#[inline(always)]
pub fn follow_window(tcp: Tcp, in_slow_start: bool) {
    tcp.pace();
    let window_bytes = u64::from(tcp.cwnd_segments()) * u64::from(tcp.mss_bytes());
    if let Some(rate) = bytes_per_second(window_bytes, tcp.srtt_us(), in_slow_start) {
        tcp.set_pacing_bytes_per_second(rate);
    }
}

/// Returns how many segments a flow is to send at a time at least. Many flows of a path
/// would else send two each, every one with a timer of its own.
#[inline(always)]
pub fn min_tso_segs(ctx: Context) -> u64 {
    let tcp = Tcp::of(ctx);
    least_segments(Parameters::burst_segments(tcp), tcp.cwnd_segments()).into()
}
