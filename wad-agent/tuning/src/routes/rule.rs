//! A rule of ours (ip-rule(8)): which connections look into which table.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use netlink_packet_route::{
    IpProtocol,
    rule::{RuleAction, RuleAttribute, RuleMessage, RulePortRange},
};
use wad_common::ports::{PortRange, Ports};
use wad_linux::netlink::Family;
use wad_policy::config::route_rules::{Rule, To};

use super::{MAIN_PRIORITY, MAIN_TABLE, PRIORITY, PROTOCOL};

/// Which packets have no interface that they came in by: those of this host
/// (`fib_rule_match()`).
const OWN: &str = "lo";

/// A rule as netlink has it.
#[must_use]
pub fn message(rule: &Rule) -> RuleMessage {
    let mut message = RuleMessage::default();
    let attributes = &mut message.attributes;
    attributes.push(RuleAttribute::Priority(PRIORITY));
    attributes.push(RuleAttribute::Protocol(PROTOCOL));
    attributes.push(RuleAttribute::IpProtocol(IpProtocol::Tcp));
    attributes.push(RuleAttribute::Iifname(OWN.to_owned()));
    if rule.remote.prefix_len() > 0 {
        attributes.push(RuleAttribute::Destination(rule.remote.addr()));
    }
    if let Some(local) = rule.local {
        attributes.push(RuleAttribute::Source(local.addr()));
        message.header.src_len = local.prefix_len();
    }
    let range = |ports: PortRange| RulePortRange { start: ports.first, end: ports.last };
    if rule.ports.remote != PortRange::ANY {
        attributes.push(RuleAttribute::DestinationPortRange(range(rule.ports.remote)));
    }
    if rule.ports.local != PortRange::ANY {
        attributes.push(RuleAttribute::SourcePortRange(range(rule.ports.local)));
    }
    message.header.action = match rule.to {
        To::Table(table) => {
            attributes.push(RuleAttribute::Table(table));
            RuleAction::ToTable
        }
        To::Main => {
            attributes.push(RuleAttribute::Goto(MAIN_PRIORITY));
            RuleAction::Goto
        }
    };
    message.header.family = family(&rule.remote).address_family();
    message.header.dst_len = rule.remote.prefix_len();
    message
}

/// Reads a rule; None for a rule that is none of ours.
#[must_use]
pub fn read(message: &RuleMessage, family: Family) -> Option<Rule> {
    let mut addresses = [None, None];
    let (mut ports, mut to) = (Ports::ANY, None);
    let range = |range: &RulePortRange| PortRange { first: range.start, last: range.end };
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Destination(address) => addresses[0] = Some(*address),
            RuleAttribute::Source(address) => addresses[1] = Some(*address),
            RuleAttribute::DestinationPortRange(remote) => ports.remote = range(remote),
            RuleAttribute::SourcePortRange(local) => ports.local = range(local),
            RuleAttribute::Table(table) if message.header.action == RuleAction::ToTable => {
                to = Some(To::Table(*table));
            }
            RuleAttribute::Goto(MAIN_PRIORITY) => to = Some(To::Main),
            _ => {}
        }
    }
    let net = |address: Option<IpAddr>, bits| {
        IpNet::new(address.unwrap_or_else(|| unspecified(family)), bits).ok()
    };
    let local = net(addresses[1], message.header.src_len)?;
    let rule = Rule {
        remote: net(addresses[0], message.header.dst_len)?,
        local: (local.prefix_len() > 0).then_some(local),
        ports,
        to: to?,
    };
    // Whatever else it says is not ours to say.
    is_ours(message).then_some(rule)
}

/// Whether it has our protocol and priority.
pub fn is_ours(message: &RuleMessage) -> bool {
    let has = |wanted| message.attributes.contains(&wanted);
    has(RuleAttribute::Protocol(PROTOCOL)) && has(RuleAttribute::Priority(PRIORITY))
}

/// Whether it is the kernel's own for the main table, for all packets.
pub fn is_main(message: &RuleMessage) -> bool {
    let is_selector = |attribute: &RuleAttribute| {
        matches!(
            attribute,
            RuleAttribute::Iifname(_)
                | RuleAttribute::Oifname(_)
                | RuleAttribute::FwMark(_)
                | RuleAttribute::UidRange(_)
                | RuleAttribute::IpProtocol(_)
                | RuleAttribute::SourcePortRange(_)
                | RuleAttribute::DestinationPortRange(_)
                | RuleAttribute::TunId(_)
        )
    };
    let has = |wanted| message.attributes.contains(&wanted);
    message.header.action == RuleAction::ToTable
        && has(RuleAttribute::Table(MAIN_TABLE))
        && has(RuleAttribute::Priority(MAIN_PRIORITY))
        && (message.header.dst_len, message.header.src_len, message.header.tos) == (0, 0, 0)
        && !message.attributes.iter().any(is_selector)
}

pub fn family(net: &IpNet) -> Family {
    match net {
        IpNet::V4(_) => Family::V4,
        IpNet::V6(_) => Family::V6,
    }
}

pub fn unspecified(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_as_it_was_written() {
        for rule in [
            Rule {
                remote: "10.0.0.0/8".parse().unwrap(),
                local: Some("192.0.2.0/24".parse().unwrap()),
                ports: Ports {
                    remote: PortRange { first: 50_000, last: 51_000 },
                    local: PortRange::only(7),
                },
                to: To::Table(1_190_038),
            },
            Rule { remote: "::/0".parse().unwrap(), local: None, ports: Ports::ANY, to: To::Main },
        ] {
            assert_eq!(read(&message(&rule), family(&rule.remote)), Some(rule));
        }
    }

    #[test]
    fn the_rules_of_others_are_not_read() {
        let rule = Rule {
            remote: "10.0.0.0/8".parse().unwrap(),
            local: None,
            ports: Ports::ANY,
            to: To::Table(1_190_038),
        };
        let mut of_others = message(&rule);
        of_others.attributes.retain(|attribute| *attribute != RuleAttribute::Protocol(PROTOCOL));
        assert_eq!(read(&of_others, Family::V4), None);
        assert!(!is_ours(&of_others));
    }
}
