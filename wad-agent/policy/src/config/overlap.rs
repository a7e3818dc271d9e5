//! Finds what is wrong between paths: names given twice, rules that never match, too
//! many rules for one address.
//!
//! A path is one rule for each pair of a remote and a local prefix. The longest
//! remote prefix that has an address decides which rules come first; among the
//! rules of one prefix the order of the file does.

use std::collections::HashMap;

use wad_common::policy::{MAX_PATHS, RULES_PER_ADDRESS};

use super::{
    PathPolicy,
    fault::{Fault, Problems, Span},
    prefix::Mapped,
};

/// Most rules, those of the prefixes around each prefix included: 40 MiB of
/// kernel memory.
const MAX_RULES: usize = 1 << 20;

/// Says where a path is in the file.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    pub name: Span,
    pub remote: Span,
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
        count += path.remote.len() * path.local.len().max(1);
        count > MAX_RULES
    });
    match beyond {
        Some(path) => problems.push(too_many_rules().at(sites[path].remote)),
        None => check_rules(paths, sites, problems),
    }
}

fn too_many_rules() -> Fault {
    let label = format!("more than {MAX_RULES} with those of the paths before");
    Fault::new("too many rules", label)
        .help("a path is a rule for each pair of a remote and a local prefix: use shorter prefixes")
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

/// A rule, as far as matching goes.
struct Rule {
    remote: Mapped,
    /// Index of its path.
    path: usize,
    local: Mapped,
    ports: [u16; 2],
}

impl Rule {
    /// Whether, on the same remote prefix, nothing is left for `other`.
    fn covers(&self, other: &Self) -> bool {
        let port = |mine, others| mine == 0 || mine == others;
        self.local.contains(other.local)
            && port(self.ports[0], other.ports[0])
            && port(self.ports[1], other.ports[1])
    }

    /// Whether both ends can be of the same family.
    fn is_possible(&self) -> bool {
        let (remote, local) = (self.remote.families(), self.local.families());
        (remote.0 && local.0) || (remote.1 && local.1)
    }
}

/// Says what becomes of a path's rules.
#[derive(Clone, Copy, Default)]
struct Fate {
    rules: usize,
    never: usize,
    /// The path before, whose rule covers one of this path's.
    covered_by: Option<usize>,
}

fn check_rules(paths: &[PathPolicy], sites: &[Site], problems: &mut Problems) {
    let rules = sorted_rules(paths);
    let mut fates = vec![Fate::default(); paths.len()];
    // The prefixes around the present one, with the rules that apply there.
    let mut around: Vec<(Mapped, usize)> = Vec::new();
    let mut total = 0;
    for group in rules.chunk_by(|a, b| a.remote == b.remote) {
        settle(group, &mut fates);
        let remote = group[0].remote;
        while around.pop_if(|(outer, _)| !outer.contains(remote)).is_some() {}
        let outside = around.last().map_or(0, |&(_, count)| count);
        let count = outside + group.len();
        around.push((remote, count));
        if total <= MAX_RULES && total + count > MAX_RULES {
            problems.push(too_many_rules().at(sites[group[0].path].remote));
        }
        total += count;
        // Told once, not again for each prefix within.
        if count > RULES_PER_ADDRESS && outside <= RULES_PER_ADDRESS {
            let beyond = group[RULES_PER_ADDRESS - outside].path;
            let fault = Fault::new(
                format!("{count} rules apply to one address"),
                format!(
                    "at most {RULES_PER_ADDRESS} can, those of the prefixes around it included"
                ),
            );
            let fault = fault.help(
                "a path is a rule for each of its local prefixes; merge paths, or drop wider ones",
            );
            problems.push(fault.at(sites[beyond].remote));
        }
    }
    for (path, fate) in fates.iter().enumerate().filter(|(_, fate)| fate.rules > 0) {
        if fate.never == fate.rules {
            let problem = unreachable(fate).at(sites[path].remote);
            problems.push(match fate.covered_by {
                Some(before) => problem.also(sites[before].remote, "this path takes them"),
                None => problem,
            });
        }
    }
}

fn unreachable(fate: &Fate) -> Fault {
    match fate.covered_by {
        Some(_) => Fault::new("this path can never match", "an earlier path takes all its flows")
            .help("the first match on a prefix wins: move this path up, or narrow the earlier one"),
        None => Fault::new("this path can never match", "`local` has no address of this family")
            .help("IPv4 flows have two IPv4 addresses, IPv6 flows two IPv6 addresses"),
    }
}

/// Sorted by prefix, and on one prefix as in the file.
fn sorted_rules(paths: &[PathPolicy]) -> Vec<Rule> {
    let mut rules = Vec::with_capacity(paths.len());
    for (index, path) in paths.iter().enumerate() {
        let ports = [path.remote_port, path.local_port];
        let rule = |remote, local| Rule { remote, path: index, local, ports };
        for &remote in &path.remote {
            let remote = Mapped::from(remote);
            if path.local.is_empty() {
                rules.push(rule(remote, Mapped::ANY));
            }
            rules.extend(path.local.iter().map(|&local| rule(remote, local.into())));
        }
    }
    // Stable: rules of one prefix stay in order.
    rules.sort_by_key(|rule| rule.remote);
    rules
}

/// Finds which rules of one prefix can never match. Each is compared with the
/// first few that can: were there more of those, that is an error already.
fn settle(group: &[Rule], fates: &mut [Fate]) {
    let mut standing: Vec<&Rule> = Vec::with_capacity(RULES_PER_ADDRESS);
    for rule in group {
        let coverer = standing.iter().find(|earlier| earlier.covers(rule));
        let fate = &mut fates[rule.path];
        fate.rules += 1;
        if let Some(earlier) = coverer {
            fate.never += 1;
            if earlier.path != rule.path {
                fate.covered_by = fate.covered_by.or(Some(earlier.path));
            }
        } else if !rule.is_possible() {
            fate.never += 1;
        } else if standing.len() < RULES_PER_ADDRESS {
            standing.push(rule);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(remote: &str, local: &[&str], remote_port: u16) -> PathPolicy {
        PathPolicy {
            name: format!("{remote} {local:?} {remote_port}"),
            remote: vec![remote.parse().expect("a prefix")],
            local: local.iter().map(|net| net.parse().expect("a prefix")).collect(),
            remote_port,
            ..PathPolicy::default()
        }
    }

    /// The titles, and the number of the path that each is about.
    fn found(paths: &[PathPolicy]) -> Vec<(String, u32)> {
        let span = |n: u32| Span { start: n, end: n };
        let sites: Vec<_> =
            (0..paths.len() as u32).map(|n| Site { name: span(n), remote: span(n) }).collect();
        let mut problems = Problems::default();
        check(paths, &sites, &mut problems);
        problems.sorted().into_iter().map(|p| (p.fault.title, p.at.start)).collect()
    }

    const NEVER: &str = "this path can never match";

    #[test]
    fn a_rule_covers_those_behind_it_on_the_same_prefix_only() {
        let covered = [path("10.0.0.0/8", &[], 0), path("10.0.0.0/8", &["10.1.0.0/16"], 443)];
        assert_eq!(found(&covered), [(NEVER.to_owned(), 1)]);
        let narrower_first = [path("10.0.0.0/8", &[], 443), path("10.0.0.0/8", &[], 0)];
        assert_eq!(found(&narrower_first), []);
        let longer_prefix = [path("10.0.0.0/8", &[], 0), path("10.5.0.0/16", &[], 0)];
        assert_eq!(found(&longer_prefix), []);
    }

    #[test]
    fn a_path_with_one_rule_left_is_fine() {
        let mut two = path("10.0.0.0/8", &[], 0);
        two.name = "two".to_owned();
        two.remote.push("11.0.0.0/8".parse().expect("a prefix"));
        assert_eq!(found(&[path("10.0.0.0/8", &[], 0), two]), []);
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
