//! Flows over one bottleneck, simulated segment by segment: each under a law of ours, by the
//! very functions that run in the kernel, or under Linux's reno or cubic; with the kernel's part
//! of the work around it.
//!
//! Pure: no clock, no input, no output. The same setup gives the same figures, to the last
//! bit.
//!
//! Segments travel in trains. Those of a flow that leave the bottleneck within a moment
//! ([`Path::moderation_ns`]) are acknowledged together, as network cards that moderate
//! interrupts have it: 400 Gbit/s take no more work than 1 Gbit/s.
//!
//! Taken from Linux 6.18, by function: loss detection (`tcp_rack_detect_loss()`, without
//! reordering), fast recovery with proportional rate reduction (`tcp_cwnd_reduction()`, RFC
//! 6937), tail loss probes (RFC 8985), time-outs (`tcp_enter_loss()`), use of the window
//! (`tcp_cwnd_validate()`), pacing (`tcp_update_pacing_rate()`, `tcp_tso_autosize()`). Flows send
//! all the time: there is no idle time. What a path does to ACKs, other traffic, and what hosts
//! have to do for it all, is left out.

mod channel;
mod flow;
mod holes;
mod law;
mod link;
mod pacing;
mod path;
mod random;
mod recovery;
mod run;
mod sender;
mod tcp;
mod world;

pub use self::{
    flow::{Decrease, Flow},
    path::Path,
    run::{FlowOutcome, Outcome, Point, Setup, simulate},
    sender::{Algorithm, MOST_WINDOW_BYTES, Sender},
    tcp::{State, Tcp},
    world::World,
};
