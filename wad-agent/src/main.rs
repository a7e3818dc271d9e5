//! `wad`: the agent and its command line.
#![expect(dead_code, reason = "services that nothing starts yet")]

mod ceilings;
mod journal;
mod metrics;
mod sysctl;

fn main() {}
