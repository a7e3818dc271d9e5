//! Makes rules and routes what they are to be. At each moment a look-up ends either
//! in the main table or in a copy of what it has: tables are filled before rules lead
//! to them, and emptied after.

use std::collections::BTreeMap;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::{
    RouteNetlinkMessage,
    route::{RouteAttribute, RouteHeader, RouteMessage, RouteScope},
    rule::{RuleAttribute, RuleMessage},
};
use nix::libc::{ENOENT, ESRCH};
use wad_linux::netlink::{Family, Netlink, NetlinkError};
use wad_policy::config::route_rules::{RouteMetrics, Rule, Selected, To};

use super::{
    MAIN_PRIORITY, MAIN_TABLE, PROTOCOL,
    copies::{Blocked, Copies, Place, Refusal, Wanted, copies},
    route::{self, Route, Vrf, Way},
    rule,
    standing::{Refused, Report},
};

/// Once, from what is there to what is wanted.
pub async fn pass(netlink: &mut Netlink, selected: &[Selected]) -> Result<Report, NetlinkError> {
    let vrfs = route::vrfs(&netlink.links().await?);
    let mut report = Report::default();
    for family in Family::ALL {
        let here: Vec<_> = selected
            .iter()
            .filter(|selected| rule::family(&selected.rule.remote) == family)
            .collect();
        pass_family(netlink, family, &here, &vrfs, &mut report).await?;
    }
    Ok(report)
}

async fn pass_family(
    netlink: &mut Netlink,
    family: Family,
    selected: &[&Selected],
    vrfs: &[Vrf],
    report: &mut Report,
) -> Result<(), NetlinkError> {
    let rules = match netlink.rules(family).await {
        // A kernel without IPv6, or without rules: nobody asks for them.
        Err(_) if selected.is_empty() => return Ok(()),
        rules => Rules::read(&rules?, family),
    };
    let mut wanted_rules: Vec<_> = selected.iter().map(|selected| selected.rule.clone()).collect();
    if !rules.has_main && !wanted_rules.is_empty() {
        wanted_rules.clear();
        report.refused.extend(selected.iter().map(|selected| Refused {
            path: selected.path.clone(),
            what: format!(
                "this host's rules have no `from all lookup main` at {MAIN_PRIORITY}, so that its \
                 routes to {} are left alone",
                selected.rule.remote
            ),
        }));
    }
    let dumped = netlink.routes(family).await?;
    let in_main = dumped.iter().filter(|message| route::table(message) == MAIN_TABLE);
    let main: Vec<_> = in_main.filter_map(|message| route::found(message, family, vrfs)).collect();
    let wanted = tables(&wanted_rules);
    let mut there = there(&dumped, family);
    let mut blocked = Blocked::new();
    let copies = loop {
        let copies = copies(&main, &wanted, &blocked);
        match put(netlink, &there, &copies).await {
            Ok(()) => break copies,
            Err((place, Way::Through(_), error)) if error.errno().is_some() => {
                blocked.insert((place.table, place.to), error.to_string());
            }
            Err((_, _, error)) => return Err(error),
        }
    };
    if !blocked.is_empty() {
        there = self::there(&netlink.routes(family).await?, family);
    }
    rules.make(netlink, &wanted_rules).await?;
    for (place, found) in there.iter().filter(|(place, _)| !copies.routes.contains_key(place)) {
        remove(netlink, *place, &found.header).await?;
    }
    report.others_come_first |= rules.others_come_first && !wanted_rules.is_empty();
    report.copies += copies.routes.values().filter(|route| route.way != Way::Throw).count();
    report.refused.extend(copies.refused.iter().flat_map(|refusal| refused(refusal, selected)));
    Ok(())
}

/// Returns the refusal for each path that it concerns.
fn refused(refusal: &Refusal, selected: &[&Selected]) -> Vec<Refused> {
    let Wanted { table, prefix } = refusal.wanted;
    let concerns = |rule: &Rule| rule.remote == prefix && rule.to == To::Table(table);
    let what = format!("the route to {} is left alone: {}", refusal.to, refusal.reason);
    let concerned = selected.iter().filter(|selected| concerns(&selected.rule));
    concerned.map(|selected| Refused { path: selected.path.clone(), what: what.clone() }).collect()
}

/// Each once.
fn tables(rules: &[Rule]) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for rule in rules {
        let To::Table(table) = rule.to else { continue };
        let one = Wanted { table, prefix: rule.remote };
        if !wanted.contains(&one) {
            wanted.push(one);
        }
    }
    wanted
}

/// A route of ours as it is in the kernel.
struct There {
    header: RouteHeader,
    /// The route; None for one that is unlike any we make.
    route: Option<Route>,
}

fn there(messages: &[RouteMessage], family: Family) -> BTreeMap<Place, There> {
    let ours = messages.iter().filter(|message| message.header.protocol == PROTOCOL);
    let places = ours.filter_map(|message| {
        let table = route::table(message);
        RouteMetrics::of_table(table)?;
        let to = route::destination(message, family)?;
        let priority = message.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::Priority(priority) => Some(*priority),
            _ => None,
        });
        let header = message.header.clone();
        let place = Place { table, to, tos: header.tos, priority: priority.unwrap_or(0) };
        Some((place, There { header, route: route::plain(message, to).ok() }))
    });
    places.collect()
}

/// Makes what differs; on an error says which could not be made.
async fn put(
    netlink: &mut Netlink,
    there: &BTreeMap<Place, There>,
    copies: &Copies,
) -> Result<(), (Place, Way, NetlinkError)> {
    let is_there = |place: &Place, route: &Route| {
        there.get(place).is_some_and(|there| there.route.as_ref() == Some(route))
    };
    let mut missing: Vec<_> =
        copies.routes.iter().filter(|(place, route)| !is_there(place, route)).collect();
    missing.sort_by_key(|(_, route)| route.needs_others());
    for (place, route) in missing {
        let message = RouteNetlinkMessage::NewRoute(route.message(place.table));
        let made = netlink.change("copy a route", message, NLM_F_CREATE | NLM_F_REPLACE).await;
        made.map_err(|error| (*place, route.way.clone(), error))?;
    }
    Ok(())
}

async fn remove(
    netlink: &mut Netlink,
    place: Place,
    header: &RouteHeader,
) -> Result<(), NetlinkError> {
    let mut message = RouteMessage::default();
    message.header = RouteHeader { table: 0, ..header.clone() };
    // Of any scope.
    message.header.scope = RouteScope::NoWhere;
    message.attributes.push(RouteAttribute::Table(place.table));
    message.attributes.push(RouteAttribute::Priority(place.priority));
    if place.to.prefix_len() > 0 {
        message.attributes.push(RouteAttribute::Destination(place.to.addr().into()));
    }
    let removed =
        netlink.change("remove a copy of a route", RouteNetlinkMessage::DelRoute(message), 0).await;
    unless_gone(removed)
}

/// The rules of a family, in their order.
struct Rules {
    /// Our rules, with what they say, if they are as we make them.
    ours: Vec<(RuleMessage, Option<Rule>)>,
    /// A rule of others has come between ours and that of the main table.
    is_between: bool,
    others_come_first: bool,
    has_main: bool,
}

impl Rules {
    fn read(messages: &[RuleMessage], family: Family) -> Self {
        let main = messages.iter().position(rule::is_main);
        let before = &messages[..main.unwrap_or(messages.len())];
        let mut after_ours = before.iter().skip_while(|message| !rule::is_ours(message));
        let is_of_others = |message: &&RuleMessage| !rule::is_ours(message);
        // The kernel's own for local addresses has no priority.
        let is_first = |message: &&RuleMessage| {
            message.attributes.iter().any(|a| matches!(a, RuleAttribute::Priority(1..)))
        };
        Self {
            ours: messages
                .iter()
                .filter(|message| rule::is_ours(message))
                .map(|message| (message.clone(), rule::read(message, family)))
                .collect(),
            is_between: after_ours.any(|rule| is_of_others(&rule)),
            others_come_first: before.iter().filter(is_of_others).any(|rule| is_first(&rule)),
            has_main: main.is_some(),
        }
    }

    /// New rules of a priority come after those that are there: any that is out of
    /// place takes all of them to be made anew. Meanwhile the main table decides.
    async fn make(&self, netlink: &mut Netlink, wanted: &[Rule]) -> Result<(), NetlinkError> {
        let there = self.ours.iter().map(|(_, rule)| rule.as_ref());
        if !self.is_between && there.eq(wanted.iter().map(Some)) {
            return Ok(());
        }
        self.remove(netlink).await?;
        for rule in wanted {
            let message = RouteNetlinkMessage::NewRule(rule::message(rule));
            netlink.change("make a rule", message, NLM_F_CREATE | NLM_F_EXCL).await?;
        }
        Ok(())
    }

    async fn remove(&self, netlink: &mut Netlink) -> Result<(), NetlinkError> {
        for (message, _) in &self.ours {
            let message = RouteNetlinkMessage::DelRule(message.clone());
            unless_gone(netlink.change("remove a rule of wad's", message, 0).await)?;
        }
        Ok(())
    }
}

/// Takes all that is ours out of a family: the rules first.
pub async fn clear(netlink: &mut Netlink, family: Family) -> Result<(), NetlinkError> {
    // Where there are no rules, there are none of ours.
    let Ok(rules) = netlink.rules(family).await else { return Ok(()) };
    Rules::read(&rules, family).remove(netlink).await?;
    for (place, found) in there(&netlink.routes(family).await?, family) {
        remove(netlink, place, &found.header).await?;
    }
    Ok(())
}

fn unless_gone(removed: Result<(), NetlinkError>) -> Result<(), NetlinkError> {
    match removed {
        Err(error) if matches!(error.errno(), Some(ENOENT | ESRCH)) => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use ipnet::IpNet;
    use wad_common::ports::{PortRange, Ports};

    use super::*;

    fn rule(remote: &str, table: u32) -> Rule {
        let remote: IpNet = remote.parse().unwrap();
        Rule { remote, local: None, ports: Ports::ANY, to: To::Table(table) }
    }

    fn kernels(priority: u32, table: u32) -> RuleMessage {
        let mut message = RuleMessage::default();
        message.header.action = netlink_packet_route::rule::RuleAction::ToTable;
        message.attributes = vec![RuleAttribute::Priority(priority), RuleAttribute::Table(table)];
        message
    }

    #[test]
    fn rules_of_others_are_told_from_ours() {
        let (ours, others) = (rule::message(&rule("10.0.0.0/8", 1_190_038)), kernels(32_765, 7));
        let (local, main) = (kernels(0, 255), kernels(MAIN_PRIORITY, MAIN_TABLE));
        let read = |rules: &[&RuleMessage]| {
            let rules: Vec<_> = rules.iter().map(|rule| (*rule).clone()).collect();
            let read = Rules::read(&rules, Family::V4);
            (read.ours.len(), read.is_between, read.others_come_first, read.has_main)
        };
        assert_eq!(read(&[&local, &ours, &main]), (1, false, false, true));
        assert_eq!(read(&[&local, &others, &ours, &main]), (1, false, true, true));
        assert_eq!(read(&[&local, &ours, &others, &main]), (1, true, true, true));
        assert_eq!(read(&[&local, &ours]), (1, false, false, false));
    }

    #[test]
    fn a_prefix_is_filled_once_for_each_table() {
        let rules = [
            rule("10.0.0.0/8", 1),
            Rule {
                ports: Ports { remote: PortRange::only(80), ..Ports::ANY },
                ..rule("10.0.0.0/8", 1)
            },
            rule("10.0.0.0/8", 2),
            Rule { to: To::Main, ..rule("10.1.0.0/16", 0) },
        ];
        assert_eq!(tables(&rules).len(), 2);
    }
}
