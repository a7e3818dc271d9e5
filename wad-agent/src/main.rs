//! `wad`: the agent and its command line.
#![expect(dead_code, reason = "services that nothing starts yet")]

mod ceilings;
mod journal;
mod sysctl;

fn main() {}
