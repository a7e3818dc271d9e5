//! A path of one's own: the window held at its bandwidth-delay product, paced at
//! its rate, whatever is lost.
//!
//! With `cong_control` the kernel leaves window and rate to the law, in recovery
//! and after idle time, too.

use wad_common::law::{Aimd, INFINITE_SSTHRESH, ShownPhase};

use crate::{context::Context, parameters::Parameters, standard, tcp::Tcp};

/// RFC 6928.
const INITIAL_WINDOW_SEGMENTS: u32 = 10;

#[inline(always)]
pub fn init(ctx: Context) -> u64 {
    let tcp = Tcp::of(ctx);
    hold_rate(tcp, Parameters::start(tcp));
    0
}

#[inline(always)]
fn hold_rate(tcp: Tcp, parameters: Parameters) {
    tcp.pace();
    tcp.set_pacing_bytes_per_second(parameters.dedicated_bytes_per_second());
}

#[inline(always)]
pub fn cong_control(ctx: Context) -> u64 {
    let tcp = Tcp::of(ctx);
    let parameters = Parameters::at_ack(tcp);
    if parameters.is_standard() {
        return fall_back(ctx, tcp, parameters);
    }
    let held_segments = match parameters.max_cwnd_segments() {
        // An application chose the algorithm by itself, with no path to hold.
        u32::MAX => INITIAL_WINDOW_SEGMENTS,
        segments => segments,
    };
    if tcp.cwnd_segments() != held_segments {
        tcp.set_cwnd_segments(held_segments);
    }
    hold_rate(tcp, parameters);
    parameters.show(ShownPhase::Hold);
    0
}

#[inline(always)]
pub fn ssthresh(ctx: Context) -> u64 {
    let tcp = Tcp::of(ctx);
    if Parameters::of(tcp).is_standard() {
        return standard::ssthresh(tcp);
    }
    tcp.cwnd_segments().into()
}

/// To the standard law, which knows no threshold as yet: to double the window from
/// here would be the worst. It begins as after a loss.
#[inline(always)]
fn fall_back(ctx: Context, tcp: Tcp, parameters: Parameters) -> u64 {
    if tcp.ssthresh_segments() >= INFINITE_SSTHRESH {
        let half_segments = Aimd::STANDARD.on_congestion(tcp.cwnd_segments());
        tcp.set_ssthresh_segments(half_segments);
        tcp.set_cwnd_segments(half_segments);
    }
    standard::cong_control(ctx, tcp, parameters)
}
