//! Turns paths into rules: they have the same order as the kernel side has for flows,
//! so that a connection's route has the metrics of the path that it falls under.

use std::{cmp::Reverse, collections::HashSet, sync::Arc};

use ipnet::{IpNet, Ipv4Net};
use wad_common::ports::{PortRange, Ports};

use super::{LAST_PORT, RouteMetrics, Rule, To};
use crate::{
    config::{Mapped, PathPolicy, covers_ipv4},
    switch::Disabled,
};

/// The paths that routes are about: those that want metrics, and those within their
/// prefixes that do not. In the order of look-up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection(Vec<Entry>);

/// A path and one of its prefixes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    path: Arc<str>,
    remote: IpNet,
    /// The local addresses; None for a path that is for other local addresses only.
    locals: Vec<Option<IpNet>>,
    ports: Ports,
    metrics: RouteMetrics,
    /// The place in the order of look-up.
    order: (Reverse<u8>, u64),
}

/// A rule, and the path that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    pub path: Arc<str>,
    pub rule: Rule,
}

impl Selection {
    pub fn of(paths: &[PathPolicy]) -> Self {
        // A path for some sockets only has no metrics of routes, and no rule could go past for
        // it alone.
        let paths = || paths.iter().filter(|path| !path.is_by_socket());
        let wanting = paths().filter(|path| !RouteMetrics::of(path).is_nothing());
        let wanted: HashSet<IpNet> = wanting.flat_map(remotes).map(|(net, _)| net).collect();
        if wanted.is_empty() {
            return Self::default();
        }
        let mut entries = Vec::new();
        for path in paths() {
            let metrics = RouteMetrics::of(path);
            let within = |net: &IpNet| around(*net).any(|around| wanted.contains(&around));
            let name = Arc::from(path.name.as_str());
            for (remote, bits) in
                remotes(path).filter(|(net, _)| !metrics.is_nothing() || within(net))
            {
                entries.extend(path.ports().filter_map(|ports| {
                    Some(Entry {
                        path: Arc::clone(&name),
                        remote,
                        locals: locals(path, &remote),
                        ports: known_to_rules(ports)?,
                        metrics,
                        order: (Reverse(bits), ports.pairs()),
                    })
                }));
            }
        }
        // Stable: the order of the file remains.
        entries.sort_by_key(|entry| entry.order);
        Self(entries)
    }

    /// Returns the rules: what is disabled is given nothing, but goes on to be what
    /// it was.
    pub fn rules(&self, disabled: &Disabled) -> Vec<Selected> {
        let mut selected = Vec::new();
        for entry in &self.0 {
            let metrics =
                if disabled.holds(&entry.path) { RouteMetrics::default() } else { entry.metrics };
            let to = if metrics.is_nothing() { To::Main } else { To::Table(metrics.table()) };
            for local in &entry.locals {
                let rule = Rule { remote: entry.remote, local: *local, ports: entry.ports, to };
                selected.push(Selected { path: Arc::clone(&entry.path), rule });
            }
        }
        // Past nothing there is nothing to go past.
        let last = selected.iter().rposition(|selected| selected.rule.to != To::Main);
        selected.truncate(last.map_or(0, |last| last + 1));
        selected
    }
}

/// Returns a path's remote prefixes, with that of IPv4 where a prefix covers it; each with
/// the length by which flows are looked up.
fn remotes(path: &PathPolicy) -> impl Iterator<Item = (IpNet, u8)> {
    let nets = |net: &IpNet| [Some(*net), ipv4_in(net)].into_iter().flatten();
    path.remote.iter().flat_map(move |net| nets(net).map(|one| (one, Mapped::from(*net).bits)))
}

/// Returns the ports as far as rules can choose them.
fn known_to_rules(Ports { remote, local }: Ports) -> Option<Ports> {
    let known = |range: PortRange| {
        if range == PortRange::ANY {
            Some(range)
        } else {
            range.common(PortRange { first: 1, last: LAST_PORT })
        }
    };
    Some(Ports { remote: known(remote)?, local: known(local)? })
}

fn ipv4_in(net: &IpNet) -> Option<IpNet> {
    (net.addr().is_ipv6() && covers_ipv4(*net)).then(|| Ipv4Net::default().into())
}

/// Returns the local prefixes of a remote prefix's family; one None for any.
fn locals(path: &PathPolicy, remote: &IpNet) -> Vec<Option<IpNet>> {
    if path.local.is_empty() {
        return vec![None];
    }
    let all = path.local.iter().flat_map(|net| [Some(*net), ipv4_in(net)]).flatten();
    let same = all.filter(|local| local.addr().is_ipv4() == remote.addr().is_ipv4());
    same.map(|local| (local.prefix_len() > 0).then_some(local)).collect()
}

/// The prefix, and those around it.
fn around(net: IpNet) -> impl Iterator<Item = IpNet> {
    let v6 = net.addr().is_ipv4().then(|| "::/0".parse().expect("a prefix"));
    std::iter::successors(Some(net), IpNet::supernet).chain(v6)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::{Config, testing::host};

    fn rules(text: &str, disabled: &Disabled) -> Vec<String> {
        let config = Config::parse("wad.toml", text, &host()).unwrap();
        let selected = Selection::of(&config.paths).rules(disabled);
        let shown = selected.iter().map(|Selected { path, rule }| {
            let to = match rule.to {
                To::Table(table) => table.to_string(),
                To::Main => "main".to_owned(),
            };
            let local = rule.local.map_or(String::new(), |local| format!(" from {local}"));
            let port = match rule.ports.remote {
                PortRange::ANY => String::new(),
                range => format!(" :{range}"),
            };
            format!("{path}: {}{local}{port} {to}", rule.remote)
        });
        shown.collect()
    }

    const NESTED: &str = "
        [[path]]
        name = 'wide'
        remote = '10.0.0.0/8'
        reorder = 9
        [[path]]
        name = 'elsewhere'
        remote = '192.0.2.0/24'
        [[path]]
        name = 'plain'
        remote = '10.1.0.0/16'
        remote_port = 80
        [[path]]
        name = 'narrow'
        remote = '10.1.2.0/24'
        reorder = 19
        delayed_ack = false
    ";

    #[test]
    fn the_longest_prefix_comes_first_and_plain_paths_go_past_the_wider() {
        assert_eq!(
            rules(NESTED, &Disabled::default()),
            [
                "narrow: 10.1.2.0/24 1190039",
                "plain: 10.1.0.0/16 :80 main",
                "wide: 10.0.0.0/8 1190018"
            ]
        );
    }

    #[test]
    fn what_is_disabled_is_gone_past() {
        let paths = BTreeSet::from(["narrow".to_owned()]);
        assert_eq!(rules(NESTED, &Disabled { all: false, paths })[0], "narrow: 10.1.2.0/24 main");
        let wide = BTreeSet::from(["wide".to_owned()]);
        assert_eq!(
            rules(NESTED, &Disabled { all: false, paths: wide }),
            ["narrow: 10.1.2.0/24 1190039"]
        );
        assert_eq!(rules(NESTED, &Disabled { all: true, paths: BTreeSet::new() }), [""; 0]);
    }

    #[test]
    fn rules_of_ports_have_the_order_that_flows_have() {
        let text = "
            [[path]]
            name = 'all'
            remote = '::/0'
            reorder = 9
            [[path]]
            name = 'list'
            remote = '0.0.0.0/0'
            remote_port = ['50000-51000', 443]
            reorder = 19
            [[path]]
            name = 'port'
            remote = '0.0.0.0/0'
            remote_port = 50500
        ";
        assert_eq!(
            rules(text, &Disabled::default()),
            [
                "list: 0.0.0.0/0 :443 1190038",
                "port: 0.0.0.0/0 :50500 main",
                "list: 0.0.0.0/0 :50000-51000 1190038",
                "all: ::/0 1190018",
                "all: 0.0.0.0/0 1190018",
            ]
        );
    }

    #[test]
    fn rules_end_before_the_last_port() {
        let text = |ports: &str| {
            format!(
                "[[path]]\nname = 'p'\nremote = '10.0.0.0/8'\nreorder = 19\nremote_port = {ports}\n"
            )
        };
        let rules = |ports| rules(&text(ports), &Disabled::default());
        assert_eq!(rules("'60000-65535'"), ["p: 10.0.0.0/8 :60000-65534 1190038"]);
        assert_eq!(rules("65535"), [""; 0]);
        assert_eq!(rules("0"), ["p: 10.0.0.0/8 1190038"]);
    }

    #[test]
    fn each_family_has_its_local_prefixes() {
        let text = "[[path]]\nname = 'p'\nremote = ['10.0.0.0/8', '2001:db8::/32']\n\
                    local = ['192.0.2.1', '192.0.2.2']\ndelayed_ack = false\n";
        assert_eq!(
            rules(text, &Disabled::default()),
            ["p: 10.0.0.0/8 from 192.0.2.1/32 1190001", "p: 10.0.0.0/8 from 192.0.2.2/32 1190001"]
        );
    }

    #[test]
    fn a_prefix_that_covers_ipv4_is_for_both() {
        let text = "[[path]]\nname = 'p'\nremote = '::/0'\nreorder = 19\n\
                    [[path]]\nname = 'q'\nremote = '10.0.0.0/8'\n";
        assert_eq!(
            rules(text, &Disabled::default()),
            ["q: 10.0.0.0/8 main", "p: ::/0 1190038", "p: 0.0.0.0/0 1190038"]
        );
    }

    #[test]
    fn no_metrics_no_rules() {
        let text = "[[path]]\nname = 'p'\nremote = '::/0'\nmode = 'observe'\nreorder = 19\n";
        assert_eq!(rules(text, &Disabled::default()), [""; 0]);
    }
}
