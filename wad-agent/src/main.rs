//! `wad`: the agent and its command line.

fn main() {}
