//! Reads the addresses that something is served at.

use std::net::{IpAddr, SocketAddr};

use super::fault::{Fault, Problems, Span, quoted};

/// An address to listen on; `port` is that of the example.
pub fn listen(address: &str, port: u16) -> Result<SocketAddr, Fault> {
    address.parse().map_err(|_| {
        Fault::new(
            format!("{} is no address and port", quoted(address)),
            "an address and a port are expected",
        )
        .help(format!("write \"127.0.0.1:{port}\" or \"[::1]:{port}\"; names are not taken"))
    })
}

/// A key has something served at an address, by TCP.
#[derive(Clone, Copy)]
pub struct Served {
    /// The key, with its table.
    pub key: &'static str,
    pub address: SocketAddr,
    /// The place of the address; None where the file leaves it out.
    pub at: Option<Span>,
}

/// Refuses an address that two keys have, of which one at least stands in the file.
pub fn check(served: &[Served], problems: &mut Problems) {
    for (place, one) in served.iter().enumerate() {
        let meets = |other: &&Served| meet(one.address, other.address);
        let Some(other) = served[..place].iter().find(meets) else { continue };
        let (one, other) = if one.at.is_some() { (one, other) } else { (other, one) };
        let Some(at) = one.at else { continue };
        let title = format!("{} and {} are at the same address", other.key, one.key);
        let label = format!("{} has {}", other.key, other.address);
        let fault = Fault::new(title, label).help("give each a port of its own").at(at);
        problems.push(match other.at {
            Some(other) => fault.also(other, "here"),
            None => fault,
        });
    }
}

/// Whether an address cannot be had beside another. Of both families together that depends on
/// the host (`net.ipv6.bindv6only`).
fn meet(one: SocketAddr, other: SocketAddr) -> bool {
    let scope = |address| match address {
        SocketAddr::V6(address) => address.scope_id(),
        SocketAddr::V4(_) => 0,
    };
    let (port, is_same) = (one.port(), one.port() == other.port());
    let is_one_scope = scope(one) == scope(other);
    let (one, other): (IpAddr, IpAddr) = (one.ip().to_canonical(), other.ip().to_canonical());
    let has_all = one.is_unspecified() || other.is_unspecified();
    // Port 0 is any that is free.
    is_same
        && port != 0
        && one.is_ipv4() == other.is_ipv4()
        && (one == other && is_one_scope || has_all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_meet_where_the_kernel_gives_one_alone() {
        let meet = |one: &str, other: &str| {
            let [one, other] = [one, other].map(|address| address.parse().unwrap());
            assert_eq!(meet(one, other), meet(other, one));
            meet(one, other)
        };
        for (one, other) in [
            ("127.0.0.1:1", "127.0.0.1:1"),
            ("127.0.0.1:1", "[::ffff:127.0.0.1]:1"),
            ("127.0.0.1:1", "0.0.0.0:1"),
            ("[::1]:1", "[::]:1"),
        ] {
            assert!(meet(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("127.0.0.1:1", "127.0.0.1:2"),
            ("[fe80::1%2]:1", "[fe80::1%3]:1"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("127.0.0.1:1", "127.0.0.2:1"),
            ("127.0.0.1:1", "[::1]:1"),
            ("0.0.0.0:1", "[::1]:1"),
        ] {
            assert!(!meet(one, other), "{one} {other}");
        }
    }
}
