//! Control by delay, with window and pacing rate to itself.

use wad_common::law::{Sample, delay::Delay};

use crate::{
    context::Context,
    pacing,
    parameters::{LAW_STATE, Parameters},
    rate_sample::RateSample,
    tcp::Tcp,
};

// Place in `icsk_ca_priv`.
const STATE: u32 = LAW_STATE;

#[inline(always)]
pub fn init(tcp: Tcp) -> u64 {
    Parameters::start(tcp);
    tcp.set_private(STATE, Delay::START);
    // A burst is a queue.
    tcp.pace();
    pacing::follow_window(tcp, true);
    0
}

#[inline(always)]
pub fn cong_control(ctx: Context) -> u64 {
    let tcp = Tcp::of(ctx);
    let parameters = Parameters::of(tcp);
    let rate_sample = RateSample::of(ctx);
    let sample = Sample {
        now_us: tcp.now_us(),
        rtt_us: rate_sample.rtt_us(),
        acked_segments: rate_sample.acked_segments(),
        delivered_segments: tcp.delivered_segments(),
        in_flight_segments: tcp.in_flight_segments(),
        entitled_segments: tcp.entitled_segments(),
        is_reducing: tcp.is_reducing(),
    };
    let mut before = tcp.window(0);
    before.clamp_segments = before.clamp_segments.min(parameters.max_cwnd_segments());
    before.max_ssthresh_segments = parameters.max_ssthresh_segments();
    let mut law: Delay = tcp.private(STATE);
    let after = law.on_ack(before, &sample, parameters.standing_queue_segments());
    let is_starting = law.is_starting(&after);
    tcp.set_private(STATE, law);
    if after.cwnd_segments != before.cwnd_segments {
        tcp.set_cwnd_segments(after.cwnd_segments);
    }
    if after.ssthresh_segments != before.ssthresh_segments {
        tcp.set_ssthresh_segments(after.ssthresh_segments);
    }
    pacing::follow_window(tcp, is_starting);
    0
}

#[inline(always)]
pub fn ssthresh(ctx: Context) -> u64 {
    let tcp = Tcp::of(ctx);
    let mut law: Delay = tcp.private(STATE);
    let ssthresh_segments = law.on_congestion(tcp.cwnd_segments());
    tcp.set_private(STATE, law);
    ssthresh_segments.into()
}
