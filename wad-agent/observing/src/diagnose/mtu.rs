//! The largest packet of a flow's path beside that of the interface which it leaves
//! by.

use std::net::IpAddr;

use netlink_packet_route::{
    link::LinkAttribute,
    route::{RouteAttribute, RouteMessage},
};
use wad_instruments::{Flow, name};
use wad_linux::{
    netlink::{self, NetlinkError},
    netns::Identity,
};

use super::course::Course;

/// Field of `tcp_sock`: what the kernel takes for the path's MTU.
pub const PATH_MTU: &str = "inet_conn.icsk_pmtu_cookie";
/// The most that options take of a TCP header.
const MOST_OPTIONS_BYTES: f64 = 40.0;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    pub mtu_bytes: u32,
}

/// Returns the interface by which a flow's packets leave its network namespace; None
/// if that is out of sight, or the route is gone.
pub fn interface(flow: &Flow) -> Result<Option<Interface>, NetlinkError> {
    let namespace =
        Identity::of_inode(flow.netns).map_err(|source| NetlinkError::Namespace { source })?;
    let (local, remote) = (flow.local.ip().to_canonical(), flow.remote.ip().to_canonical());
    let found = netlink::inside(namespace, async move |netlink| {
        let route = netlink.route_to(local, remote).await?;
        let index = route.as_ref().and_then(device);
        let links = netlink.links().await?;
        Ok(links.into_iter().find(|link| Some(link.header.index) == index))
    })?;
    let Some(link) = found.flatten() else { return Ok(None) };
    let name = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.clone()),
        _ => None,
    });
    let mtu = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Mtu(mtu) => Some(*mtu),
        _ => None,
    });
    Ok(name.zip(mtu).map(|(name, mtu_bytes)| Interface { name, mtu_bytes }))
}

fn device(route: &RouteMessage) -> Option<u32> {
    route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Oif(index) => Some(*index),
        _ => None,
    })
}

/// Returns what the flow's packets could be larger than, if anything.
#[must_use]
pub fn shortfall(course: &Course<'_>, interface: &Interface) -> Option<String> {
    let Interface { name, mtu_bytes } = interface;
    let path = course.last(PATH_MTU).filter(|bytes| *bytes > 0.0)?;
    if path < f64::from(*mtu_bytes) {
        return Some(format!(
            "the path takes packets of {path} bytes, {name} of {mtu_bytes}: a tunnel, or a link \
             with a smaller MTU, is on the way"
        ));
    }
    let mss = course.last(name::CUR_MSS).filter(|bytes| *bytes > 0.0)?;
    let headers = if is_v6(course.flow()) { 60.0 } else { 40.0 };
    (mss + headers + MOST_OPTIONS_BYTES < path).then(|| {
        format!(
            "segments have {mss} bytes, of the {} that packets of {path} bytes could hold: the \
             other end, or something on the way, has asked for less",
            path - headers
        )
    })
}

fn is_v6(flow: &Flow) -> bool {
    matches!(flow.remote.ip().to_canonical(), IpAddr::V6(_))
}
