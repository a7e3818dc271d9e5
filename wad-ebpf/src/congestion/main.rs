//! The congestion controls: struct_ops programs, one for each member of
//! `tcp_congestion_ops` that an algorithm needs.
//!
//! A law is a pure function of wad-common; what is here reads the fields that it
//! needs, calls it, and stores what it decides.
//!
//! aya-obj knows no `struct_ops` section. The programs are in sections that it
//! parses like any other, `freplace/MEMBER`, and the agent loads them itself.
#![no_std]
#![no_main]

mod context;
mod dedicated;
mod delay;
mod division;
mod leaky;
mod loss_based;
mod pacing;
mod parameters;
mod rate_sample;
mod standard;
mod tcp;

use wad_common::law::{Aimd, highspeed, scalable};

use crate::{context::Context, parameters::Parameters, tcp::Tcp};

/// A program for a member of `tcp_congestion_ops`.
macro_rules! callback {
    ($section:literal $name:ident($ctx:ident) $body:expr) => {
        #[unsafe(no_mangle)]
        #[unsafe(link_section = concat!("freplace/", $section))]
        pub extern "C" fn $name($ctx: Context) -> u64 {
            $body
        }
    };
}

// Shared by the laws that answer to losses.
callback!("init" wad_init(ctx) {
    Parameters::start(Tcp::of(ctx));
    0
});

// Shared by all: the window before the decrease, RFC 4015's response.
callback!("undo_cwnd" wad_undo_cwnd(ctx) {
    let tcp = Tcp::of(ctx);
    Aimd::on_undo(tcp.cwnd_segments(), tcp.prior_cwnd_segments()).into()
});

callback!("cong_avoid" aimd_cong_avoid(ctx)
    loss_based::cong_avoid(ctx, |parameters, _| parameters.aimd()));
callback!("ssthresh" aimd_ssthresh(ctx)
    loss_based::ssthresh(ctx, |parameters, _| parameters.aimd()));
callback!("set_state" aimd_set_state(ctx)
    loss_based::set_state(ctx, |parameters, _| parameters.aimd()));

callback!("cong_avoid" highspeed_cong_avoid(ctx)
    loss_based::cong_avoid(ctx, |parameters, cwnd_segments| parameters.unless_standard(highspeed::response, cwnd_segments)));
callback!("ssthresh" highspeed_ssthresh(ctx)
    loss_based::ssthresh(ctx, |parameters, cwnd_segments| parameters.unless_standard(highspeed::response, cwnd_segments)));
callback!("set_state" highspeed_set_state(ctx)
    loss_based::set_state(ctx, |parameters, cwnd_segments| parameters.unless_standard(highspeed::response, cwnd_segments)));

callback!("cong_avoid" scalable_cong_avoid(ctx)
    loss_based::cong_avoid(ctx, |parameters, cwnd_segments| parameters.unless_standard(scalable::response, cwnd_segments)));
callback!("ssthresh" scalable_ssthresh(ctx)
    loss_based::ssthresh(ctx, |parameters, cwnd_segments| parameters.unless_standard(scalable::response, cwnd_segments)));
callback!("set_state" scalable_set_state(ctx)
    loss_based::set_state(ctx, |parameters, cwnd_segments| parameters.unless_standard(scalable::response, cwnd_segments)));

callback!("init" delay_init(ctx) delay::init(Tcp::of(ctx)));
callback!("cong_control" delay_cong_control(ctx) delay::cong_control(ctx));
callback!("ssthresh" delay_ssthresh(ctx) delay::ssthresh(ctx));

callback!("init" leaky_init(ctx) leaky::init(Tcp::of(ctx)));
callback!("cong_control" leaky_cong_control(ctx) leaky::cong_control(ctx));
callback!("ssthresh" leaky_ssthresh(ctx) leaky::ssthresh(ctx));

callback!("init" dedicated_init(ctx) dedicated::init(Tcp::of(ctx)));
callback!("cong_control" dedicated_cong_control(ctx) dedicated::cong_control(ctx));
callback!("ssthresh" dedicated_ssthresh(ctx) dedicated::ssthresh(ctx));

#[unsafe(no_mangle)]
#[unsafe(link_section = "license")]
pub static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
