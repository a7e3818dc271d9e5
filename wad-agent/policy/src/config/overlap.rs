//! Finds what is wrong between paths: names given twice, rules that never match, too
//! many rules for one address, and rules of which none goes before the other.

mod doubt;
mod fit;
mod left_over;

use std::collections::{BTreeSet, HashMap, HashSet};

use ipnet::Ipv6Net;
use wad_common::policy::{MAX_PATHS, PATTERNS, RULES_PER_ADDRESS};

pub use self::fit::{Unfit, fit};
use self::{
    doubt::Doubt,
    fit::Nesting,
    left_over::{is_left_over, share_flows},
};
use super::{
    PathPolicy,
    fault::{Fault, Problems, Span},
    match_rules::{MatchRule, match_rules},
};

/// Most rules, those of the prefixes around each prefix included: 64 MiB of
/// kernel memory.
const MAX_RULES: usize = 1 << 20;

/// Says where a path is in the file.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    pub name: Span,
    pub remote: Span,
    /// This is the place of `remote` where the file has none, as those of the ports are.
    pub remote_set: Span,
    pub remote_name: Span,
    /// These are the place of `remote` where the file has none.
    pub remote_port: Span,
    pub local_port: Span,
    pub allow: Span,
    pub experiment: Span,
    pub neighbours: Span,
}

/// `sites` are those of `paths`, one for one.
pub fn check(paths: &[PathPolicy], sites: &[Site], problems: &mut Problems) {
    if let Some(site) = sites.get(MAX_PATHS as usize) {
        let fault = Fault::new(format!("{} paths", paths.len()), format!("at most {MAX_PATHS}"));
        problems
            .push(fault.help("put networks with the same settings into one path").at(site.name));
        return;
    }
    check_names(paths, sites, problems);
    // Before they are made: a file of 1 MB can describe a billion.
    let mut count = 0;
    let beyond = paths.iter().position(|path| {
        count += path.rule_count();
        count > MAX_RULES
    });
    if let Some(path) = beyond_patterns(paths) {
        let label = format!("at most {PATTERNS} in all paths together");
        let fault = Fault::new("too many patterns of cgroups and interfaces", label);
        problems
            .push(fault.help("join them by a pattern with *, or by a label").at(sites[path].name));
        return;
    }
    match beyond {
        Some(path) => problems.push(too_many_rules().at(sites[path].remote)),
        None => check_rules(paths, sites, problems),
    }
}

/// Returns the first path whose pattern is one too many.
fn beyond_patterns(paths: &[PathPolicy]) -> Option<usize> {
    let (mut cgroups, mut interfaces) = (HashSet::new(), HashSet::new());
    paths.iter().position(|path| {
        cgroups.extend(&path.cgroup);
        interfaces.extend(path.interface);
        cgroups.len() + interfaces.len() > PATTERNS
    })
}

fn too_many_rules() -> Fault {
    let label = format!("more than {MAX_RULES} with those of the paths before");
    Fault::new("too many rules", label).help(
        "a path is a rule for each combination of its prefixes and ports: use shorter prefixes",
    )
}

fn check_names(paths: &[PathPolicy], sites: &[Site], problems: &mut Problems) {
    let mut first = HashMap::with_capacity(paths.len());
    for (path, site) in paths.iter().zip(sites) {
        if let Some(before) = first.insert(path.name.as_str(), site.name) {
            let fault = Fault::new("two paths have the same name", "the second");
            let fault = fault.help("metrics and statistics go by the name: rename one");
            problems.push(fault.at(site.name).also(before, "the first"));
        }
    }
}

/// Whether both ends of a rule can be of the same family.
fn is_possible(rule: &MatchRule) -> bool {
    let (remote, local) = (rule.remote.families(), rule.local.families());
    (remote.0 && local.0) || (remote.1 && local.1)
}

/// Says what becomes of a path's rules.
#[derive(Clone, Copy, Default)]
struct Fate {
    rules: usize,
    never: usize,
    /// A path whose rules take flows of one of this path's that never matches.
    covered_by: Option<usize>,
    /// It is not that path alone.
    is_shared: bool,
    /// A path of which it is open whether it goes before this one.
    doubt: Option<Doubt>,
}

fn check_rules(paths: &[PathPolicy], sites: &[Site], problems: &mut Problems) {
    let mut fates = vec![Fate::default(); paths.len()];
    let mut nesting = Nesting::default();
    for group in match_rules(paths).chunk_by(|a, b| a.remote == b.remote) {
        settle(group, &mut fates);
        let count = nesting.enter(group);
        if nesting.total > MAX_RULES && nesting.total - count <= MAX_RULES {
            problems.push(too_many_rules().at(sites[group[0].path].remote));
        }
        let outside = count - group.len();
        // Told once, not again for each prefix within.
        if count > RULES_PER_ADDRESS && outside <= RULES_PER_ADDRESS {
            let beyond = group[RULES_PER_ADDRESS - outside].path;
            problems.push(too_many_at_once(count).at(sites[beyond].remote));
        }
    }
    for rules in rules_of_sets(paths) {
        settle(&rules, &mut fates);
        if let Some(beyond) = rules.get(RULES_PER_ADDRESS) {
            problems.push(too_many_at_once(rules.len()).at(sites[beyond.path].remote_set));
        }
    }
    for (path, fate) in fates.iter().enumerate().filter(|(_, fate)| fate.rules > 0) {
        if let Some(doubt) = &fate.doubt {
            problems.push(doubt.problem(path, paths, sites));
        }
        if fate.never == fate.rules {
            let problem = never_matches(fate).at(sites[path].remote);
            problems.push(match fate.covered_by {
                Some(before) if fate.is_shared => {
                    problem.also(sites[before].remote, "this path takes some of them")
                }
                Some(before) => problem.also(sites[before].remote, "this path takes them"),
                None => problem,
            });
        }
    }
}

/// Returns the rules that paths have by each set: whatever it holds, there they stand beside
/// one another.
fn rules_of_sets(paths: &[PathPolicy]) -> impl Iterator<Item = Vec<MatchRule>> {
    let names: BTreeSet<_> = paths.iter().flat_map(|path| path.origin.lists()).collect();
    names.into_iter().map(move |name| {
        let is_of = |path: &&PathPolicy| path.origin.lists().any(|list| list == name);
        let (places, of_set): (Vec<_>, Vec<_>) = (0..)
            .zip(paths)
            .filter(|(_, path)| is_of(path))
            .map(|(place, path)| {
                (place, PathPolicy { remote: vec![Ipv6Net::default().into()], ..path.clone() })
            })
            .unzip();
        let mut rules = match_rules(&of_set);
        rules.iter_mut().for_each(|rule| rule.path = places[rule.path]);
        rules
    })
}

/// Returns the paths of which no rule can match, by the prefixes that are known.
pub fn unreachable(paths: &[PathPolicy]) -> Vec<usize> {
    let mut fates = vec![Fate::default(); paths.len()];
    for group in match_rules(paths).chunk_by(|a, b| a.remote == b.remote) {
        settle(group, &mut fates);
    }
    let never = |fate: &Fate| fate.rules > 0 && fate.never == fate.rules;
    fates.iter().enumerate().filter(|(_, fate)| never(fate)).map(|(path, _)| path).collect()
}

fn too_many_at_once(count: usize) -> Fault {
    let fault = Fault::new(
        format!("{count} rules apply to one address"),
        format!("at most {RULES_PER_ADDRESS} can, those of the prefixes around it included"),
    );
    fault.help(
        "a path is a rule for each of its local prefixes, and of its ports; merge paths, join \
         ports to ranges, or drop wider prefixes",
    )
}

fn never_matches(fate: &Fate) -> Fault {
    match fate.covered_by {
        Some(_) => {
            let label = if fate.is_shared {
                "others take all its flows, each some of them"
            } else {
                "another path takes all its flows"
            };
            Fault::new("this path can never match", label).help(
                "of the paths on a prefix that with the most of user, cgroup, mark and interface wins, \
                 then that with the fewest ports, then the first in the file: move this path up, or \
                 narrow what takes its flows",
            )
        }
        None => Fault::new("this path can never match", "`local` has no address of this family")
            .help("IPv4 flows have two IPv4 addresses, IPv6 flows two IPv6 addresses"),
    }
}

/// Finds which rules of one prefix can never match, or are in doubt. Each is compared
/// with the first few that can: were there more of those, that is an error already.
fn settle(group: &[MatchRule], fates: &mut [Fate]) {
    let mut standing: Vec<&MatchRule> = Vec::with_capacity(RULES_PER_ADDRESS);
    for rule in group {
        let fate = &mut fates[rule.path];
        fate.rules += 1;
        if !is_possible(rule) {
            fate.never += 1;
        } else if !is_left_over(rule, &standing) {
            fate.never += 1;
            let others = || standing.iter().filter(|other| other.path != rule.path);
            let alone = others().find(|other| !is_left_over(rule, &[other]));
            let coverer = alone.or_else(|| others().find(|other| share_flows(other, rule)));
            if let Some(path) = coverer.map(|other| other.path) {
                fate.is_shared |= alone.is_none() || fate.covered_by.is_some_and(|it| it != path);
                fate.covered_by = fate.covered_by.or(Some(path));
            }
        } else if standing.len() < RULES_PER_ADDRESS {
            let mut places = 0..standing.len();
            let doubt = places.find_map(|place| Doubt::between(place, &standing, rule));
            fate.doubt = fate.doubt.or(doubt);
            standing.push(rule);
        }
    }
}

#[cfg(test)]
mod tests {
    use wad_common::ports::PortRange;

    use super::*;
    use crate::config::{CgroupPattern, Mark, testing};

    fn path(remote: &str, local: &[&str], remote_port: u16) -> PathPolicy {
        PathPolicy {
            name: format!("{remote} {local:?} {remote_port}"),
            remote: vec![remote.parse().expect("a prefix")],
            local: local.iter().map(|net| net.parse().expect("a prefix")).collect(),
            remote_ports: ports(remote_port),
            ..PathPolicy::default()
        }
    }

    /// 0 for any.
    fn ports(port: u16) -> Vec<PortRange> {
        if port == 0 { Vec::new() } else { vec![PortRange::only(port)] }
    }

    fn range(first: u16, last: u16) -> PathPolicy {
        let path = path("10.0.0.0/8", &[], 0);
        let remote_ports = vec![PortRange { first, last }];
        PathPolicy { name: format!("{first}-{last}"), remote_ports, ..path }
    }

    /// The titles, and the number of the path that each is about.
    fn found(paths: &[PathPolicy]) -> Vec<(String, u32)> {
        let site = |n: u32| {
            let at = Span { start: n, end: n };
            Site {
                neighbours: at,
                name: at,
                remote: at,
                remote_set: at,
                remote_name: at,
                remote_port: at,
                local_port: at,
                allow: at,
                experiment: at,
            }
        };
        let sites: Vec<_> = (0..paths.len() as u32).map(site).collect();
        let mut problems = Problems::default();
        check(paths, &sites, &mut problems);
        problems.sorted().into_iter().map(|p| (p.fault.title, p.at.start)).collect()
    }

    const NEVER: &str = "this path can never match";

    #[test]
    fn a_rule_covers_those_behind_it_on_the_same_prefix_only() {
        let covered = [path("10.0.0.0/8", &[], 443), path("10.0.0.0/8", &["10.1.0.0/16"], 443)];
        assert_eq!(found(&covered), [(NEVER.to_owned(), 1)]);
        let fewer_ports = [path("10.0.0.0/8", &[], 0), path("10.0.0.0/8", &["10.1.0.0/16"], 443)];
        assert_eq!(found(&fewer_ports), []);
        let narrower_first = [path("10.0.0.0/8", &[], 443), path("10.0.0.0/8", &[], 0)];
        assert_eq!(found(&narrower_first), []);
        let longer_prefix = [path("10.0.0.0/8", &[], 0), path("10.5.0.0/16", &[], 0)];
        assert_eq!(found(&longer_prefix), []);
    }

    #[test]
    fn a_users_path_covers_none_but_the_same_users() {
        let of = |user, name: &str| PathPolicy {
            user,
            name: name.to_owned(),
            ..path("10.0.0.0/8", &[], 0)
        };
        let apart = [of(Some(1), "a"), of(Some(2), "b"), of(None, "c")];
        assert_eq!(found(&apart), []);
        let twice = [of(Some(1), "a"), of(None, "b"), of(Some(1), "c")];
        assert_eq!(found(&twice), [(NEVER.to_owned(), 2)]);
        // That of the user goes first, however few ports the other has.
        let port = PathPolicy { remote_ports: ports(443), ..of(None, "b") };
        assert_eq!(found(&[of(Some(1), "a"), port]), []);
        // They have as many ports, some of them the same, and no user in common.
        let user = |user, first, last| PathPolicy { user: Some(user), ..range(first, last) };
        assert_eq!(found(&[user(1, 1, 100), user(2, 51, 150)]), []);
        assert_eq!(found(&[user(1, 1, 100), user(1, 51, 150)]).len(), 1);
    }

    #[test]
    fn a_cgroups_path_covers_none_but_those_of_the_same_pattern() {
        let of = |unit: Option<&str>, name: &str| PathPolicy {
            cgroup: unit.map(|unit| CgroupPattern::Unit(unit.to_owned()).into()),
            name: name.to_owned(),
            ..path("10.0.0.0/8", &[], 0)
        };
        let apart = [of(Some("a.service"), "a"), of(Some("*.service"), "b"), of(None, "c")];
        assert_eq!(found(&apart), []);
        let users = PathPolicy { user: Some(1), ..of(Some("a.service"), "b") };
        assert_eq!(found(&[of(Some("a.service"), "a"), users]), []);
        let twice = [of(Some("a.service"), "a"), of(None, "b"), of(Some("a.service"), "c")];
        assert_eq!(found(&twice), [(NEVER.to_owned(), 2)]);
    }

    #[test]
    fn marks_and_interfaces_cover_none_but_their_own() {
        let of = |mark: Option<(u32, u32)>, interface: &str| PathPolicy {
            name: format!("{mark:?} {interface}"),
            mark: mark.map(|(value, mask)| Mark { value, mask }),
            interface: testing::interface(interface),
            ..path("10.0.0.0/8", &[], 0)
        };
        let any = || of(None, "");
        assert_eq!(found(&[of(Some((1, 3)), ""), of(Some((1, 7)), "x"), any()]), []);
        assert_eq!(found(&[of(None, "eth1"), of(None, "eth*"), any()]), []);
        // The first in the file goes first.
        assert_eq!(found(&[of(None, "eth*"), of(None, "eth1")]), [(NEVER.to_owned(), 1)]);
        assert_eq!(found(&[of(Some((1, 3)), ""), of(Some((5, 7)), "")]), [(NEVER.to_owned(), 1)]);
        assert_eq!(found(&[of(Some((5, 7)), ""), of(Some((1, 3)), "")]), []);
        // Two of them go before one, which takes what they leave.
        let both = PathPolicy { remote_ports: ports(443), ..of(Some((1, 1)), "eth*") };
        assert_eq!(found(&[of(Some((1, 1)), ""), both]), []);
        // All marks, each some.
        let halves = [of(Some((0, 1)), ""), of(Some((1, 1)), ""), any()];
        assert_eq!(found(&halves), [(NEVER.to_owned(), 2)]);
        // As many ports, of which some are the same, are in doubt for the same marks only.
        let marked = |value, first, last| PathPolicy {
            mark: Some(Mark { value, mask: u32::MAX }),
            ..range(first, last)
        };
        assert_eq!(found(&[marked(1, 1, 100), marked(2, 51, 150)]), []);
        assert_eq!(found(&[marked(1, 1, 100), marked(1, 51, 150)]).len(), 1);
    }

    #[test]
    fn there_are_as_many_patterns_as_bits() {
        let numbered = |n: usize| PathPolicy {
            name: n.to_string(),
            remote: vec![format!("10.{n}.0.0/16").parse().expect("a prefix")],
            cgroup: Some(CgroupPattern::Unit(format!("{n}.service")).into()),
            ..PathPolicy::default()
        };
        let mut paths: Vec<_> = (0..64).map(numbered).collect();
        // The same once more is none more.
        paths.push(PathPolicy { cgroup: paths[0].cgroup.clone(), ..numbered(64) });
        assert_eq!(found(&paths), []);
        paths.push(numbered(65));
        let title = "too many patterns of cgroups and interfaces".to_owned();
        assert_eq!(found(&paths), [(title.clone(), 65)]);
        // Interfaces are among them.
        paths.truncate(65);
        paths[64].interface = testing::interface("eth*");
        assert_eq!(found(&paths), [(title, 64)]);
    }

    #[test]
    fn a_path_with_one_rule_left_is_fine() {
        let mut two = path("10.0.0.0/8", &[], 0);
        two.name = "two".to_owned();
        two.remote.push("11.0.0.0/8".parse().expect("a prefix"));
        assert_eq!(found(&[path("10.0.0.0/8", &[], 0), two]), []);
    }

    #[test]
    fn ranges_together_cover_a_wider_one() {
        let paths = [range(1, 200), range(1, 100), range(101, 200)];
        assert_eq!(found(&paths), [(NEVER.to_owned(), 0)]);
        assert_eq!(found(&[range(1, 201), range(1, 100), range(101, 200)]), []);
        let all = [path("10.0.0.0/8", &[], 0), range(1, 1023), range(1024, u16::MAX)];
        assert_eq!(found(&all), [(NEVER.to_owned(), 0)]);
    }

    #[test]
    fn as_many_ports_of_which_some_are_the_same_are_in_doubt() {
        let doubt = "`1-100` and `51-150` both have remote ports 51-100";
        assert_eq!(found(&[range(1, 100), range(51, 150)]), [(doubt.to_owned(), 1)]);
        assert_eq!(found(&[range(1, 100), range(51, 151)]), []);
        assert_eq!(found(&[range(1, 100), range(101, 200)]), []);
        // Those have a path of their own.
        assert_eq!(found(&[range(1, 100), range(51, 150), range(51, 100)]), []);
        assert_eq!(found(&[range(1, 100), range(51, 150), range(52, 100)]).len(), 1);
        // On another prefix.
        let mut elsewhere = range(51, 150);
        elsewhere.remote = vec!["11.0.0.0/8".parse().expect("a prefix")];
        assert_eq!(found(&[range(1, 100), elsewhere]), []);
        let local = ["192.0.2.1/32".parse().expect("a prefix")].to_vec();
        assert_eq!(found(&[range(1, 100), PathPolicy { local, ..range(51, 150) }]), []);
        // Neither end's ports are the other's in part: the file's order decides.
        let local = PathPolicy { local_ports: ports(22), ..path("10.0.0.0/8", &["::/0"], 0) };
        assert_eq!(found(&[local, path("10.0.0.0/8", &["::/0"], 443)]), []);
    }

    #[test]
    fn the_local_ports_can_be_in_doubt_too() {
        let local = |first: u16, last| PathPolicy {
            name: first.to_string(),
            local_ports: vec![PortRange { first, last }],
            ..path("10.0.0.0/8", &[], 443)
        };
        let doubt = "`9` and `10` both have local port 10";
        assert_eq!(found(&[local(9, 10), local(10, 11)]), [(doubt.to_owned(), 1)]);
    }

    #[test]
    fn lists_count_against_the_rules_of_an_address() {
        let mut lists = path("10.0.0.0/8", &[], 0);
        lists.remote_ports = (1..=4).map(|port| PortRange::only(2 * port)).collect();
        lists.local_ports = lists.remote_ports.clone();
        assert_eq!(found(std::slice::from_ref(&lists)), []);
        lists.local_ports.push(PortRange::only(99));
        assert_eq!(found(&[lists]), [("20 rules apply to one address".to_owned(), 0)]);
    }

    #[test]
    fn ends_of_different_families_never_match() {
        assert_eq!(found(&[path("10.0.0.0/8", &["2001:db8::1/128"], 0)]), [(NEVER.to_owned(), 0)]);
        assert_eq!(found(&[path("::/0", &["10.0.0.1/32"], 0)]), []);
    }

    #[test]
    fn sixteen_rules_apply_to_one_address_but_not_seventeen() {
        let nested = |count: u8| -> Vec<_> {
            (0..count).map(|n| path(&format!("10.0.0.0/{}", 8 + n), &[], 0)).collect()
        };
        assert_eq!(found(&nested(16)), []);
        assert_eq!(found(&nested(24)).len(), 1);
        assert_eq!(found(&nested(17)), [("17 rules apply to one address".to_owned(), 16)]);
        let mut beside = nested(16);
        beside.push(path("10.128.0.0/9", &[], 0));
        assert_eq!(found(&beside), []);
    }
}
