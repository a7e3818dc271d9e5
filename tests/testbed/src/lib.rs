//! The lab and the end-to-end tests of `wad` stand on this testbed.
//!
//! Its modules are guards: each sets something up on the machine (a namespace, a
//! cgroup, a sysctl, a process) and undoes it when dropped. `emulated` has the long
//! path that joins two namespaces.

pub mod another_build;
pub mod answers;
pub mod archive;
pub mod beside;
pub mod both_ends;
pub mod bpf;
pub mod capture;
pub mod cgroup;
pub mod collector;
pub mod command;
pub mod emulated;
pub mod ends;
pub mod episodes;
pub mod first_process;
pub mod foreign;
pub mod free;
pub mod html;
pub mod inventory;
pub mod kernel;
pub mod kernel_types;
pub mod kubernetes;
pub mod leftovers;
pub mod limits;
pub mod metrics;
pub mod missing_page;
pub mod mutex;
pub mod name_server;
pub mod netns;
pub mod newcomers;
pub mod nginx;
pub mod old_kernel;
pub mod otlp;
pub mod pinned_map;
pub mod policy;
pub mod process;
pub mod prometheus;
pub mod proxy;
pub mod qdisc;
pub mod random;
pub mod reference;
pub mod refusing_kernel;
pub mod samples;
pub mod sending;
pub mod settings;
pub mod signal;
pub mod ss;
pub mod stand;
pub mod sysctl;
pub mod systemd;
pub mod tcp;
pub mod tcp_info;
pub mod tls;
pub mod tmux;
pub mod trace;
pub mod tracing;
pub mod transfers;
pub mod veth;
pub mod wad;

/// Prints a line for the person who runs it. A closed terminal is no reason to fail:
/// `eprintln!` would panic, and leave behind what the guards would undo.
pub fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Returns CLOCK_MONOTONIC, the same in all processes of the host.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let clock = nix::time::ClockId::CLOCK_MONOTONIC;
    let now = nix::time::clock_gettime(clock).expect("Linux has this clock");
    u64::try_from(std::time::Duration::from(now).as_nanos()).unwrap_or(u64::MAX)
}
