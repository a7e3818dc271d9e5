//! A path of one's own: the window held at its bandwidth-delay product, paced at
//! its rate, whatever is lost.
//!
//! With `cong_control` the kernel leaves window and rate to the law, in recovery
//! and after idle time, too.

use wad_common::law::dedicated::Dedicated;

use crate::{
    context::Context,
    pacing,
    parameters::{LAW_STATE, Parameters},
    standard,
    tcp::Tcp,
};

// Place in `icsk_ca_priv`.
const STATE: u32 = LAW_STATE;

#[inline(always)]
pub fn init(ctx: Context) -> u64 {
    let tcp = Tcp::of(ctx);
    let parameters = Parameters::start(tcp);
    if parameters.is_standard() {
        pacing::follow_window(tcp, &parameters.bounded_window(0), true);
    } else {
        hold_rate(tcp, parameters);
    }
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
    let held_segments = parameters.max_cwnd_segments();
    if tcp.cwnd_segments() != held_segments {
        tcp.set_cwnd_segments(held_segments);
    }
    hold_rate(tcp, parameters);
    let mut law: Dedicated = tcp.private(STATE);
    parameters.show(law.hold());
    tcp.set_private(STATE, law);
    0
}

#[inline(always)]
pub fn ssthresh(ctx: Context) -> u64 {
    let tcp = Tcp::of(ctx);
    let parameters = Parameters::of(tcp);
    if parameters.is_standard() {
        return standard::ssthresh(tcp, parameters);
    }
    tcp.cwnd_segments().into()
}

/// Falls back to the standard law.
#[inline(always)]
fn fall_back(ctx: Context, tcp: Tcp, parameters: Parameters) -> u64 {
    let mut law: Dedicated = tcp.private(STATE);
    if let Some(segments) = law.fall_back(tcp.cwnd_segments(), tcp.in_flight_segments()) {
        tcp.set_ssthresh_segments(segments);
        tcp.set_cwnd_segments(segments);
    }
    tcp.set_private(STATE, law);
    standard::cong_control(ctx, tcp, parameters)
}
