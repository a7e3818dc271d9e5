//! Control for leaky paths, with window and pacing rate to itself: of what the
//! kernel takes for congestion, the law decides what is, on the ACK that tells.

use wad_common::law::leaky::{Leaky, Losses};

use crate::{
    context::Context,
    pacing,
    parameters::{LAW_STATE, Parameters},
    rate_sample::RateSample,
    standard, start,
    tcp::{TCP_CA_LOSS, Tcp},
};

// Place in `icsk_ca_priv`.
const STATE: u32 = LAW_STATE;

#[inline(always)]
pub fn init(ctx: Context) -> u64 {
    let tcp = Tcp::of(ctx);
    let parameters = Parameters::start(tcp);
    let state = Leaky::start(tcp.delivered_segments(), tcp.delivered_ce_segments());
    tcp.set_private(STATE, state);
    // A burst is a queue, and hides whether there is another one.
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
    let rate_sample = RateSample::of(ctx);
    let sample = rate_sample.told_of(tcp);
    let losses = Losses {
        lost_segments: rate_sample.lost_segments(),
        missing_segments: tcp.lost_segments(),
        marked_segments: tcp.delivered_ce_segments(),
        prior_segments: tcp.prior_cwnd_segments(),
    };
    step(tcp, |law| law.see(&sample));
    step(tcp, |law| {
        let before = parameters.bounded_window(0);
        tcp.change_window(before, law.respond(before, &sample, &losses));
    });
    let is_starting = step(tcp, |law| {
        let before = parameters.bounded_window(0);
        let after = law.grow(before, &sample);
        tcp.change_window(before, after);
        parameters.show(law.phase(&after));
        law.is_starting(&after)
    });
    pacing::follow_window(tcp, &parameters.bounded_window(0), is_starting);
    0
}

#[inline(always)]
pub fn ssthresh(ctx: Context) -> u64 {
    let tcp = Tcp::of(ctx);
    let parameters = Parameters::of(tcp);
    if parameters.is_standard() {
        return standard::ssthresh(tcp, parameters);
    }
    step(tcp, |law| law.on_congestion(tcp.window(0))).into()
}

#[inline(always)]
pub fn set_state(ctx: Context) -> u64 {
    let tcp = Tcp::of(ctx);
    // What does not fit a smaller MTU is lost in that state, too (`tcp_simple_retransmit()`), with
    // the window as it was.
    let is_of_timeout =
        ctx.new_state() == TCP_CA_LOSS && tcp.cwnd_segments() == tcp.in_flight_segments() + 1;
    if is_of_timeout && !Parameters::of(tcp).is_standard() {
        step(tcp, Leaky::on_timeout);
    }
    0
}

/// A step of the law, on the state as it is in the socket. In one go, the verifier
/// would follow each way through a step with each way through the others, since it
/// knows what the one has stored when the other reads it: "processed 894050 insns
/// (limit 1000000)", Linux 6.18.
#[inline(always)]
fn step<T>(tcp: Tcp, act: impl FnOnce(&mut Leaky) -> T) -> T {
    let mut law: Leaky = tcp.private(STATE);
    let result = act(&mut law);
    tcp.set_private(STATE, law);
    result
}
