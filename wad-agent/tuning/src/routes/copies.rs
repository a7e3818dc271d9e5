//! Finds which routes the tables of ours are to have: a pure function of the main
//! table and of what is wanted.

use std::collections::{BTreeMap, HashMap, HashSet};

use ipnet::IpNet;
use wad_policy::config::route_rules::RouteMetrics;

use super::route::{Found, MAX_WITHIN, Reason, Route};

/// Says where a route is, and which of those to the same network it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub table: u32,
    pub to: IpNet,
    pub tos: u8,
    pub priority: u32,
}

/// Says what leads to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wanted {
    pub table: u32,
    pub prefix: IpNet,
}

/// A part of a prefix whose routes are left as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub wanted: Wanted,
    /// The route that is not copied.
    pub to: IpNet,
    pub reason: Reason,
}

#[derive(Debug, Default, PartialEq)]
pub struct Copies {
    pub routes: BTreeMap<Place, Route>,
    pub refused: Vec<Refusal>,
}

/// Networks of tables that the kernel would not have a copy for, and what it said.
pub type Blocked = HashMap<(u32, IpNet), String>;

/// Returns the copies for one family.
pub fn copies(main: &[Found], wanted: &[Wanted], blocked: &Blocked) -> Copies {
    let mut groups: BTreeMap<IpNet, Vec<&Found>> = BTreeMap::new();
    for found in main {
        groups.entry(found.to).or_default().push(found);
    }
    let mut copies = Copies::default();
    for &wanted in wanted {
        copies.add(&groups, wanted, blocked);
    }
    copies
}

impl Copies {
    fn add(&mut self, groups: &BTreeMap<IpNet, Vec<&Found>>, wanted: Wanted, blocked: &Blocked) {
        let Wanted { table, prefix } = wanted;
        let refused = |to, reason| Refusal { wanted, to, reason };
        let from = groups.range(prefix..).take_while(|(to, _)| prefix.contains(&to.addr()));
        let within: Vec<_> = from.filter(|(to, _)| **to != prefix).collect();
        if within.len() > MAX_WITHIN {
            let reason = Reason::TooMany { routes: within.len() };
            self.refused.push(refused(prefix, reason));
            return;
        }
        let simple = |to: IpNet, group: &[&Found]| match blocked.get(&(table, to)) {
            Some(error) => Err(Reason::Kernel { error: error.clone() }),
            None => simple(group),
        };
        let metrics = RouteMetrics::of_table(table).unwrap_or_default();
        for (to, group) in within {
            match simple(*to, group) {
                Ok(routes) => {
                    routes.iter().for_each(|route| self.put(table, route.copy(*to, metrics)))
                }
                Err(reason) => {
                    self.put(table, Route::throw(*to));
                    self.refused.push(refused(*to, reason));
                }
            }
        }
        // The longest around it is the one that it falls under where nothing is within.
        let mut around = std::iter::successors(Some(prefix), IpNet::supernet);
        let Some((to, group)) = around.find_map(|net| groups.get_key_value(&net)) else { return };
        match blocked.get(&(table, prefix)).map_or_else(
            || simple(*to, group),
            |error| Err(Reason::Kernel { error: error.clone() }),
        ) {
            Ok(routes) => {
                routes.iter().for_each(|route| self.put(table, route.copy(prefix, metrics)))
            }
            Err(reason) => {
                // Else one for a wider prefix in the same table would be found.
                self.put(table, Route::throw(prefix));
                self.refused.push(refused(*to, reason));
            }
        }
    }

    fn put(&mut self, table: u32, route: Route) {
        let place = Place { table, to: route.to, tos: route.tos, priority: route.priority };
        self.routes.insert(place, route);
    }
}

/// All routes to a network, if each can be copied and has a metric of its own.
fn simple(group: &[&Found]) -> Result<Vec<Route>, Reason> {
    let routes: Vec<Route> =
        group.iter().map(|found| found.route.clone()).collect::<Result<_, _>>()?;
    let mut seen = HashSet::new();
    if routes.iter().all(|route| seen.insert((route.tos, route.priority))) {
        Ok(routes)
    } else {
        Err(Reason::Several)
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_route::route::{RouteMetric, RouteProtocol, RouteScope};

    use super::*;
    use crate::routes::route::{Hop, RTAX_FEATURE_ECN, Way};

    const RTAX_FEATURE_SACK: u32 = 1 << 1;

    const METRICS: RouteMetrics = RouteMetrics { reorder_segments: 19, quickack: true, ecn: true };

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn over(to: &str, gateway: &str, priority: u32) -> Found {
        let hop = Hop {
            device: 2,
            gateway: Some(gateway.parse().unwrap()),
            source: None,
            scope: RouteScope::Universe,
            on_link: false,
            metrics: vec![
                RouteMetric::Mtu(1400),
                RouteMetric::Reordering(5),
                RouteMetric::Features(RTAX_FEATURE_SACK),
            ],
        };
        let (to, way) = (net(to), Way::Through(hop));
        Found { to, route: Ok(Route { to, tos: 0, priority, way }) }
    }

    fn refused(to: &str, reason: Reason) -> Found {
        Found { to: net(to), route: Err(reason) }
    }

    fn wanted(prefix: &str) -> Wanted {
        Wanted { table: METRICS.table(), prefix: net(prefix) }
    }

    /// Prefix, metric, and gateway or "throw".
    fn shown(copies: &Copies) -> Vec<String> {
        let shown = copies.routes.values().map(|route| match &route.way {
            Way::Throw => format!("{} throw", route.to),
            Way::Through(hop) => {
                format!("{} {} {}", route.to, route.priority, hop.gateway.unwrap())
            }
        });
        shown.collect()
    }

    #[test]
    fn a_prefix_gets_what_is_around_and_within_it() {
        let main = [
            over("0.0.0.0/0", "192.0.2.1", 100),
            over("0.0.0.0/0", "192.0.2.2", 200),
            over("10.1.0.0/16", "192.0.2.3", 0),
            over("11.0.0.0/8", "192.0.2.4", 0),
        ];
        let copies = copies(&main, &[wanted("10.0.0.0/8")], &Blocked::new());
        assert_eq!(
            shown(&copies),
            ["10.0.0.0/8 100 192.0.2.1", "10.0.0.0/8 200 192.0.2.2", "10.1.0.0/16 0 192.0.2.3"]
        );
        assert_eq!(copies.refused, []);
        for route in copies.routes.values() {
            let Way::Through(hop) = &route.way else { panic!("{route:?}") };
            // Its own metrics stay where ours say nothing.
            assert_eq!(
                hop.metrics,
                [
                    RouteMetric::Mtu(1400),
                    RouteMetric::Reordering(19),
                    RouteMetric::Features(RTAX_FEATURE_SACK | RTAX_FEATURE_ECN),
                    RouteMetric::QuickAck(1)
                ]
            );
        }
    }

    #[test]
    fn the_longest_prefix_around_counts() {
        let main = [over("0.0.0.0/0", "192.0.2.1", 0), over("10.0.0.0/8", "192.0.2.2", 0)];
        let copies = copies(&main, &[wanted("10.5.0.0/16")], &Blocked::new());
        assert_eq!(shown(&copies), ["10.5.0.0/16 0 192.0.2.2"]);
    }

    #[test]
    fn what_is_not_copied_is_left_to_the_main_table_and_named() {
        let bird = Reason::Protocol(RouteProtocol::Bird);
        let main = [
            over("0.0.0.0/0", "192.0.2.1", 0),
            refused("10.1.0.0/16", Reason::Multipath),
            over("10.2.0.0/16", "192.0.2.2", 0),
            over("10.2.0.0/16", "192.0.2.3", 0),
            refused("12.0.0.0/6", bird.clone()),
        ];
        let both = [wanted("10.0.0.0/8"), wanted("13.0.0.0/8")];
        let copies = copies(&main, &both, &Blocked::new());
        assert_eq!(
            shown(&copies),
            [
                "10.0.0.0/8 0 192.0.2.1",
                "10.1.0.0/16 throw",
                "10.2.0.0/16 throw",
                "13.0.0.0/8 throw"
            ]
        );
        let reasons: Vec<_> =
            copies.refused.iter().map(|refusal| (refusal.to, refusal.reason.clone())).collect();
        assert_eq!(
            reasons,
            [
                (net("10.1.0.0/16"), Reason::Multipath),
                (net("10.2.0.0/16"), Reason::Several),
                (net("12.0.0.0/6"), bird)
            ]
        );
    }

    #[test]
    fn no_route_no_copy() {
        let copies = copies(&[], &[wanted("10.0.0.0/8")], &Blocked::new());
        assert_eq!(copies, Copies::default());
    }

    #[test]
    fn a_copy_that_the_kernel_refused_is_given_up() {
        let main = [over("0.0.0.0/0", "192.0.2.1", 0)];
        let blocked = Blocked::from([((METRICS.table(), net("10.0.0.0/8")), "no".to_owned())]);
        let copies = copies(&main, &[wanted("10.0.0.0/8")], &blocked);
        assert_eq!(shown(&copies), ["10.0.0.0/8 throw"]);
    }

    #[test]
    fn a_full_table_is_no_hosts() {
        let mut main: Vec<_> = (0..=MAX_WITHIN as u32)
            .map(|n| over(&format!("10.{}.{}.0/24", n / 256, n % 256), "192.0.2.1", 0))
            .collect();
        let copied = copies(&main, &[wanted("10.0.0.0/8")], &Blocked::new());
        assert_eq!(copied.routes.len(), 0);
        assert!(matches!(copied.refused[0].reason, Reason::TooMany { .. }));
        main.pop();
        let copied = copies(&main, &[wanted("10.0.0.0/8")], &Blocked::new());
        assert_eq!(copied.routes.len(), MAX_WITHIN);
    }

    #[test]
    fn ipv6_is_no_different() {
        let main = [over("::/0", "fe80::1", 1024), over("2001:db8:1::/48", "fe80::2", 1024)];
        let copies = copies(&main, &[wanted("2001:db8::/32")], &Blocked::new());
        assert_eq!(shown(&copies), ["2001:db8::/32 1024 fe80::1", "2001:db8:1::/48 1024 fe80::2"]);
    }
}
