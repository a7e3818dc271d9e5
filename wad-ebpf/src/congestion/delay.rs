//! Control by delay, with window and pacing rate to itself.

use wad_common::law::delay::Delay;

use crate::{
    context::Context,
    pacing,
    parameters::{LAW_STATE, Parameters},
    rate_sample::RateSample,
    standard, start,
    tcp::Tcp,
};

// Place in `icsk_ca_priv`.
const STATE: u32 = LAW_STATE;

#[inline(always)]
pub fn init(ctx: Context) -> u64 {
    let tcp = Tcp::of(ctx);
    let parameters = Parameters::start(tcp);
    tcp.set_private(STATE, Delay::start(tcp.delivered_segments()));
    // A burst is a queue.
    pacing::follow_window(tcp, &parameters.bounded_window(0), true);
    0
}

#[inline(always)]
pub fn cong_control(ctx: Context) -> u64 {
    let tcp = Tcp::of(ctx);
    let parameters = Parameters::at_ack(tcp);
    start::within_path(tcp, parameters);
    if parameters.is_standard() {
        return standard::cong_control(ctx, tcp, parameters);
    }
    let sample = RateSample::of(ctx).told_of(tcp);
    let before = parameters.bounded_window(0);
    let mut law: Delay = tcp.private(STATE);
    let after = law.on_ack(before, &sample, parameters.standing_queue_segments());
    let is_starting = law.is_starting(&after);
    parameters.show(law.phase(&after));
    tcp.set_private(STATE, law);
    tcp.change_window(before, after);
    pacing::follow_window(tcp, &after, is_starting);
    0
}

#[inline(always)]
pub fn ssthresh(ctx: Context) -> u64 {
    let tcp = Tcp::of(ctx);
    let parameters = Parameters::of(tcp);
    if parameters.is_standard() {
        return standard::ssthresh(tcp, parameters);
    }
    let mut law: Delay = tcp.private(STATE);
    let ssthresh_segments = law.on_congestion(tcp.cwnd_segments());
    tcp.set_private(STATE, law);
    ssthresh_segments.into()
}
