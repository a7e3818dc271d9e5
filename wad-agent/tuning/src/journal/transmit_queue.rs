//! The length of an interface's transmit queue, in packets, in the network namespace of the
//! calling thread.

use netlink_packet_route::{
    RouteNetlinkMessage,
    link::{LinkAttribute, LinkMessage},
};
use wad_linux::netlink::{self, Netlink, NetlinkError};

/// An interface as it is now. Another one may get its name, but not its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    pub index: u32,
    pub packets: u32,
}

/// Finds a queue by its name; None if there is none.
pub fn of(interface: &str) -> Result<Option<Queue>, NetlinkError> {
    find(|link| link.attributes.contains(&LinkAttribute::IfName(interface.to_owned())))
}

/// Returns the queue's length; None if it is gone.
pub fn packets(index: u32) -> Result<Option<u32>, NetlinkError> {
    Ok(find(|link| link.header.index == index)?.map(|queue| queue.packets))
}

pub fn set(queue: &Queue) -> Result<(), NetlinkError> {
    let mut link = LinkMessage::default();
    link.header.index = queue.index;
    link.attributes.push(LinkAttribute::TxQueueLen(queue.packets));
    netlink::here(async |mut netlink: Netlink| {
        let message = RouteNetlinkMessage::SetLink(link);
        netlink.change("set the length of a transmit queue", message, 0).await
    })
}

fn find(is_it: impl Fn(&LinkMessage) -> bool + Send + Sync) -> Result<Option<Queue>, NetlinkError> {
    netlink::here(async |netlink| {
        let links = netlink.links().await?;
        let link = links.iter().find(|link| is_it(link));
        Ok(link.and_then(|link| {
            let packets = link.attributes.iter().find_map(|attribute| match attribute {
                LinkAttribute::TxQueueLen(packets) => Some(*packets),
                _ => None,
            });
            Some(Queue { index: link.header.index, packets: packets? })
        }))
    })
}
