//! Tells whether rules before a rule leave any flow to it.
//!
//! A rule is a box: cgroups, users, local addresses, remote ports and local ports, each from
//! a first to a last. There may be a cgroup that fits one pattern only, and one that fits
//! none. Were there a point of it in none of the others, then also one whose every
//! coordinate is the box's first or the one behind another box's last: so only those
//! are tried.

use wad_common::policy::{ANY_USER, CGROUP_PATTERNS};

use crate::config::match_rules::MatchRule;

/// First and last of cgroups (0 for one that fits no pattern), users, local addresses,
/// remote ports and local ports.
type Extent = [(u128, u128); 5];

/// Whether a flow on the rules' remote prefix falls under `rule` and none of `before`.
pub fn is_left_over(rule: &MatchRule, before: &[&MatchRule]) -> bool {
    let own = extent(rule);
    let others: Vec<_> =
        before.iter().map(|other| extent(other)).filter(|other| meet(other, &own)).collect();
    let [cgroups, users, addresses, remotes, locals] = [0, 1, 2, 3, 4].map(|axis| {
        let (first, last) = own[axis];
        let behind = others.iter().map(|other| other[axis].1).filter(|end| *end < last);
        let mut tried: Vec<_> = behind.map(|end| end + 1).chain([first]).collect();
        tried.sort_unstable();
        tried.dedup();
        tried
    });
    let is_free = |point: [u128; 5]| !others.iter().any(|other| has(other, point));
    let is_free_of = |cgroup, user, address| {
        let mut remotes = remotes.iter();
        remotes.any(|&remote| {
            locals.iter().any(|&local| is_free([cgroup, user, address, remote, local]))
        })
    };
    let is_free_within = |cgroup, user| addresses.iter().any(|at| is_free_of(cgroup, user, *at));
    cgroups.iter().any(|&cgroup| users.iter().any(|&user| is_free_within(cgroup, user)))
}

/// Whether some flow on the rules' remote prefix fits both.
pub fn share_flows(one: &MatchRule, other: &MatchRule) -> bool {
    meet(&extent(one), &extent(other))
}

fn extent(rule: &MatchRule) -> Extent {
    let (address, mask) = (rule.local.address, rule.local.mask());
    let ports = [rule.ports.remote, rule.ports.local];
    // No connection has port 0.
    let [remote, local] = ports.map(|range| (range.first.max(1).into(), range.last.into()));
    let users = rule.user.map_or((0, (ANY_USER - 1).into()), |user| (user.into(), user.into()));
    let cgroups = rule.cgroup.map_or((0, CGROUP_PATTERNS as u128), |number| {
        let number = number as u128 + 1;
        (number, number)
    });
    [cgroups, users, (address, address | !mask), remote, local]
}

fn meet(one: &Extent, other: &Extent) -> bool {
    one.iter().zip(other).all(|((first, last), (least, most))| first <= most && least <= last)
}

fn has(extent: &Extent, point: [u128; 5]) -> bool {
    extent.iter().zip(point).all(|((first, last), at)| *first <= at && at <= *last)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wad_common::ports::{PortRange, Ports};

    use super::*;
    use crate::config::Mapped;

    const ANY: MatchRule = MatchRule {
        remote: Mapped::ANY,
        local: Mapped::ANY,
        ports: Ports::ANY,
        user: None,
        cgroup: None,
        path: 0,
    };

    fn to(first: u16, last: u16) -> MatchRule {
        let remote = PortRange { first, last };
        MatchRule { ports: Ports { remote, ..Ports::ANY }, ..ANY }
    }

    #[test]
    fn ranges_together_take_all() {
        assert!(!is_left_over(&to(50, 150), &[&to(1, 100), &to(101, 200)]));
        assert!(is_left_over(&to(50, 150), &[&to(1, 100), &to(102, 200)]));
        assert!(is_left_over(&to(50, 150), &[&to(51, 150)]));
        assert!(is_left_over(&to(50, 150), &[&to(50, 149)]));
        assert!(!is_left_over(&ANY, &[&to(1, 100), &to(101, u16::MAX)]));
        assert!(is_left_over(&ANY, &[]));
    }

    /// Few addresses and ports, so that all can be tried.
    fn rule() -> impl Strategy<Value = MatchRule> {
        let range =
            (1..7_u16, 0..4_u16).prop_map(|(first, more)| PortRange { first, last: first + more });
        let local = (0..4_u128, 126..=128_u8).prop_map(|(address, bits)| {
            let mask = Mapped { address: 0, bits }.mask();
            Mapped { address: address & mask, bits }
        });
        let user = prop::option::of(0..2_u32);
        (user, local, range.clone(), range).prop_map(|(user, local, remote, own)| MatchRule {
            user,
            local,
            ports: Ports { remote, local: own },
            ..ANY
        })
    }

    fn fits(rule: &MatchRule, user: u32, address: u128, ports: (u16, u16)) -> bool {
        rule.user.is_none_or(|own| own == user)
            && rule.local.contains(Mapped { address, bits: 128 })
            && rule.ports.remote.has(ports.0)
            && rule.ports.local.has(ports.1)
    }

    proptest! {
        #[test]
        fn it_is_as_if_all_were_tried(one in rule(), before in prop::collection::vec(rule(), 0..9)) {
            let before: Vec<_> = before.iter().collect();
            let is_left = |user, address, remote, local| {
                let fits = |rule: &MatchRule| fits(rule, user, address, (remote, local));
                fits(&one) && !before.iter().any(|rule| fits(rule))
            };
            let left = (0..3_u32).any(|user| (0..4_u128).any(|address| (1..12_u16).any(|remote| {
                (1..12_u16).any(|local| is_left(user, address, remote, local))
            })));
            prop_assert_eq!(is_left_over(&one, &before), left);
        }
    }
}
