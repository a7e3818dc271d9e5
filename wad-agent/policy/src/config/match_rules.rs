//! The rules that paths are for matching, in the order in which a flow tries them: the
//! kernel side, the check of overlaps and the rules of routes all have this one.
//!
//! A path is one rule for each combination of its prefixes and port ranges. The longest
//! remote prefix that has an address goes first; among the rules of one prefix those with the
//! most conditions on the socket (user, cgroups or pods, marks, interfaces), then those with the fewest
//! pairs of ports, and among those with as many the order of the file.

use wad_common::ports::{PortRange, Ports};

use super::{CgroupSelector, InterfacePattern, Mark, PathPolicy, prefix::Mapped};

/// A rule, as far as matching goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchRule {
    pub remote: Mapped,
    pub local: Mapped,
    pub ports: Ports,
    /// Number of the user; None for any.
    pub user: Option<u32>,
    /// Number of the selector that its cgroups fit; None for any.
    pub cgroup: Option<usize>,
    /// The marks of its socket; None for any.
    pub mark: Option<Mark>,
    /// The interfaces that its packets leave by; None for any.
    pub interface: Option<InterfacePattern>,
    /// Index of its path.
    pub path: usize,
}

impl MatchRule {
    /// Returns how many of the conditions on sockets it does not have.
    fn open_conditions(&self) -> usize {
        let Self { user, cgroup, mark, interface, .. } = self;
        let is_open = [user.is_none(), cgroup.is_none(), mark.is_none(), interface.is_none()];
        is_open.into_iter().filter(|is_open| *is_open).count()
    }
}

/// Returns the rules of all paths: a prefix stands behind those around it, and the rules
/// of one prefix are in their order.
pub fn match_rules(paths: &[PathPolicy]) -> Vec<MatchRule> {
    let mut rules = Vec::with_capacity(paths.len());
    let selectors = cgroup_selectors(paths);
    for (index, path) in paths.iter().enumerate() {
        let number = |own| selectors.iter().position(|selector| selector == own);
        let cgroup = path.cgroup.as_ref().and_then(number);
        for &remote in &path.remote {
            for local in locals(path) {
                let rule = |ports| MatchRule {
                    remote: remote.into(),
                    local,
                    ports,
                    user: path.user,
                    cgroup,
                    mark: path.mark,
                    interface: path.interface,
                    path: index,
                };
                rules.extend(path.ports().map(rule));
            }
        }
    }
    // Stable: the order of the file remains.
    rules.sort_by_key(|rule| (rule.remote, rule.open_conditions(), rule.ports.pairs()));
    rules
}

/// Returns the selectors of cgroups that paths have, each once. Their numbers are their places.
/// There are but few, see [`PATTERNS`](wad_common::policy::PATTERNS).
pub fn cgroup_selectors(paths: &[PathPolicy]) -> Vec<CgroupSelector> {
    each_once(paths.iter().filter_map(|path| path.cgroup.as_ref()))
}

/// Returns the patterns of interfaces, likewise.
pub fn interface_patterns(paths: &[PathPolicy]) -> Vec<InterfacePattern> {
    each_once(paths.iter().filter_map(|path| path.interface.as_ref()))
}

fn each_once<'p, T: Clone + PartialEq + 'p>(all: impl Iterator<Item = &'p T>) -> Vec<T> {
    let mut each = Vec::new();
    for one in all {
        if !each.contains(one) {
            each.push(one.clone());
        }
    }
    each
}

fn locals(path: &PathPolicy) -> impl Iterator<Item = Mapped> {
    let any = path.local.is_empty().then_some(Mapped::ANY);
    any.into_iter().chain(path.local.iter().map(|&net| net.into()))
}

impl PathPolicy {
    /// Returns the pairs of port ranges of its rules.
    pub fn ports(&self) -> impl Iterator<Item = Ports> {
        let remotes = or_any(&self.remote_ports);
        remotes.iter().flat_map(|&remote| {
            or_any(&self.local_ports).iter().map(move |&local| Ports { remote, local })
        })
    }

    /// The number of its rules.
    pub fn rule_count(&self) -> usize {
        let ports = self.remote_ports.len().max(1) * self.local_ports.len().max(1);
        self.remote.len() * self.local.len().max(1) * ports
    }
}

fn or_any(ranges: &[PortRange]) -> &[PortRange] {
    if ranges.is_empty() { &[PortRange::ANY] } else { ranges }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::{CgroupPattern, testing};

    fn path(remote_ports: &[PortRange]) -> PathPolicy {
        PathPolicy {
            remote: vec!["10.0.0.0/8".parse().expect("a prefix")],
            remote_ports: remote_ports.to_vec(),
            ..PathPolicy::default()
        }
    }

    fn range(first: u16, last: u16) -> PortRange {
        PortRange { first, last }
    }

    /// The path that a flow to this port falls under.
    fn taken(rules: &[MatchRule], port: u16) -> Option<usize> {
        rules.iter().find(|rule| rule.ports.remote.has(port)).map(|rule| rule.path)
    }

    #[test]
    fn a_port_goes_before_a_range_and_a_narrow_range_before_a_wide_one() {
        let paths = [
            path(&[]),
            path(&[range(1, 1000)]),
            path(&[range(400, 499)]),
            path(&[range(443, 443)]),
        ];
        let rules = match_rules(&paths);
        let order: Vec<_> = rules.iter().map(|rule| rule.path).collect();
        assert_eq!(order, [3, 2, 1, 0]);
        for (port, path) in [(443, 3), (400, 2), (499, 2), (500, 1), (399, 1), (1001, 0)] {
            assert_eq!(taken(&rules, port), Some(path), "{port}");
        }
    }

    #[test]
    fn a_users_path_goes_before_those_for_any_user() {
        let paths = [path(&[range(443, 443)]), PathPolicy { user: Some(993), ..path(&[]) }];
        let order: Vec<_> = match_rules(&paths).iter().map(|rule| rule.path).collect();
        assert_eq!(order, [1, 0]);
    }

    #[test]
    fn the_more_conditions_a_path_has_on_whose_it_is_the_earlier_it_goes() {
        let unit = |name: &str| Some(CgroupPattern::Unit(name.to_owned()).into());
        let a = PathPolicy { cgroup: unit("a.service"), ..path(&[]) };
        let b = PathPolicy { cgroup: unit("b.service"), ..path(&[range(443, 443)]) };
        let both = PathPolicy { user: Some(0), ..a.clone() };
        let rules = match_rules(&[path(&[]), a, b, both]);
        let order: Vec<_> = rules.iter().map(|rule| (rule.path, rule.cgroup)).collect();
        assert_eq!(order, [(3, Some(0)), (2, Some(1)), (1, Some(0)), (0, None)]);
    }

    #[test]
    fn each_condition_on_the_socket_counts_as_one() {
        let mark = Some(Mark { value: 1, mask: 1 });
        let interface = testing::interface("eth*");
        let one = PathPolicy { mark, ..path(&[]) };
        let other = PathPolicy { interface, ..path(&[range(443, 443)]) };
        let both = PathPolicy { mark, ..other.clone() };
        let three = PathPolicy { user: Some(0), mark, interface, ..path(&[]) };
        let rules = match_rules(&[path(&[range(443, 443)]), one, other, three, both]);
        let order: Vec<_> = rules.iter().map(|rule| rule.path).collect();
        assert_eq!(order, [3, 4, 2, 1, 0]);
    }

    #[test]
    fn the_order_of_the_file_decides_between_as_many_ports() {
        let local = PathPolicy { local_ports: vec![range(22, 22)], ..path(&[]) };
        let paths = [local, path(&[range(443, 443)])];
        let order: Vec<_> = match_rules(&paths).iter().map(|rule| rule.path).collect();
        assert_eq!(order, [0, 1]);
    }

    #[test]
    fn a_path_is_a_rule_for_each_combination() {
        let mut all = path(&[range(1, 1), range(5, 9)]);
        all.local_ports = vec![range(20, 21), range(30, 30)];
        all.remote.push("2001:db8::/32".parse().expect("a prefix"));
        all.local = ["192.0.2.1/32", "192.0.2.2/32", "2001:db8::1/128"]
            .map(|net| net.parse().expect("a prefix"))
            .to_vec();
        assert_eq!(match_rules(std::slice::from_ref(&all)).len(), 24);
        assert_eq!((all.rule_count(), path(&[]).rule_count()), (24, 1));
    }

    fn ranges() -> impl Strategy<Value = Vec<PortRange>> {
        let one = (1..40_u16, 0..12_u16).prop_map(|(first, more)| range(first, first + more));
        prop::collection::vec(one, 0..4)
    }

    proptest! {
        #[test]
        fn a_list_is_the_union_of_its_members(members in ranges().prop_filter("some", |r| !r.is_empty())) {
            let listed = match_rules(&[path(&members)]);
            let apart: Vec<_> = members.iter().map(|member| path(&[*member])).collect();
            let apart = match_rules(&apart);
            for port in 0..60 {
                let is_in = members.iter().any(|member| member.has(port));
                prop_assert_eq!(taken(&listed, port).is_some(), is_in);
                prop_assert_eq!(taken(&apart, port).is_some(), is_in);
            }
        }

        /// Whatever the order of the file: a flow falls under a path with the fewest ports
        /// of all that have its port.
        #[test]
        fn the_most_specific_takes_a_flow(lists in prop::collection::vec(ranges(), 1..6)) {
            let paths: Vec<_> = lists.iter().map(|ranges| path(ranges)).collect();
            let rules = match_rules(&paths);
            for port in 1..60 {
                let fitting = paths.iter().flat_map(PathPolicy::ports).filter(|p| p.remote.has(port));
                let fewest = fitting.map(Ports::pairs).min();
                let taken = rules.iter().find(|rule| rule.ports.remote.has(port));
                prop_assert_eq!(taken.map(|rule| rule.ports.pairs()), fewest);
            }
        }

        /// Paths without doubt between them stand in the same order in any file.
        #[test]
        fn the_order_is_total(lists in prop::collection::vec(ranges(), 1..6)) {
            let paths: Vec<_> = lists.iter().map(|ranges| path(ranges)).collect();
            let reversed: Vec<_> = paths.iter().rev().cloned().collect();
            let order = |paths: &[PathPolicy]| -> Vec<u64> {
                match_rules(paths).iter().map(|rule| rule.ports.pairs()).collect()
            };
            prop_assert_eq!(order(&paths), order(&reversed));
            prop_assert!(order(&paths).is_sorted());
        }
    }
}
