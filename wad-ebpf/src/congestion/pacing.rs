//! Pacing of the flows whose law has `cong_control`: the kernel leaves the rate
//! to it.

use wad_common::law::pacing::bytes_per_second;

use crate::tcp::Tcp;

/// Paces, at the rate that fits the window.
#[inline(always)]
pub fn follow_window(tcp: Tcp, in_slow_start: bool) {
    tcp.pace();
    let window_bytes = u64::from(tcp.cwnd_segments()) * u64::from(tcp.mss_bytes());
    if let Some(rate) = bytes_per_second(window_bytes, tcp.srtt_us(), in_slow_start) {
        tcp.set_pacing_bytes_per_second(rate);
    }
}
