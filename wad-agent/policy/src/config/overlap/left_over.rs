//! Tells whether rules before a rule leave any flow to it.
//!
//! A rule is a box: cgroups, interfaces, users, local addresses, remote ports and local ports,
//! each from a first to a last. There may be a cgroup that fits one pattern only, and one that
//! fits none. Were there a point of it in none of the others, then also one whose every
//! coordinate is the box's first or the one behind another box's last: so only those
//! are tried.
//!
//! Marks are no range: they agree in the bits of a mask. A box is halved by a bit that another
//! asks for, and it does not, until whichever meets a part has all of its marks.

use wad_common::policy::{ANY_USER, PATTERNS};

use crate::config::{Mark, match_rules::MatchRule};

/// Cgroups (0 for one that fits no pattern), interfaces, users, local addresses, remote ports
/// and local ports.
const AXES: usize = 6;

/// Most halves by marks that are looked at. What takes more is contrived, and could take
/// 2^32: it counts as left over, which refuses nobody's file.
const MOST_HALVES: u32 = 1 << 10;

/// First and last along each axis.
type Extent = [(u128, u128); AXES];

/// A rule's flows on its remote prefix.
#[derive(Clone, Copy)]
struct Region {
    marks: Mark,
    extent: Extent,
}

/// Whether a flow on the rules' remote prefix falls under `rule` and none of `before`.
pub fn is_left_over(rule: &MatchRule, before: &[&MatchRule]) -> bool {
    let others: Vec<_> = before.iter().map(|other| Region::of(other)).collect();
    Region::of(rule).is_left_by(&others, &mut { MOST_HALVES })
}

/// Whether some flow on the rules' remote prefix fits both.
pub fn share_flows(one: &MatchRule, other: &MatchRule) -> bool {
    Region::of(one).meets(&Region::of(other))
}

impl Region {
    fn of(rule: &MatchRule) -> Self {
        let (address, mask) = (rule.local.address, rule.local.mask());
        let ports = [rule.ports.remote, rule.ports.local];
        // No connection has port 0.
        let [remote, local] = ports.map(|range| (range.first.max(1).into(), range.last.into()));
        let users = rule.user.map_or((0, (ANY_USER - 1).into()), |user| (user.into(), user.into()));
        let cgroups = rule.cgroup.map_or((0, PATTERNS as u128), |number| {
            let number = number as u128 + 1;
            (number, number)
        });
        let interfaces = rule.interface.map_or((0, u128::MAX), |pattern| pattern.range());
        Self {
            marks: rule.mark.unwrap_or(Mark::ANY),
            extent: [cgroups, interfaces, users, (address, address | !mask), remote, local],
        }
    }

    fn meets(&self, other: &Self) -> bool {
        let mut axes = self.extent.iter().zip(&other.extent);
        self.marks.meets(other.marks)
            && axes.all(|((first, last), (least, most))| first <= most && least <= last)
    }

    /// Whether a flow of it is in none of the others. `halves` may be made.
    fn is_left_by(&self, others: &[Self], halves: &mut u32) -> bool {
        let others: Vec<_> = others.iter().copied().filter(|other| other.meets(self)).collect();
        let open = |other: &Self| other.marks.mask & !self.marks.mask;
        let asking = others.iter().map(open).filter(|open| *open != 0);
        let Some(open) = asking.min_by_key(|open| open.count_ones()) else {
            let extents: Vec<_> = others.iter().map(|other| &other.extent).collect();
            return has_free_point(&self.extent, &extents);
        };
        let bit = 1 << open.trailing_zeros();
        [0, bit].into_iter().any(|set| {
            if *halves == 0 {
                return true;
            }
            *halves -= 1;
            let Mark { value, mask } = self.marks;
            let marks = Mark { value: value | set, mask: mask | bit };
            Self { marks, ..*self }.is_left_by(&others, halves)
        })
    }
}

/// Whether a point of the box, along these axes, is in none of the others.
fn has_free_point(own: &[(u128, u128)], others: &[&Extent]) -> bool {
    let Some(((first, last), further)) = own.split_first() else { return others.is_empty() };
    let axis = AXES - own.len();
    let behind = others.iter().map(|other| other[axis].1).filter(|end| end < last);
    let mut tried: Vec<_> = behind.map(|end| end + 1).chain([*first]).collect();
    tried.sort_unstable();
    tried.dedup();
    tried.into_iter().any(|at| {
        let is_there = |other: &&Extent| (other[axis].0..=other[axis].1).contains(&at);
        let there: Vec<_> = others.iter().copied().filter(is_there).collect();
        has_free_point(further, &there)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wad_common::ports::{PortRange, Ports};

    use super::*;
    use crate::config::{Mapped, testing};

    const ANY: MatchRule = MatchRule {
        remote: Mapped::ANY,
        local: Mapped::ANY,
        ports: Ports::ANY,
        user: None,
        cgroup: None,
        mark: None,
        interface: None,
        path: 0,
    };

    fn to(first: u16, last: u16) -> MatchRule {
        let remote = PortRange { first, last };
        MatchRule { ports: Ports { remote, ..Ports::ANY }, ..ANY }
    }

    fn marked(value: u32, mask: u32) -> MatchRule {
        MatchRule { mark: Some(Mark { value, mask }), ..ANY }
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

    #[test]
    fn marks_together_take_all() {
        let quarters = [0, 1, 2, 3].map(|value| marked(value, 3));
        let before: Vec<_> = quarters.iter().collect();
        assert!(!is_left_over(&ANY, &before) && !is_left_over(&marked(5, u32::MAX), &before));
        assert!(is_left_over(&ANY, &before[..3]));
        assert!(is_left_over(&marked(3, 3), &[&marked(3, 7)]));
        // Whole marks leave others.
        let whole: Vec<_> = (0..15).map(|value| marked(value, u32::MAX)).collect();
        assert!(is_left_over(&ANY, &whole.iter().collect::<Vec<_>>()));
        assert!(!is_left_over(&whole[7], &whole.iter().collect::<Vec<_>>()));
    }

    /// Fifteen that each ask for two bits of their own, and one that takes all of some ports.
    #[test]
    fn what_is_contrived_ends_soon() {
        let mut pairs: Vec<_> = (0..15).map(|n| marked(0, 3 << (2 * n))).collect();
        pairs.iter_mut().for_each(|rule| rule.ports = to(2, u16::MAX).ports);
        let before: Vec<_> = pairs.iter().chain([&to(1, 1)]).copied().collect();
        assert!(is_left_over(&ANY, &before.iter().collect::<Vec<_>>()));
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

    /// Patterns, and names of which each has its own set of those that it fits.
    const INTERFACES: [&str; 5] = ["e*", "eth*", "eth1", "eth10", "lo"];
    const NAMES: [&str; 6] = ["e", "eth", "eth1", "eth10", "lo", "x"];

    fn socket_rule() -> impl Strategy<Value = MatchRule> {
        let mark =
            (0..8_u32, 1..8_u32).prop_map(|(value, mask)| Mark { value: value & mask, mask });
        let interface = prop::sample::select(&INTERFACES[..]);
        let cgroup = prop::option::of(0..2_usize);
        (prop::option::of(mark), prop::option::of(interface), cgroup, 1..4_u16, 0..3_u16).prop_map(
            |(mark, interface, cgroup, first, more)| MatchRule {
                mark,
                interface: interface.and_then(testing::interface),
                cgroup,
                ..to(first, first + more)
            },
        )
    }

    fn has_socket(rule: &MatchRule, mark: u32, name: &str, cgroup: usize, port: u16) -> bool {
        rule.mark.is_none_or(|own| own.has(mark))
            && rule.interface.is_none_or(|own| own.fits(name))
            && rule.cgroup.is_none_or(|own| own == cgroup)
            && rule.ports.remote.has(port)
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

        #[test]
        fn so_it_is_with_what_sockets_have(
            one in socket_rule(),
            before in prop::collection::vec(socket_rule(), 0..12),
        ) {
            let before: Vec<_> = before.iter().collect();
            let is_left = |mark, name, cgroup, port| {
                let fits = |rule: &MatchRule| has_socket(rule, mark, name, cgroup, port);
                fits(&one) && !before.iter().any(|rule| fits(rule))
            };
            let left = (0..8_u32).any(|mark| NAMES.iter().any(|name| (0..3_usize).any(|cgroup| {
                (1..7_u16).any(|port| is_left(mark, name, cgroup, port))
            })));
            prop_assert_eq!(is_left_over(&one, &before), left);
            let shared = |other: &MatchRule| (0..8_u32).any(|mark| NAMES.iter().any(|name| {
                (0..3_usize).any(|cgroup| (1..7_u16).any(|port| {
                    has_socket(&one, mark, name, cgroup, port)
                        && has_socket(other, mark, name, cgroup, port)
                }))
            }));
            for other in &before {
                prop_assert_eq!(share_flows(&one, other), shared(other));
            }
        }
    }
}
