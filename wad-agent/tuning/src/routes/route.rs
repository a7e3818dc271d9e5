//! A route, as far as it can be copied, and what is in the way of that.

use std::{fmt, net::IpAddr};

use ipnet::IpNet;
use netlink_packet_core::Nla as _;
use netlink_packet_route::{
    link::{InfoData, InfoKind, LinkAttribute, LinkInfo, LinkMessage},
    route::{
        RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteMetric, RouteProtocol,
        RouteScope, RouteType,
    },
};
use wad_linux::netlink::Family;
use wad_policy::config::route_rules::RouteMetrics;

use super::{
    PROTOCOL,
    rule::{family, unspecified},
};

/// A feature of a route: its connections ask for ECN, and accept it (include/uapi/linux/rtnetlink.h).
pub const RTAX_FEATURE_ECN: u32 = 1 << 0;

/// Routes within a prefix that are copied; a host that has more is a router.
pub const MAX_WITHIN: usize = 1_000;

/// A route of the main table, or of one of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub to: IpNet,
    pub tos: u8,
    pub priority: u32,
    pub way: Way,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    Through(Hop),
    /// The look-up ends in this table, and goes on with the next rule.
    Throw,
}

/// A hop is one way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    pub device: u32,
    pub gateway: Option<IpAddr>,
    /// The address that connections get.
    pub source: Option<IpAddr>,
    pub scope: RouteScope,
    /// The gateway is on the link, whatever addresses say.
    pub on_link: bool,
    /// The metrics, by their numbers.
    pub metrics: Vec<RouteMetric>,
}

/// Says why a route is not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    Multipath,
    NextHopObject,
    Vrf {
        device: String,
    },
    /// Made by a routing daemon.
    Protocol(RouteProtocol),
    /// More than one for the same packets.
    Several,
    Kind(RouteType),
    Attribute(String),
    TooMany {
        routes: usize,
    },
    Kernel {
        error: String,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Multipath => f.write_str("it is a multipath route"),
            Self::NextHopObject => f.write_str("it has a next-hop object"),
            Self::Vrf { device } => write!(f, "it leads into the VRF of {device}"),
            Self::Protocol(protocol) => write!(
                f,
                "a routing daemon made it (protocol {protocol}, not kernel, boot, static, ra or \
                 dhcp)"
            ),
            Self::Several => f.write_str("there are several with the same metric"),
            Self::Kind(kind) => write!(f, "it is of type {kind:?}, and leads nowhere"),
            Self::Attribute(attribute) => write!(f, "it has what is not copied: {attribute}"),
            Self::TooMany { routes } => {
                write!(f, "there are {routes} within, more than {}", MAX_WITHIN)
            }
            Self::Kernel { error } => write!(f, "the kernel refuses a copy: {error}"),
        }
    }
}

/// A route of the main table, and whether it can be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub to: IpNet,
    pub route: Result<Route, Reason>,
}

/// The table that a route is in.
pub fn table(message: &RouteMessage) -> u32 {
    let whole = message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Table(table) => Some(*table),
        _ => None,
    });
    whole.unwrap_or(message.header.table.into())
}

/// Returns the route; None for what no look-up finds: entries of a cache, and routes
/// out of order.
pub fn found(message: &RouteMessage, family: Family, vrfs: &[Vrf]) -> Option<Found> {
    let header = &message.header;
    if header.flags.intersects(RouteFlags::Cloned | RouteFlags::Dead) {
        return None;
    }
    let to = destination(message, family)?;
    Some(Found { to, route: read(message, to, vrfs) })
}

pub fn destination(message: &RouteMessage, family: Family) -> Option<IpNet> {
    let address = message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Destination(address) => ip(address),
        _ => None,
    });
    let address = address.unwrap_or_else(|| unspecified(family));
    IpNet::new(address, message.header.destination_prefix_length).ok()
}

fn read(message: &RouteMessage, to: IpNet, vrfs: &[Vrf]) -> Result<Route, Reason> {
    let header = &message.header;
    match header.protocol {
        RouteProtocol::Kernel
        | RouteProtocol::Boot
        | RouteProtocol::Static
        | RouteProtocol::Ra
        | RouteProtocol::Dhcp => {}
        protocol => return Err(Reason::Protocol(protocol)),
    }
    let route = plain(message, to)?;
    if let Way::Through(hop) = &route.way
        && let Some(vrf) = vrfs.iter().find(|vrf| vrf.device == hop.device)
    {
        return Err(Reason::Vrf { device: vrf.name.clone() });
    }
    Ok(route)
}

/// A route without anything that does not fit into a [`Route`].
pub fn plain(message: &RouteMessage, to: IpNet) -> Result<Route, Reason> {
    let header = &message.header;
    let (mut priority, mut device, mut gateway, mut source) = (0, None, None, None);
    let mut metrics = Vec::new();
    if header.source_prefix_length > 0 {
        return Err(Reason::Attribute("a source prefix".to_owned()));
    }
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::MultiPath(_) => return Err(Reason::Multipath),
            RouteAttribute::NhId(_) => return Err(Reason::NextHopObject),
            RouteAttribute::Priority(number) => priority = *number,
            RouteAttribute::Oif(number) => device = Some(*number),
            RouteAttribute::Gateway(address) => gateway = ip(address),
            RouteAttribute::PrefSource(address) => source = ip(address),
            RouteAttribute::Metrics(found) => metrics.clone_from(found),
            // They say what is known already, or nothing to TCP.
            RouteAttribute::Destination(_)
            | RouteAttribute::Table(_)
            | RouteAttribute::CacheInfo(_)
            | RouteAttribute::Preference(_) => {}
            other => return Err(Reason::Attribute(name(other))),
        }
    }
    metrics.sort_by_key(|metric| metric.kind());
    let way = match (header.kind, device) {
        (RouteType::Throw, _) => Way::Throw,
        (RouteType::Unicast, Some(device)) => Way::Through(Hop {
            device,
            gateway,
            source,
            scope: header.scope,
            on_link: header.flags.contains(RouteFlags::Onlink),
            metrics,
        }),
        (kind, _) => return Err(Reason::Kind(kind)),
    };
    Ok(Route { to, tos: header.tos, priority, way })
}

impl Route {
    /// Lets the next rule decide for a prefix.
    #[must_use]
    pub fn throw(to: IpNet) -> Self {
        Self { to, tos: 0, priority: default_priority(family(&to)), way: Way::Throw }
    }

    /// Returns the route for another prefix, with these metrics in place of its own.
    #[must_use]
    pub fn copy(&self, to: IpNet, ours: RouteMetrics) -> Self {
        let mut copy = Self { to, ..self.clone() };
        if let Way::Through(hop) = &mut copy.way {
            hop.metrics.retain(|metric| match metric {
                RouteMetric::Reordering(_) => ours.reorder_segments == 0,
                RouteMetric::QuickAck(_) => !ours.quickack,
                _ => true,
            });
            if ours.reorder_segments > 0 {
                hop.metrics.push(RouteMetric::Reordering(ours.reorder_segments));
            }
            if ours.quickack {
                hop.metrics.push(RouteMetric::QuickAck(1));
            }
            if ours.ecn {
                add_feature(&mut hop.metrics, RTAX_FEATURE_ECN);
            }
            hop.metrics.sort_by_key(|metric| metric.kind());
        }
        copy
    }

    /// A route of ours in a table of ours.
    #[must_use]
    pub fn message(&self, table: u32) -> RouteMessage {
        let mut message = RouteMessage::default();
        let header = &mut message.header;
        header.address_family = family(&self.to).address_family();
        header.destination_prefix_length = self.to.prefix_len();
        header.tos = self.tos;
        header.protocol = PROTOCOL;
        let attributes = &mut message.attributes;
        attributes.push(RouteAttribute::Table(table));
        if self.to.prefix_len() > 0 {
            attributes.push(RouteAttribute::Destination(self.to.addr().into()));
        }
        if self.priority > 0 {
            attributes.push(RouteAttribute::Priority(self.priority));
        }
        match &self.way {
            Way::Throw => header.kind = RouteType::Throw,
            Way::Through(hop) => {
                header.kind = RouteType::Unicast;
                header.scope = hop.scope;
                header.flags.set(RouteFlags::Onlink, hop.on_link);
                attributes.push(RouteAttribute::Oif(hop.device));
                attributes.extend(hop.gateway.map(|to| RouteAttribute::Gateway(to.into())));
                attributes.extend(hop.source.map(|from| RouteAttribute::PrefSource(from.into())));
                if !hop.metrics.is_empty() {
                    attributes.push(RouteAttribute::Metrics(hop.metrics.clone()));
                }
            }
        }
        message
    }

    /// Gateways have to be reachable when routes over them are made.
    #[must_use]
    pub fn needs_others(&self) -> bool {
        matches!(&self.way, Way::Through(hop) if hop.gateway.is_some())
    }
}

/// Returns the priority that the kernel takes for none (`IP6_RT_PRIO_USER`).
const fn default_priority(family: Family) -> u32 {
    match family {
        Family::V4 => 0,
        Family::V6 => 1024,
    }
}

/// Adds a feature to those that a route has already.
fn add_feature(metrics: &mut Vec<RouteMetric>, feature: u32) {
    for metric in metrics.iter_mut() {
        if let RouteMetric::Features(features) = metric {
            *features |= feature;
            return;
        }
    }
    metrics.push(RouteMetric::Features(feature));
}

/// A device of a VRF, or in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vrf {
    pub device: u32,
    pub name: String,
}

pub fn vrfs(links: &[LinkMessage]) -> Vec<Vrf> {
    let is_vrf = |link: &LinkMessage| {
        link.attributes.iter().any(|attribute| match attribute {
            LinkAttribute::LinkInfo(infos) => infos.iter().any(|info| {
                matches!(info, LinkInfo::Kind(InfoKind::Vrf) | LinkInfo::Data(InfoData::Vrf(_)))
            }),
            _ => false,
        })
    };
    let masters: Vec<u32> =
        links.iter().filter(|link| is_vrf(link)).map(|link| link.header.index).collect();
    let in_one = |link: &&LinkMessage| {
        let index = link.header.index;
        masters.contains(&index)
            || link.attributes.iter().any(
                |attribute| matches!(attribute, LinkAttribute::Controller(by) if masters.contains(by)),
            )
    };
    let name = |link: &LinkMessage| {
        link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name.clone()),
            _ => None,
        })
    };
    links
        .iter()
        .filter(in_one)
        .map(|link| Vrf { device: link.header.index, name: name(link).unwrap_or_default() })
        .collect()
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

/// The first word of what it looks like.
fn name(attribute: &RouteAttribute) -> String {
    let shown = format!("{attribute:?}");
    let end = shown.find(|c: char| !c.is_alphanumeric()).unwrap_or(shown.len());
    shown[..end].to_lowercase()
}
