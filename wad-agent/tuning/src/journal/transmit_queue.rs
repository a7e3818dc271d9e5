//! The length of an interface's transmit queue, in packets.

use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{LinkAttribute, LinkMessage},
};
use wad_linux::{
    netlink::{self, Netlink, NetlinkError},
    netns::Identity,
};

/// An interface as it is now. Another one may get its name, but not its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    pub index: u32,
    pub packets: u32,
}

/// Finds a queue by its name; None if there is none.
pub fn of(namespace: Identity, interface: &str) -> Result<Option<Queue>, NetlinkError> {
    find(namespace, |link| link.attributes.contains(&LinkAttribute::IfName(interface.to_owned())))
}

/// Returns the queue's length; None if it is gone, or its namespace is.
pub fn packets(namespace: Identity, index: u32) -> Result<Option<u32>, NetlinkError> {
    let queue = find(namespace, |link| link.header.index == index)?;
    Ok(queue.map(|queue| queue.packets))
}

pub fn set(namespace: Identity, queue: Queue) -> Result<(), NetlinkError> {
    let Queue { index, packets } = queue;
    let mut link = LinkMessage::default();
    link.header.index = index;
    link.attributes.push(LinkAttribute::TxQueueLen(packets));
    let work = async |mut netlink: Netlink| {
        let message = RouteNetlinkMessage::SetLink(link);
        netlink.change("set the length of a transmit queue", message, 0).await
    };
    netlink::inside(namespace, work).map(|_| ())
}

fn find(
    namespace: Identity,
    is_it: impl Fn(&LinkMessage) -> bool + Send + Sync,
) -> Result<Option<Queue>, NetlinkError> {
    let found = netlink::inside(namespace, async |netlink| {
        let links = netlink.links().await?;
        let link = links.iter().find(|link| is_it(link));
        Ok(link.and_then(|link| {
            let packets = link.attributes.iter().find_map(|attribute| match attribute {
                LinkAttribute::TxQueueLen(packets) => Some(*packets),
                _ => None,
            });
            Some(Queue { index: link.header.index, packets: packets? })
        }))
    });
    Ok(found?.flatten())
}
