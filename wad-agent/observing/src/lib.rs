//! This crate tells what becomes of flows, read from the kernel and told to whoever
//! asks.

pub mod diagnose;
pub mod events;
pub mod learn;
pub mod live_flows;
pub mod log;
pub mod metrics;
pub mod owners;
pub mod peer_flows;
pub mod reading;
pub mod recent;
pub mod sinks;
pub mod suggest;
pub mod trace;
