//! Two rules are in doubt where some flows fall under both, and neither says more: as
//! many ports, of which some are the same.

use wad_common::ports::{PortRange, Ports};

use super::{Site, left_over::is_left_over};
use crate::config::{
    PathPolicy,
    fault::{Fault, Problem, quoted},
    match_rules::MatchRule,
};

/// A path's rule is in doubt with that of a path before it in the file.
#[derive(Clone, Copy, Debug)]
pub struct Doubt {
    /// Index of the path before.
    other: usize,
    end: End,
    /// The ports of that end that both have.
    common: PortRange,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Remote,
    Local,
}

impl Doubt {
    /// Finds the doubt between a rule and one of those before it on the same prefixes. One
    /// for a remote port and one for a local port are in none: the order of the file
    /// decides, as it does for all that is not the same condition.
    pub fn between(place: usize, before: &[&MatchRule], rule: &MatchRule) -> Option<Self> {
        let other = before[place];
        let is_as_specific = other.ports.pairs() == rule.ports.pairs();
        let is_same = (other.local, other.user, other.cgroup, other.mark, other.interface)
            == (rule.local, rule.user, rule.cgroup, rule.mark, rule.interface);
        if other.path == rule.path || !is_same || !is_as_specific {
            return None;
        }
        let remote = other.ports.remote.common(rule.ports.remote)?;
        let local = other.ports.local.common(rule.ports.local)?;
        let is_part = |one: PortRange, two: PortRange| !one.covers(two) && !two.covers(one);
        let (end, common) = if is_part(other.ports.remote, rule.ports.remote) {
            (End::Remote, remote)
        } else if is_part(other.ports.local, rule.ports.local) {
            (End::Local, local)
        } else {
            return None;
        };
        // What a third takes is not in doubt between the two.
        let both = MatchRule { ports: Ports { remote, local }, ..*rule };
        let thirds: Vec<_> = [&before[..place], &before[place + 1..]].concat();
        is_left_over(&both, &thirds).then_some(Self { other: other.path, end, common })
    }

    /// Returns what to tell of a path that has it.
    pub fn problem(&self, path: usize, paths: &[PathPolicy], sites: &[Site]) -> Problem {
        let Self { other, end, common } = *self;
        let (word, place): (_, fn(&Site) -> _) = match end {
            End::Remote => ("remote", |site| site.remote_port),
            End::Local => ("local", |site| site.local_port),
        };
        let s = if common.count() == 1 { "" } else { "s" };
        let (first, second) = (quoted(&paths[other].name), quoted(&paths[path].name));
        let title = format!("{first} and {second} both have {word} port{s} {common}");
        let fault = Fault::new(title, "as many ports as in the other path: neither goes first");
        let help = "of the paths on a prefix that with the fewest ports wins: leave these ports out \
                    of one of the two, or give them a path of their own";
        fault.help(help).at(place(&sites[path])).also(place(&sites[other]), "the other path")
    }
}
