//! The interface that packets to an address leave by, and what it carries.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    path::Path,
};

use netlink_packet_route::{
    link::{LinkAttribute, LinkMessage},
    route::RouteAttribute,
};

use crate::netlink::{self, NetlinkError};

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    pub mtu_bytes: Option<u32>,
    /// The rate that its driver tells; None where it tells none, as for the loopback.
    pub bits_per_second: Option<u64>,
}

/// Returns the interface that packets to an address leave by; None where there is no route.
/// It may block for a moment.
///
/// # Errors
/// Where the kernel does not say.
pub fn towards(remote: IpAddr) -> Result<Option<Interface>, NetlinkError> {
    let local = match local_address(remote) {
        Ok(local) => local,
        Err(error) if error.raw_os_error() == Some(libc::ENETUNREACH) => return Ok(None),
        Err(source) => return Err(NetlinkError::Socket { source }),
    };
    let link = netlink::here(async |netlink| {
        let Some(route) = netlink.route_to(local, remote).await? else { return Ok(None) };
        let index = route.attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::Oif(index) => Some(*index),
            _ => None,
        });
        match index {
            Some(index) => netlink.link(index).await,
            None => Ok(None),
        }
    })?;
    Ok(link.and_then(|link| interface(&link, Path::new("/sys/class/net"))))
}

/// Returns the address of this host that packets to another begin with. Nothing is sent.
fn local_address(remote: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match remote {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    socket.connect(SocketAddr::new(remote, 9))?;
    Ok(socket.local_addr()?.ip())
}

fn interface(link: &LinkMessage, sysfs: &Path) -> Option<Interface> {
    let (mut name, mut mtu_bytes, mut address) = (None, None, None);
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(of) => name = Some(of.clone()),
            LinkAttribute::Mtu(of) => mtu_bytes = Some(*of),
            LinkAttribute::Address(of) => address = Some(of),
            _ => {}
        }
    }
    let name = name?;
    let folder = sysfs.join(&name);
    let read = |file| fs::read_to_string(folder.join(file)).ok();
    // The file system may be of another network namespace, which has its own of that name.
    let is_it = read("ifindex").is_some_and(|index| index.trim() == link.header.index.to_string())
        && address
            .is_none_or(|address| read("address").is_some_and(|it| it.trim() == hex(address)));
    let bits_per_second = is_it.then(|| read("speed")).flatten().and_then(|mbit| rate(&mbit));
    Some(Interface { name, mtu_bytes, bits_per_second })
}

/// Reads a rate in Mbit/s; -1 is none (Documentation/ABI/testing/sysfs-class-net).
fn rate(text: &str) -> Option<u64> {
    let mbit: u64 = text.trim().parse().ok()?;
    // SPEED_UNKNOWN of include/uapi/linux/ethtool.h, as some kernels show it.
    let is_known = mbit > 0 && mbit < u64::from(u32::MAX);
    is_known.then(|| mbit.saturating_mul(1_000_000))
}

fn hex(bytes: &[u8]) -> String {
    let bytes: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_leads_to_itself() {
        let loopback = towards(Ipv4Addr::LOCALHOST.into()).unwrap().unwrap();
        assert_eq!(loopback.name, "lo");
        assert!(loopback.mtu_bytes.is_some_and(|mtu| mtu >= 1_280), "{loopback:?}");
        assert_eq!(loopback.bits_per_second, None);
    }

    #[test]
    fn a_rate_is_that_of_the_same_interface() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("eth0");
        fs::create_dir(&folder).unwrap();
        let mut link = LinkMessage::default();
        link.header.index = 7;
        link.attributes = vec![
            LinkAttribute::IfName("eth0".to_owned()),
            LinkAttribute::Mtu(9_000),
            LinkAttribute::Address(vec![2, 0, 0, 0, 0, 0x1f]),
        ];
        let of = |index: &str, address: &str, speed: &str| {
            for (file, text) in [("ifindex", index), ("address", address), ("speed", speed)] {
                fs::write(folder.join(file), text).unwrap();
            }
            let interface = interface(&link, root.path()).unwrap();
            assert_eq!((&*interface.name, interface.mtu_bytes), ("eth0", Some(9_000)));
            interface.bits_per_second
        };
        let address = "02:00:00:00:00:1f\n";
        assert_eq!(of("7\n", address, "10000\n"), Some(10_000_000_000));
        for speed in ["-1\n", "4294967295\n", "", "0\n", "fast"] {
            assert_eq!(of("7\n", address, speed), None, "{speed}");
        }
        assert_eq!(of("8\n", address, "10000\n"), None);
        assert_eq!(of("7\n", "02:00:00:00:00:2f\n", "10000\n"), None);
    }
}
