//! Reads the addresses that something is served at, and refuses those that meet.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
};

use super::{
    Config,
    fault::{Fault, Problems, Span, quoted},
};

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

/// The places of these addresses in the file, by their keys.
#[derive(Default)]
pub struct Places(HashMap<&'static str, Span>);

impl Places {
    /// Notes the place of a key with its table, if it is there.
    pub fn note(&mut self, key: &'static str, at: Option<Span>) {
        self.0.extend(at.map(|at| (key, at)));
    }
}

/// A key has something served at an address, by TCP.
#[derive(Clone, Copy)]
struct Served {
    /// The key, with its table.
    key: &'static str,
    address: SocketAddr,
    /// The place of the address; None where the file leaves it out.
    at: Option<Span>,
}

/// Returns all that is served by TCP.
fn served(config: &Config, places: &Places) -> Vec<Served> {
    let Config { metrics, api, page, probe, peers, .. } = config;
    let probe = probe.as_ref();
    let answer = probe.and_then(|probe| probe.answer.as_ref());
    let all = [
        ("[metrics] listen", Some(metrics.listen)),
        ("[api] listen", api.listen),
        ("[page] listen", page.as_ref().and_then(|page| page.listen.by_tcp())),
        ("[probe] listen", probe.and_then(|probe| probe.listen)),
        ("[probe] answer", answer.map(|answer| answer.address)),
        ("[peers] listen", peers.as_ref().and_then(|peers| peers.listen)),
    ];
    let served = |(key, address): (&'static str, Option<SocketAddr>)| {
        Some(Served { key, address: address?, at: places.0.get(key).copied() })
    };
    all.into_iter().filter_map(served).collect()
}

/// Refuses an address that two keys have, of which one at least stands in the file.
pub fn check(config: &Config, places: &Places, problems: &mut Problems) {
    let served = served(config, places);
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
