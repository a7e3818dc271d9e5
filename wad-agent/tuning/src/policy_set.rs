//! Turns the configured paths into the three maps of a policy set.

use std::collections::{HashMap, HashSet};

use wad_common::policy::{
    ANY_USER, BY_CGROUP, BY_INTERFACE, BY_MARK, BY_USER, CONGESTION_BYTES, INTERFACE_BYTES,
    NAME_BYTES, Policy, Rule, RuleRun,
};
use wad_policy::{
    config::{
        CgroupSelector, Congestion, InterfacePattern, Mapped, MatchRule, PathPolicy,
        cgroup_selectors, fields, interface_patterns, match_rules,
    },
    switch::Disabled,
};

use crate::{instance::Instance, shares::Shares};

/// Holds what a set is made with.
#[derive(Clone, Copy)]
pub struct Making<'a> {
    /// The set's number.
    pub generation: u64,
    /// Indices of paths of the set before: a path that is still there keeps its
    /// index, and with it its statistics and running flows.
    pub known: &'a HashMap<String, u32>,
    pub indices: Indices<'a>,
    pub instance: &'a Instance,
    pub disabled: &'a Disabled,
    /// The shares of new flows that policies are for.
    pub shares: &'a Shares,
}

/// Says which indices new paths get: none that a path before them has left anything
/// under, be it counts, a flow that still runs, or an event that nobody has read yet.
#[derive(Clone, Copy)]
pub struct Indices<'a> {
    /// The first to be given, if it is free.
    pub next: u32,
    /// Whether counts of a path that is gone are kept under an index.
    pub is_left: &'a dyn Fn(u32) -> bool,
}

/// A policy set is what the maps of one set hold.
#[derive(Debug, Default)]
pub struct PolicySet {
    pub prefixes: Vec<(Mapped, RuleRun)>,
    pub rules: Vec<Rule>,
    /// The policies, by index; None where a path is gone.
    pub policies: Vec<Option<Policy>>,
    /// The paths in the order of the file, with their policies' indices.
    pub names: Vec<(String, u32)>,
    /// The index behind the last one that was given to a new path.
    pub next: u32,
    /// The settings that paths would get whose flows are left alone.
    pub withheld: HashMap<u32, Withheld>,
    pub patterns: Patterns,
}

/// The patterns that rules have, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patterns {
    pub cgroups: Vec<CgroupSelector>,
    pub interfaces: Vec<InterfacePattern>,
}

/// Says which bit a selector of cgroups has, by its number: they count from the lowest up.
pub const fn cgroup_bit(number: usize) -> u64 {
    // A valid configuration has no more than there are bits.
    1_u64.wrapping_shl(number as u32)
}

/// Says which bit a pattern of interfaces has: they count from the highest down, and there are
/// no more of both than bits.
pub const fn interface_bit(number: usize) -> u64 {
    cgroup_bit(0).rotate_right(1).wrapping_shr(number as u32)
}

impl Patterns {
    fn of(paths: &[PathPolicy]) -> Self {
        Self { cgroups: cgroup_selectors(paths), interfaces: interface_patterns(paths) }
    }

    /// Returns the bits that a rule has for its patterns.
    fn bits(&self, own: &MatchRule) -> u64 {
        let number = |own| self.interfaces.iter().position(|pattern| *pattern == own);
        let interface = own.interface.and_then(number).map_or(0, interface_bit);
        own.cgroup.map_or(0, cgroup_bit) | interface
    }

    /// Returns how names of interfaces begin, in bits, with the bits of the patterns that all
    /// names fit which begin so.
    pub fn interface_prefixes(&self) -> Vec<([u8; INTERFACE_BYTES], u8, u64)> {
        let own = self.interfaces.iter();
        own.map(|within| {
            let numbered = self.interfaces.iter().enumerate();
            let around = numbered.filter(|(_, pattern)| pattern.covers(*within));
            let bits = around.fold(0, |bits, (number, _)| bits | interface_bit(number));
            let (name, counted_bits) = within.prefix();
            (name, counted_bits, bits)
        })
        .collect()
    }

    /// Returns those that a rule asks for by its bits.
    pub fn asked(&self, bits: u64) -> (Option<&CgroupSelector>, Option<&InterfacePattern>) {
        let is_asked = |bit: u64| bits & bit != 0;
        let mut cgroups = self.cgroups.iter().enumerate();
        let mut interfaces = self.interfaces.iter().enumerate();
        (
            cgroups.find(|(number, _)| is_asked(cgroup_bit(*number))).map(|(_, it)| it),
            interfaces.find(|(number, _)| is_asked(interface_bit(*number))).map(|(_, it)| it),
        )
    }
}

/// The settings of a path whose flows are left alone.
#[derive(Clone, Copy, Debug)]
pub struct Withheld {
    pub policy: Policy,
    /// Flows are left alone by the configuration, not by `wad disable`.
    pub observe: bool,
}

impl PolicySet {
    pub fn new(paths: &[PathPolicy], making: Making<'_>) -> Self {
        let Making { generation, known, indices, instance, disabled, shares } = making;
        let (names, next) = assign_indices(paths, known, indices);
        let mut policies = Vec::new();
        let mut withheld = HashMap::new();
        for (path, (_, index)) in paths.iter().zip(&names) {
            let place = *index as usize;
            if policies.len() <= place {
                policies.resize(place + 1, None);
            }
            let mut policy = policy(path, instance);
            policy.share = shares.within(&path.name, policy.share);
            let observe = path.observe;
            if observe || disabled.holds(&path.name) {
                withheld.insert(*index, Withheld { policy, observe });
                policy = Policy::observing(policy.name);
            }
            policies[place] = Some(Policy { generation, ..policy });
        }
        let patterns = Patterns::of(paths);
        let (prefixes, rules) = lay_out(paths, &names, &patterns);
        Self { prefixes, rules, policies, names, next, withheld, patterns }
    }
}

impl PolicySet {
    /// The run of the longest prefix of at most `bits` that has the address.
    pub fn run(&self, address: u128, bits: u8) -> Option<RuleRun> {
        let host = Mapped { address, bits: 128 };
        let fitting =
            self.prefixes.iter().filter(|(prefix, _)| prefix.bits <= bits && prefix.contains(host));
        fitting.max_by_key(|(prefix, _)| prefix.bits).map(|(_, run)| *run)
    }
}

/// The least room for indices: so many paths come before one gets an index that another
/// has had.
const LEAST_ROOM: u32 = 1024;

/// A path seen before keeps its index. A new one gets the next one that is free, round
/// and round in twice the room that all need: the policies are an array, which is to
/// stay small however many paths come and go. Returns the next index as well.
fn assign_indices(
    paths: &[PathPolicy],
    known: &HashMap<String, u32>,
    indices: Indices<'_>,
) -> (Vec<(String, u32)>, u32) {
    let Indices { mut next, is_left } = indices;
    let room = (2 * paths.len() as u32).max(LEAST_ROOM);
    let taken: HashSet<u32> = known.values().copied().collect();
    // It ends: only so many are taken, or have anything left.
    let mut candidates = (next..room).chain(0..next.min(room)).chain(next.max(room)..);
    let mut next_free = || {
        let index = candidates.find(|index| !taken.contains(index) && !is_left(*index));
        let index = index.expect("there are more than four thousand million");
        next = index + 1;
        index
    };
    let index_of = |path: &PathPolicy| known.get(&path.name).copied();
    let names = paths
        .iter()
        .map(|path| (path.name.clone(), index_of(path).unwrap_or_else(&mut next_free)))
        .collect();
    (names, next)
}

/// The run of each prefix: its own rules in their order, then those of the prefixes
/// around it, nearest first.
fn lay_out(
    paths: &[PathPolicy],
    names: &[(String, u32)],
    patterns: &Patterns,
) -> (Vec<(Mapped, RuleRun)>, Vec<Rule>) {
    let mut prefixes: Vec<(Mapped, RuleRun)> = Vec::new();
    let mut rules: Vec<Rule> = Vec::new();
    let mut around: Vec<(Mapped, RuleRun)> = Vec::new();
    for group in match_rules(paths).chunk_by(|a, b| a.remote == b.remote) {
        let prefix = group[0].remote;
        while around.last().is_some_and(|(outer, _)| !outer.contains(prefix)) {
            around.pop();
        }
        let first = rules.len();
        let rule = |own: &MatchRule| rule(own, names[own.path].1, patterns.bits(own));
        rules.extend(group.iter().map(rule));
        let mut by = group.iter().fold(0, |by, rule| by | depends_on(rule));
        if let Some((_, run)) = around.last() {
            let outer = run.first as usize..run.first as usize + usize::from(run.count);
            rules.extend_from_within(outer);
            by |= run.by;
        }
        // A valid configuration has far fewer.
        let count = rules[first..].len().min(u16::MAX.into()) as u16;
        let run = RuleRun { first: first as u32, count, by };
        around.push((prefix, run));
        prefixes.push((prefix, run));
    }
    (prefixes, rules)
}

fn depends_on(rule: &MatchRule) -> u16 {
    let by = [
        (rule.user.is_some(), BY_USER),
        (rule.cgroup.is_some(), BY_CGROUP),
        (rule.mark.is_some(), BY_MARK),
        (rule.interface.is_some(), BY_INTERFACE),
    ];
    by.into_iter().filter(|(is_asked, _)| *is_asked).fold(0, |all, (_, by)| all | by)
}

const fn rule(own: &MatchRule, policy: u32, patterns: u64) -> Rule {
    let (mark, mark_mask) = match own.mark {
        Some(mark) => (mark.value, mark.mask),
        None => (0, 0),
    };
    Rule {
        local_prefix: halves(own.local.address),
        local_mask: halves(own.local.mask()),
        ports: own.ports,
        policy,
        user: match own.user {
            Some(user) => user,
            None => ANY_USER,
        },
        patterns,
        mark,
        mark_mask,
    }
}

const fn halves(address: u128) -> [u64; 2] {
    [(address >> 64) as u64, address as u64]
}

fn policy(path: &PathPolicy, instance: &Instance) -> Policy {
    let congestion = match &path.congestion {
        None => String::new(),
        Some(Congestion::Ours(law)) => instance.algorithm(law.name()),
        Some(Congestion::Kernel(name)) => name.clone(),
    };
    Policy {
        congestion: padded::<CONGESTION_BYTES>(&congestion),
        ..fields::policy(path, padded::<NAME_BYTES>(&path.name))
    }
}

/// The text, cut and filled up with zeros, the last byte always one.
fn padded<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    for (to, byte) in bytes.iter_mut().take(N - 1).zip(text.bytes()) {
        *to = byte;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use ipnet::IpNet;
    use wad_common::{
        ports::{PortRange, Ports},
        share,
    };
    use wad_policy::config::{CgroupPattern, Mark, testing};

    use super::*;

    fn path(name: &str, remote: &[&str]) -> PathPolicy {
        PathPolicy {
            name: name.to_owned(),
            remote: remote.iter().map(|net| net.parse().expect("a prefix")).collect(),
            ..PathPolicy::default()
        }
    }

    fn set(paths: &[PathPolicy]) -> PolicySet {
        set_after(&HashMap::new(), paths, &Disabled::default())
    }

    #[test]
    fn only_where_a_rule_is_for_a_user_is_that_asked() {
        let user = PathPolicy { user: Some(993), ..path("user", &["10.1.0.0/16"]) };
        let paths = [path("wide", &["10.0.0.0/8"]), user, path("inner", &["10.1.2.0/24"])];
        let set = set(&paths);
        let by_user: Vec<_> = set.prefixes.iter().map(|(_, run)| run.by).collect();
        // What lies within has the user's rule as well.
        assert_eq!(by_user, [0, BY_USER, BY_USER]);
        let users: Vec<_> = set.rules.iter().map(|rule| rule.user).collect();
        assert_eq!(users, [ANY_USER, 993, ANY_USER, ANY_USER, 993, ANY_USER]);
    }

    #[test]
    fn what_rules_ask_for_is_looked_up_for_them_only() {
        let interface = |text| testing::interface(text);
        let mark = Some(Mark { value: 0x10, mask: 0xff });
        let paths = [
            PathPolicy { interface: interface("eth1"), ..path("a", &["10.0.0.0/8"]) },
            PathPolicy { mark, ..path("b", &["10.1.0.0/16"]) },
            PathPolicy { interface: interface("et*"), ..path("c", &["11.0.0.0/8"]) },
            PathPolicy {
                interface: interface("eth1"),
                cgroup: Some(CgroupPattern::Unit("x.service".to_owned()).into()),
                ..path("d", &["12.0.0.0/8"])
            },
        ];
        let set = set(&paths);
        let by: Vec<_> = set.prefixes.iter().map(|(_, run)| run.by).collect();
        let both = BY_INTERFACE | BY_MARK;
        assert_eq!(by, [BY_INTERFACE, both, BY_INTERFACE, BY_INTERFACE | BY_CGROUP]);
        let (eth1, et) = (1 << 63, 1 << 62);
        let bits: Vec<_> = set.rules.iter().map(|rule| rule.patterns).collect();
        assert_eq!(bits, [eth1, 0, eth1, et, eth1 | 1]);
        let marks: Vec<_> = set.rules.iter().map(|rule| (rule.mark, rule.mark_mask)).collect();
        assert_eq!(marks, [(0, 0), (0x10, 0xff), (0, 0), (0, 0), (0, 0)]);
        // The longer of the two is of both.
        let prefixes = set.patterns.interface_prefixes();
        let known: Vec<_> = prefixes.iter().map(|(_, counted, bits)| (*counted, *bits)).collect();
        assert_eq!(known, [(40, eth1 | et), (16, et)]);
        let asked = set.patterns.asked(eth1 | 1);
        assert_eq!((asked.0.is_some(), asked.1.copied()), (true, interface("eth1")));
    }

    #[test]
    fn bits_of_patterns_are_of_either_kind() {
        assert_eq!([0, 1, 63].map(cgroup_bit), [1, 2, 1 << 63]);
        assert_eq!([0, 1, 63].map(interface_bit), [1 << 63, 1 << 62, 1]);
    }

    fn set_after(
        known: &HashMap<String, u32>,
        paths: &[PathPolicy],
        disabled: &Disabled,
    ) -> PolicySet {
        let next = known.values().max().map_or(0, |last| last + 1);
        set_with(known, paths, disabled, Indices { next, is_left: &|_| false })
    }

    fn set_with(
        known: &HashMap<String, u32>,
        paths: &[PathPolicy],
        disabled: &Disabled,
        indices: Indices<'_>,
    ) -> PolicySet {
        let making = Making {
            generation: 7,
            known,
            indices,
            instance: &Instance::default(),
            disabled,
            shares: &Shares::default(),
        };
        PolicySet::new(paths, making)
    }

    /// Returns the indices of these paths, and the next one.
    fn indices(
        names: &[&str],
        known: &[(&str, u32)],
        next: u32,
        is_left: impl Fn(u32) -> bool,
    ) -> (Vec<u32>, u32) {
        let paths: Vec<_> = names.iter().map(|name| path(name, &["10.0.0.0/8"])).collect();
        let known = known.iter().map(|(name, index)| ((*name).to_owned(), *index)).collect();
        let indices = Indices { next, is_left: &is_left };
        let set = set_with(&known, &paths, &Disabled::default(), indices);
        (set.names.into_iter().map(|(_, index)| index).collect(), set.next)
    }

    fn policies_of(set: &PolicySet, prefix: &str) -> Vec<u32> {
        let prefix = Mapped::from(prefix.parse::<IpNet>().expect("a prefix"));
        let (_, run) = set.prefixes.iter().find(|(p, _)| *p == prefix).expect("in the set");
        let rules = run.first as usize..run.first as usize + usize::from(run.count);
        set.rules[rules].iter().map(|rule| rule.policy).collect()
    }

    #[test]
    fn a_run_holds_the_rules_of_the_prefixes_around_it_nearest_first() {
        let set = set(&[
            path("wide", &["10.0.0.0/8"]),
            path("host", &["10.5.1.1/32"]),
            path("narrow", &["10.5.0.0/16"]),
            path("beside", &["10.6.0.0/16"]),
        ]);
        assert_eq!(policies_of(&set, "10.5.1.1/32"), [1, 2, 0]);
        assert_eq!(policies_of(&set, "10.5.0.0/16"), [2, 0]);
        assert_eq!(policies_of(&set, "10.6.0.0/16"), [3, 0]);
        assert_eq!(policies_of(&set, "10.0.0.0/8"), [0]);
    }

    #[test]
    fn rules_of_one_prefix_stand_by_their_ports_then_in_the_order_of_the_file() {
        let set = set(&[path("a", &["10.0.0.0/8"]), path("b", &["10.0.0.0/8"])]);
        assert_eq!(policies_of(&set, "10.0.0.0/8"), [0, 1]);
    }

    #[test]
    fn a_list_of_ports_is_a_rule_for_each() {
        let list = [PortRange { first: 50_000, last: 51_000 }, PortRange::only(443)];
        let set = set(&[
            path("all", &["10.0.0.0/8"]),
            PathPolicy { remote_ports: list.to_vec(), ..path("list", &["10.0.0.0/8"]) },
            PathPolicy { local_ports: vec![list[1]], ..path("narrow", &["10.5.0.0/16"]) },
        ]);
        assert_eq!(policies_of(&set, "10.0.0.0/8"), [1, 1, 0]);
        assert_eq!(policies_of(&set, "10.5.0.0/16"), [2, 1, 1, 0]);
        let remote: Vec<_> = set.rules[..3].iter().map(|rule| rule.ports.remote).collect();
        assert_eq!(remote, [list[1], list[0], PortRange::ANY]);
        assert_eq!(set.rules[3].ports, Ports { remote: PortRange::ANY, local: list[1] });
    }

    #[test]
    fn an_ipv6_default_route_is_around_everything() {
        let set = set(&[path("all", &["::/0"]), path("four", &["0.0.0.0/0"])]);
        assert_eq!(policies_of(&set, "0.0.0.0/0"), [1, 0]);
    }

    #[test]
    fn a_path_keeps_its_index_and_a_new_one_gets_an_unused_one() {
        let known = HashMap::from([("a".to_owned(), 4), ("gone".to_owned(), 7)]);
        let paths = [path("new", &["10.0.0.0/8"]), path("a", &["11.0.0.0/8"])];
        let set = set_after(&known, &paths, &Disabled::default());
        assert_eq!(set.names, [("new".to_owned(), 8), ("a".to_owned(), 4)]);
        assert!(set.policies[7].is_none() && set.policies[8].is_some());
    }

    #[test]
    fn a_new_path_does_not_get_the_index_of_one_that_is_gone() {
        // The last of three has gone with the set before: nothing of it is known any more.
        assert_eq!(indices(&["a", "b", "new"], &[("a", 0), ("b", 1)], 3, |_| false).0, [0, 1, 3]);
        // All of them have.
        assert_eq!(indices(&["new"], &[], 3, |_| false), (vec![3], 4));
        // One comes in the place of the other.
        assert_eq!(indices(&["new"], &[("old", 3)], 4, |_| false), (vec![4], 5));
    }

    #[test]
    fn indices_are_given_again_once_nothing_is_left_of_whoever_had_them() {
        let left = |index| index < 5 || index == 1023;
        assert_eq!(indices(&["new"], &[("a", 5)], 1023, left), (vec![6], 7));
        // Within as much room as there is, unless there is something left everywhere.
        assert_eq!(indices(&["new"], &[], 1024, |_| false), (vec![0], 1));
        assert_eq!(indices(&["new"], &[], 1024, |index| index < 1024), (vec![1024], 1025));
        assert_eq!(indices(&["new"], &[], 2000, |index| index < 1024), (vec![2000], 2001));
    }

    #[test]
    fn what_is_observed_or_disabled_keeps_its_settings_aside() {
        let tuned =
            |name: &str| PathPolicy { sndbuf_bytes: Some(100_000), ..path(name, &["10.0.0.0/8"]) };
        let paths = [tuned("a"), PathPolicy { observe: true, ..tuned("b") }, tuned("c")];
        let disabled = Disabled { all: false, paths: ["c".to_owned()].into() };
        let set = set_after(&HashMap::new(), &paths, &disabled);
        assert!(set.policies.iter().flatten().all(|policy| policy.generation == 7));
        let sndbufs: Vec<_> =
            set.policies.iter().flatten().map(|policy| policy.sndbuf_bytes).collect();
        assert_eq!(sndbufs, [100_000, 0, 0]);
        assert!(set.policies[1].is_some_and(|policy| policy.observes()));
        let aside =
            |index: u32| set.withheld.get(&index).map(|it| (it.policy.sndbuf_bytes, it.observe));
        assert_eq!([0, 1, 2].map(aside), [None, Some((100_000, true)), Some((100_000, false))]);
    }

    #[test]
    fn shares_are_of_what_a_path_gives_be_it_disabled_or_not() {
        let paths = ["a", "b", "c"].map(|name| path(name, &["10.0.0.0/8"]));
        let disabled = Disabled { all: false, paths: ["b".to_owned()].into() };
        let mut given = Shares::default();
        for name in ["a", "b", "gone"] {
            given.give(name, 7);
        }
        let making = Making {
            generation: 7,
            known: &HashMap::new(),
            indices: Indices { next: 0, is_left: &|_| false },
            instance: &Instance::default(),
            disabled: &disabled,
            shares: &given,
        };
        let set = PolicySet::new(&paths, making);
        let shares: Vec<_> = set.policies.iter().flatten().map(|policy| policy.share).collect();
        assert_eq!(shares, [7, share::ALL, share::ALL]);
        assert_eq!(set.withheld[&1].policy.share, 7);
    }

    #[test]
    fn a_hundred_thousand_paths_are_laid_out_with_one_rule_each() {
        let paths: Vec<_> = (0..100_000_u32)
            .map(|n| {
                path(&n.to_string(), &[&format!("10.{}.{}.{}/32", n >> 16, n >> 8 & 255, n & 255)])
            })
            .collect();
        let set = set(&paths);
        assert_eq!((set.prefixes.len(), set.rules.len()), (100_000, 100_000));
    }
}
