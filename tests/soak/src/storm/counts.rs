//! Counts of what has happened to an agent and around it.

/// How often each of it has happened.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub reloads: u64,
    pub restarts: u64,
    pub kills: u64,
    pub upgrades: u64,
    pub namespaces: u64,
    pub cgroups: u64,
    pub services: u64,
    pub comparisons: u64,
}
