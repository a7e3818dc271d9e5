//! An inventory lists what BPF has in the kernel: programs, maps and links as bpftool
//! lists them, and the congestion controls that can be chosen.

use std::{collections::BTreeSet, fmt};

use crate::{
    process::{ProcessError, run},
    sysctl::{self, SysctlError},
};

/// Tells what kept the kernel's objects from being listed.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    #[error("cannot read what `bpftool {kind} show` prints")]
    Parse { kind: &'static str, source: serde_json::Error },
}

/// Objects by kind, number (never given twice) and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory(BTreeSet<(&'static str, u64, String)>);

impl Inventory {
    /// Takes an inventory of all that there is.
    ///
    /// # Errors
    /// When bpftool fails.
    pub fn take() -> Result<Self, InventoryError> {
        let mut all = BTreeSet::new();
        for kind in ["prog", "map", "link"] {
            let text = run("bpftool", &["--json", kind, "show"])?;
            let failed = |source| InventoryError::Parse { kind, source };
            let objects: Vec<serde_json::Value> = serde_json::from_str(&text).map_err(failed)?;
            for object in objects {
                let name = ["name", "type"].iter().find_map(|key| object[*key].as_str());
                all.insert((kind, object["id"].as_u64().unwrap_or(0), name.unwrap_or("").into()));
            }
        }
        let algorithms = sysctl::get("net.ipv4.tcp_available_congestion_control")?;
        all.extend(algorithms.split(' ').map(|name| ("congestion control", 0, name.to_owned())));
        Ok(Self(all))
    }

    /// Returns what came since an earlier inventory.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self(self.0.difference(&before.0).cloned().collect())
    }

    /// Returns what is in both inventories.
    #[must_use]
    pub fn still_in(&self, now: &Self) -> Self {
        Self(self.0.intersection(&now.0).cloned().collect())
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells whether there is an object of this kind with a name that begins so.
    #[must_use]
    pub fn has(&self, kind: &str, name: &str) -> bool {
        self.0.iter().any(|(have, _, called)| *have == kind && called.starts_with(name))
    }
}

impl fmt::Display for Inventory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(kind, id, name)| writeln!(out, "{kind} {id} {name}"))
    }
}
