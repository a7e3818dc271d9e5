//! CUBIC: the rule of a law that answers to losses, with a state of its own beside theirs.

use wad_common::law::{
    Aimd,
    cubic::{Ack, Cubic},
};

use crate::{
    context::Context,
    loss_based,
    parameters::{LOSS_BASED_END, Parameters},
    tcp::{TCP_CA_LOSS, Tcp},
};

// Place in `icsk_ca_priv`.
const STATE: u32 = LOSS_BASED_END;
const _: () = assert!(STATE as usize + size_of::<Cubic>() <= 104);

#[inline(always)]
pub fn cong_avoid(ctx: Context) -> u64 {
    loss_based::cong_avoid(ctx, grow, shrink)
}

#[inline(always)]
pub fn ssthresh(ctx: Context) -> u64 {
    loss_based::ssthresh(ctx, shrink)
}

#[inline(always)]
pub fn set_state(ctx: Context) -> u64 {
    let tcp = Tcp::of(ctx);
    if ctx.new_state() == TCP_CA_LOSS && !Parameters::as_kept(tcp).is_standard() {
        tcp.set_private(STATE, Cubic::START);
    }
    loss_based::set_state(ctx, shrink)
}

#[inline(always)]
fn grow(parameters: Parameters, cwnd_segments: u32, acked_segments: u32) -> Aimd {
    let tcp = parameters.tcp();
    // In slow start it is not asked for, but for what one ACK has beyond the threshold.
    if parameters.is_standard() || cwnd_segments < tcp.ssthresh_segments() {
        return Aimd::STANDARD;
    }
    let ack = Ack {
        now_us: tcp.now_us(),
        srtt_us: tcp.srtt_us(),
        acked_segments,
        prior_segments: tcp.prior_cwnd_segments(),
        fraction_q32: tcp.cwnd_count(),
    };
    let flows = parameters.flows();
    step(tcp, |law| law.begin_epoch(cwnd_segments, &ack, flows));
    tcp.set_cwnd_count(step(tcp, |law| law.grow_reno(cwnd_segments, &ack, flows)));
    let increase_q16 = step(tcp, |law| law.increase_q16(cwnd_segments, &ack, flows));
    Aimd { increase_q16: loss_based::forgotten(tcp, increase_q16), ..Aimd::STANDARD }
}

#[inline(always)]
fn shrink(parameters: Parameters, cwnd_segments: u32) -> Aimd {
    if parameters.is_standard() {
        return Aimd::STANDARD;
    }
    let tcp = parameters.tcp();
    step(tcp, |law| law.shrink(cwnd_segments, parameters.flows()))
}

/// A step of the law, on the state as it is in the socket: see `leaky.rs`.
#[inline(always)]
fn step<T>(tcp: Tcp, act: impl FnOnce(&mut Cubic) -> T) -> T {
    let mut law: Cubic = tcp.private(STATE);
    let result = act(&mut law);
    tcp.set_private(STATE, law);
    result
}
