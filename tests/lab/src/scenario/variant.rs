//! Variants of a scenario say which flows run, and under which policy.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Table;
use wad_testbed::{
    emulated::{path::Path, units::Span},
    settings,
};

use super::{Grid, Plan, group::Group, policy};

/// Port of the first group of flows; the next one has the next.
const FIRST_PORT: u16 = 5001;

/// A variant as a file has it: either one kind of flow, or several groups.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawVariant {
    pub name: String,
    paper: Option<String>,
    streams: Option<u32>,
    policy: Option<Table>,
    /// Keys of every policy do not hold for it.
    #[serde(default)]
    alone: bool,
    plan: Option<Plan>,
    #[serde(default)]
    flows: Vec<RawGroup>,
    sender_queue: Option<String>,
    #[serde(default)]
    is_first: bool,
    transfer: Option<u32>,
    repeat: Option<u32>,
    #[serde(default)]
    monitor: bool,
    #[serde(default)]
    sysctls: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGroup {
    name: String,
    streams: Option<u32>,
    #[serde(default)]
    start: Span,
    policy: Option<Table>,
}

/// One way of running the transfer, over one path.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The name with the path's place in the grid.
    pub name: String,
    /// The name without the path's place in the grid, which its like on other paths
    /// share.
    pub base: String,
    /// Tells what the papers saw.
    pub paper: Option<String>,
    pub groups: Vec<Group>,
    /// Configuration of `wad`, but for `[agent]`, `[metrics]` and `[[source]]`;
    /// without it no agent runs.
    pub policy: Option<String>,
    /// The configuration is what `wad plan` prints, and not known before it is asked.
    pub plan: Option<Plan>,
    /// The variant's agent is told by a service what the path carries.
    pub has_monitor: bool,
    /// Metrics of routes are those of the sender's namespace: the agent runs there.
    pub is_routed: bool,
    /// Queueing discipline of the sender's own device, as `tc` takes it; with
    /// one, that device is a wire to a router before the path.
    pub sender_queue: Option<String>,
    /// The sender is in the network namespace of this process, as on a host without
    /// containers. It is the host's first.
    pub is_first: bool,
    /// The number of the transfer that is looked at, of those that one agent sees: the
    /// last, counted from 1.
    pub transfer: u32,
    /// The most runs of it, where the others have more.
    pub repeat: Option<u32>,
    /// Settings at both ends that are not a distribution's defaults.
    pub sysctls: BTreeMap<String, String>,
    pub path: Path,
    /// The bytes that it sends, where the grid says so.
    pub bytes: Option<u64>,
    /// The memory of the machine that it is for; none for any.
    pub memory_gib: Option<u32>,
}

impl Variant {
    /// Returns the number of connections of all groups.
    #[must_use]
    pub fn streams(&self) -> u32 {
        self.groups.iter().map(|group| group.streams).sum()
    }

    /// Returns the part of the name that stands for the path in the grid.
    #[must_use]
    pub fn suffix(&self) -> &str {
        self.name.strip_prefix(&self.base).unwrap_or_default()
    }

    /// Tells whether the variant is meant by that name: its own, or the one without the
    /// path.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.base == name
    }
}

impl RawVariant {
    /// Returns the variant on every path of the grid.
    ///
    /// # Errors
    /// With what is wrong with it.
    pub fn over(
        self,
        common: &Table,
        (grid, path): (&Grid, &Path),
    ) -> Result<Vec<Variant>, &'static str> {
        let groups = self.groups()?;
        let transfer = self.transfer.unwrap_or(1);
        if transfer == 0 || self.repeat == Some(0) {
            return Err("transfers and runs are counted from 1");
        }
        if self.plan.is_some() && groups.iter().any(|(_, policy)| policy.is_some()) {
            return Err("a variant with the policy of `wad plan` has none of its own");
        }
        if self.is_first && self.sender_queue.is_some() {
            return Err("a sender with a queue of its own is in a namespace of its own");
        }
        if !self.sysctls.keys().all(|name| settings::is_known(name)) {
            return Err("a variant has a sysctl that the lab does not know");
        }
        let none = Table::new();
        let common = if self.alone { &none } else { common };
        let variants = grid.cells(path).into_iter().map(|cell| {
            let policies: Vec<_> =
                groups.iter().map(|(group, policy)| (group, policy.as_ref())).collect();
            Variant {
                name: format!("{}{}", self.name, cell.suffix),
                base: self.name.clone(),
                paper: self.paper.clone(),
                policy: policy::text(common, &policies, &cell.path),
                plan: self.plan,
                has_monitor: self.monitor,
                is_routed: policies.iter().any(|(_, own)| own.is_some_and(policy::is_routed)),
                groups: groups.iter().map(|(group, _)| group.clone()).collect(),
                sender_queue: self.sender_queue.clone(),
                is_first: self.is_first,
                transfer,
                repeat: self.repeat,
                sysctls: self.sysctls.clone(),
                path: cell.path,
                bytes: cell.bytes,
                memory_gib: cell.memory_gib,
            }
        });
        Ok(variants.collect())
    }

    fn groups(&self) -> Result<Vec<(Group, Option<Table>)>, &'static str> {
        let alone = RawGroup {
            name: self.name.clone(),
            streams: self.streams,
            start: Span::default(),
            policy: self.policy.clone(),
        };
        let raw = match (self.flows.as_slice(), self.streams.is_some() || self.policy.is_some()) {
            ([], _) => vec![alone],
            (flows, false) => flows.to_vec(),
            _ => return Err("a variant with flows states streams and policy for each of them"),
        };
        let ports = FIRST_PORT..;
        let groups = raw.into_iter().zip(ports).map(|(raw, port)| {
            let RawGroup { name, streams, start, policy } = raw;
            (Group { name, streams: streams.unwrap_or(1), start, port }, policy)
        });
        let groups: Vec<_> = groups.collect();
        if groups.iter().any(|(group, _)| group.streams == 0) {
            return Err("a variant needs at least one stream");
        }
        Ok(groups)
    }
}
