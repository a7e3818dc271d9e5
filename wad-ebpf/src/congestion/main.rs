//! The congestion controls: what each law is made of.
//!
//! A law is a pure function of wad-common; what is here reads the fields that it
//! needs, calls it, and stores what it decides.
#![no_std]
#![no_main]

mod context;
mod cubic;
mod dedicated;
mod delay;
mod law;
mod leaky;
mod loss_based;
mod pacing;
mod parameters;
mod rate_sample;
mod resume;
mod sndbuf;
mod standard;
mod start;
mod tcp;

use wad_common::{
    control::IIAD,
    law::{Binomial, highspeed, scalable},
};

use crate::law::{callback, law};

// Shared by the laws that answer to losses.
callback!("wad", "init", loss_based::init);
callback!("loss_based", "min_tso_segs", pacing::min_tso_segs_within_window);
// Shared by those in control of window and rate.
callback!("wad", "min_tso_segs", pacing::min_tso_segs);
// Shared by all.
callback!("wad", "undo_cwnd", standard::undo_cwnd);

law!("cubic" answers_to_losses by cubic);
law!("aimd" answers_to_losses |parameters, _| parameters.aimd());
law!("highspeed" answers_to_losses |parameters, cwnd_segments| {
    parameters.unless_standard(highspeed::response, cwnd_segments)
});
law!("scalable" answers_to_losses |parameters, cwnd_segments| {
    parameters.unless_standard(scalable::response, cwnd_segments)
});
law!("binomial" answers_to_losses |parameters, cwnd_segments| {
    let law = Binomial::of(parameters.has(IIAD));
    parameters.unless_standard(|segments| law.response(segments), cwnd_segments)
});
law!("delay" is_in_control delay);
law!("leaky" is_in_control leaky);
callback!("leaky", "set_state", leaky::set_state);
law!("dedicated" is_in_control dedicated);

#[unsafe(no_mangle)]
#[unsafe(link_section = "license")]
pub static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
