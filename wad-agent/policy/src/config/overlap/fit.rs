//! Whether the kernel side takes the rules of all paths, by the prefixes that their sets
//! hold now: a file is judged before it is known what they hold.

use wad_common::policy::RULES_PER_ADDRESS;

use super::MAX_RULES;
use crate::{
    config::{
        HostChanges, PathPolicy,
        match_rules::{MatchRule, match_rules},
        prefix::Mapped,
        route_rules::{self, Selection},
    },
    switch::Disabled,
};

/// Says why the paths' rules are not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("the paths have more than {MAX_RULES} rules with it")]
    TooManyRules,
    #[error(
        "{count} rules of paths apply to one address with it, and at most {RULES_PER_ADDRESS} can"
    )]
    TooManyAtOnce { count: usize },
    #[error(
        "`reorder`, `delayed_ack` and `ecn` take {rules} rules of routes with it, and at most {} can be",
        route_rules::MAX_RULES
    )]
    TooManyRoutes { rules: usize },
}

/// Finds whether the paths fit, with the prefixes that they have now.
pub fn fit(paths: &[PathPolicy], host: &HostChanges) -> Result<(), Unfit> {
    // Before they are made.
    if paths.iter().map(PathPolicy::rule_count).sum::<usize>() > MAX_RULES {
        return Err(Unfit::TooManyRules);
    }
    let mut nesting = Nesting::default();
    for group in match_rules(paths).chunk_by(|a, b| a.remote == b.remote) {
        let count = nesting.enter(group);
        if count > RULES_PER_ADDRESS {
            return Err(Unfit::TooManyAtOnce { count });
        }
        if nesting.total > MAX_RULES {
            return Err(Unfit::TooManyRules);
        }
    }
    if host.routes {
        let rules = Selection::of(paths).rules(&Disabled::default()).len();
        if rules > route_rules::MAX_RULES {
            return Err(Unfit::TooManyRoutes { rules });
        }
    }
    Ok(())
}

/// Counts the rules that apply, prefix by prefix.
#[derive(Default)]
pub struct Nesting {
    /// The prefixes around the present one, with the rules that apply there.
    around: Vec<(Mapped, usize)>,
    /// The rules of all prefixes, those of the prefixes around each included.
    pub total: usize,
}

impl Nesting {
    /// Goes to the next prefix, whose rules these are. Returns how many apply there.
    pub fn enter(&mut self, own: &[MatchRule]) -> usize {
        let remote = own[0].remote;
        while self.around.pop_if(|(outer, _)| !outer.contains(remote)).is_some() {}
        let count = self.around.last().map_or(0, |&(_, count)| count) + own.len();
        self.around.push((remote, count));
        self.total += count;
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Origin;

    fn path(remote: impl Iterator<Item = String>, set: &str) -> PathPolicy {
        PathPolicy {
            remote: remote.map(|net| net.parse().expect("a prefix")).collect(),
            origin: Origin { remote_sets: vec![set.to_owned()], ..Origin::default() },
            ..PathPolicy::default()
        }
    }

    #[test]
    fn sets_are_held_to_the_bounds_of_the_file() {
        let host = HostChanges::default();
        let nested = |count: u8| path((0..count).map(|n| format!("10.0.0.0/{}", 8 + n)), "s");
        assert_eq!(fit(&[nested(16)], &host), Ok(()));
        assert_eq!(fit(&[nested(17)], &host), Err(Unfit::TooManyAtOnce { count: 17 }));
        let address = |n: u32| format!("10.{}.{}.{}/32", n >> 16, n >> 8 & 255, n & 255);
        let many = path((0..1 << 17).map(address), "s");
        let paths = vec![many; 9];
        assert_eq!(fit(&paths[..8], &host), Ok(()));
        assert_eq!(fit(&paths, &host), Err(Unfit::TooManyRules));
        let reordered = PathPolicy { reorder_segments: Some(19), ..paths[0].clone() };
        assert_eq!(fit(std::slice::from_ref(&reordered), &host), Ok(()));
        let routes = HostChanges { routes: true, ..host };
        assert_eq!(fit(&[reordered], &routes), Err(Unfit::TooManyRoutes { rules: 1 << 17 }));
    }
}
