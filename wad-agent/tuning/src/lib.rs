//! A policy put into a host, and taken out again.

pub mod attachment;
pub mod bpf;
pub mod ceilings;
pub mod cgroup_bits;
pub mod disabled_note;
pub mod explain;
pub mod host;
pub mod instance;
pub mod journal;
pub mod kernel_modules;
pub mod namespaces;
pub mod policy_set;
pub mod preview;
pub mod readings;
pub mod routes;
mod shares;
pub mod state_dir;
