//! Says what a configuration would change on the host, and changes nothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A preview of the changes of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostPreview {
    /// The kernel modules that would be loaded.
    pub modules: Vec<String>,
    /// Congestion controls of `wad`'s that would be registered with the kernel, by their
    /// names there.
    #[serde(default)]
    pub congestion_controls: Vec<String>,
    /// The kernel's settings that would change.
    pub sysctls: Vec<Move>,
    /// Interfaces whose transmit queues would have other lengths, in packets.
    pub transmit_queues: Vec<Move>,
    /// Rules for the metrics of routes, by their number; null where it stays.
    pub rules: Option<Move>,
}

/// A move is one value that would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Move {
    pub name: String,
    pub before: String,
    pub after: String,
}

impl Move {
    /// Returns what would change; None where it stays.
    pub fn of(
        name: impl Into<String>,
        before: impl Into<String>,
        after: impl Into<String>,
    ) -> Option<Self> {
        let moved = Self { name: name.into(), before: before.into(), after: after.into() };
        (moved.before != moved.after).then_some(moved)
    }
}
