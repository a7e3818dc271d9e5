//! Variants of a scenario say which flows run, and under which policy.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Table;
use wad_testbed::{
    emulated::{path::Path, units::Span},
    settings,
};

use super::{Grid, Load, Plan, group::Group, policy};
use crate::client::Client;

/// Port of the first group of flows; the next one has the next.
const FIRST_PORT: u16 = 5001;

/// A variant as a file has it: either one kind of flow, or several groups.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawVariant {
    pub name: String,
    paper: Option<String>,
    by_hand: Option<bool>,
    streams: Option<u32>,
    policy: Option<Table>,
    /// Keys of every policy do not hold for it.
    #[serde(default)]
    alone: bool,
    plan: Option<Plan>,
    #[serde(default)]
    flows: Vec<RawGroup>,
    client: Option<Client>,
    /// It runs over this path, not over that of the scenario.
    path: Option<Path>,
    #[serde(default)]
    unread: u32,
    sender_queue: Option<String>,
    #[serde(default)]
    is_first: bool,
    transfer: Option<u32>,
    repeat: Option<u32>,
    monitor: Option<Monitored>,
    #[serde(default)]
    peers: bool,
    #[serde(default)]
    bpftune: bool,
    #[serde(default)]
    sysctls: BTreeMap<String, String>,
}

/// Who tells an agent what a path carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Monitored {
    /// A Prometheus, of an exporter that has the path's figures.
    Prometheus,
    /// Another host's `wad probe run`, which has measured the path.
    Probe,
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
    /// Tells whether it is what somebody would do by hand, with nothing but the kernel; left out,
    /// the law tells.
    pub by_hand: Option<bool>,
    pub groups: Vec<Group>,
    /// Configuration of `wad`, but for `[agent]`, `[metrics]` and `[[source]]`;
    /// without it no agent runs.
    pub policy: Option<String>,
    /// The configuration is what `wad plan` prints, and not known before it is asked.
    pub plan: Option<Plan>,
    /// The variant's agent is told by this what the path carries.
    pub monitor: Option<Monitored>,
    /// The configuration is the sender's alone. The receiver has an agent of its own, which knows
    /// no path, and both talk.
    pub has_peers: bool,
    /// Metrics of routes are those of the sender's namespace: the agent runs there.
    pub is_routed: bool,
    /// The client that moves its data, where it is not the scenario's.
    pub client: Option<Client>,
    /// Connections over a second path whose receivers never read.
    pub unread: u32,
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
    /// Oracle's bpftune runs in place of an agent.
    pub has_bpftune: bool,
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

    /// Returns why it cannot move a load by its client, or that of all, if so.
    #[must_use]
    pub fn fault(&self, of_all: Option<Client>, load: Load) -> Option<&'static str> {
        let is_for_a_time = matches!(load, Load::Seconds(_));
        if is_for_a_time && self.client.or(of_all) == Some(Client::Curl) {
            return Some("curl gets objects of so many bytes");
        }
        (!is_for_a_time && self.unread > 0)
            .then_some("what is never read fills up beside a transfer of so many seconds")
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
        if self.peers && groups.iter().any(|(_, policy)| policy.is_none()) {
            return Err("a sender that tells its peer has a policy");
        }
        if self.bpftune
            && (self.plan.is_some() || groups.iter().any(|(_, policy)| policy.is_some()))
        {
            return Err("bpftune runs in place of an agent: the variant has no policy");
        }
        if self.is_first && self.sender_queue.is_some() {
            return Err("a sender with a queue of its own is in a namespace of its own");
        }
        if !self.sysctls.keys().all(|name| settings::is_known(name)) {
            return Err("a variant has a sysctl that the lab does not know");
        }
        let none = Table::new();
        let common = if self.alone { &none } else { common };
        let path = self.path.as_ref().unwrap_or(path);
        let variants = grid.cells(path).into_iter().map(|cell| {
            let policies: Vec<_> =
                groups.iter().map(|(group, policy)| (group, policy.as_ref())).collect();
            let second = policies.first().and_then(|(_, own)| *own).filter(|_| self.unread > 0);
            let second = second.map(|own| policy::of_second(common, own, &cell.path));
            let policy = policy::text(common, &policies, &cell.path);
            Variant {
                name: format!("{}{}", self.name, cell.suffix),
                base: self.name.clone(),
                paper: self.paper.clone(),
                by_hand: self.by_hand,
                policy: policy.map(|text| text + second.as_deref().unwrap_or_default()),
                plan: self.plan,
                monitor: self.monitor,
                has_peers: self.peers,
                is_routed: policies.iter().any(|(_, own)| own.is_some_and(policy::is_routed)),
                groups: groups.iter().map(|(group, _)| group.clone()).collect(),
                client: self.client,
                unread: self.unread,
                sender_queue: self.sender_queue.clone(),
                is_first: self.is_first,
                transfer,
                repeat: self.repeat,
                has_bpftune: self.bpftune,
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
        let mut port = FIRST_PORT;
        let groups = raw.into_iter().map(|RawGroup { name, streams, start, policy }| {
            let group = Group { name, streams: streams.unwrap_or(1), start, port };
            port = group.ports().end().saturating_add(1);
            (group, policy)
        });
        let groups: Vec<_> = groups.collect();
        if groups.iter().any(|(group, _)| group.streams == 0) {
            return Err("a variant needs at least one stream");
        }
        Ok(groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    fn parse(variant: &str, load: &str) -> Result<Variant, String> {
        let text = format!(
            "description = ''\n{load}\nvariant = [{{ name = 'a', {variant} }}]\n\
             path = {{ rtt = '1ms', forward = {{ rate = '1Mbit', queue.bdp = 1 }} }}\n"
        );
        let parsed = Scenario::parse("x", std::path::Path::new("x.toml"), &text);
        parsed.map(|mut scenario| scenario.variants.remove(0)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_variant_may_have_a_client_and_a_path_of_its_own() {
        let own = "client = 'iperf3', policy = { sndbuf = 'auto' }, \
                   path = { rtt = '7ms', forward = { rate = '9Mbit', queue.bdp = 1 } }";
        let variant = parse(own, "seconds = 9").unwrap();
        assert_eq!(variant.client, Some(Client::Iperf3));
        assert_eq!(variant.path.forward.rate.bits_per_second, 9_000_000);
        assert!(variant.policy.is_some_and(|policy| policy.contains("bandwidth = \"9000000bit\"")));
        let error = parse("client = 'curl'", "seconds = 9").unwrap_err();
        assert!(error.contains("so many bytes"), "{error}");
        let faulty =
            "path = { rtt = '7ms', forward = { rate = '9Mbit', queue.bdp = 1, loss = 2 } }";
        assert!(parse(faulty, "seconds = 9").is_err());
    }

    #[test]
    fn bpftune_is_in_place_of_an_agent() {
        assert!(parse("bpftune = true, transfer = 4", "seconds = 9").unwrap().has_bpftune);
        for policy in ["plan = 'first'", "policy = { sndbuf = 'auto' }"] {
            let error = parse(&format!("bpftune = true, {policy}"), "seconds = 9").unwrap_err();
            assert!(error.contains("in place of an agent"), "{error}");
        }
    }

    #[test]
    fn what_nobody_reads_has_a_path_of_its_own() {
        let tuned = parse("unread = 64, policy = { sndbuf = '1MiB' }", "seconds = 9").unwrap();
        let policy: Table = tuned.policy.unwrap().parse().unwrap();
        let remotes = policy["path"].as_array().unwrap().iter().map(|path| path["remote"].as_str());
        assert!(remotes.eq([Some("10.77.0.0/16"), Some("10.78.0.0/16")]), "{policy}");
        assert_eq!(parse("unread = 64", "seconds = 9").unwrap().policy, None);
        let error = parse("unread = 64", "bytes = 9").unwrap_err();
        assert!(error.contains("so many seconds"), "{error}");
    }

    #[test]
    fn a_group_has_a_port_for_each_process_of_iperf3() {
        let flows = "flows = [{ name = 'c', streams = 300 }, { name = 'd' }]";
        let groups = parse(flows, "seconds = 9").unwrap().groups;
        assert_eq!([groups[0].ports(), groups[1].ports()], [5001..=5003, 5004..=5004]);
    }
}
