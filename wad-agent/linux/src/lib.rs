//! Linux as `wad` uses it. This crate knows mechanisms, and no path or policy.

pub mod bpffs;
pub mod cgroup;
pub mod cgroup_names;
pub mod cgroup_tree;
pub mod confinement;
pub mod interface;
pub mod lock;
pub mod netlink;
pub mod netns;
pub mod own_process;
mod own_thread;
pub mod privileges;
pub mod sockstat;
pub mod sysctl;
pub mod tick;
