//! The offer is what this end says to a peer: of the interface towards it, of its memory, and
//! of the path between the two, from what it measured itself or its own file says.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use wad_linux::{interface, sockstat, sysctl::Sysctl};
use wad_peers::Towards;
use wad_policy::{
    config::{MAX_BUFFER_BYTES, Metric, Value as Setting},
    heard::{Said, Source, Value},
};
use wad_toolbox::mutex::locked;
use wad_tuning::{
    bpf::Tuning,
    explain::{End, Query},
};

use super::paths::{Known, OwnPath, OwnPaths};
use crate::{
    measured::Board,
    sources::{Found, seconds_since_1970},
};

/// The headers of IP and TCP take so much of a packet, without options (RFC 6691).
const HEADERS_V4_BYTES: u32 = 40;
const HEADERS_V6_BYTES: u32 = 60;
/// An MSS option has 16 bits.
const MOST_MSS_BYTES: u32 = 65_535;

/// All that an offer is made of.
pub struct Offer<'o> {
    pub own: &'o OwnPaths,
    /// Tells what is in force and measured, where that can be seen yet.
    pub now: Option<&'o (Arc<Tuning>, Arc<Mutex<Board>>)>,
}

impl Offer<'_> {
    /// Gathers it. It may block for a moment.
    pub fn to(&self, towards: &Towards) -> Said {
        // What the kernel does not tell is not said.
        let interface = interface::towards(towards.remote).ok().flatten();
        let mtu_bytes = interface.as_ref().and_then(|interface| interface.mtu_bytes);
        let sysctl = Sysctl::default();
        let grant = towards.grant_buffer_bytes.or(self.own.max_buffer_bytes);
        let [sending, receiving] = self.directions(towards).unwrap_or_default();
        Said {
            nic_bits_per_second: interface
                .and_then(|interface| interface.bits_per_second)
                .map(|rate| rate as f64),
            mtu_bytes: mtu_bytes.filter(|mtu| (68..=1 << 20).contains(mtu)),
            mss_bytes: mtu_bytes.and_then(|mtu| mss(mtu, towards.remote)),
            // None is granted where it is 0.
            max_rcvbuf_bytes: Some(grant.unwrap_or(MAX_BUFFER_BYTES)).filter(|bytes| *bytes > 0),
            max_sndbuf_bytes: Some(self.own.max_buffer_bytes.unwrap_or(MAX_BUFFER_BYTES)),
            free_tcp_memory_bytes: free_memory_bytes(&sysctl),
            ecn: sysctl.read("net.ipv4.tcp_ecn").ok().map(|mode| mode.trim() != "0"),
            sending,
            receiving,
            ..Said::default()
        }
    }

    fn directions(&self, towards: &Towards) -> Option<[wad_policy::heard::Direction; 2]> {
        let Towards { remote, prefixes, .. } = towards;
        // The connection may be from elsewhere than the peer's flows.
        let own = prefixes.iter().any(|prefix| prefix.contains(remote)).then_some(*remote);
        let address = own.or_else(|| prefixes.first().map(|prefix| prefix.addr()));
        let in_force = address.and_then(|address| self.in_force(address));
        let named = in_force.as_ref().and_then(|(name, _)| self.own.named(name));
        let path = named.or_else(|| self.own.towards(own, prefixes))?;
        let law = in_force.filter(|(name, _)| **name == *path.name).and_then(|(_, law)| law);
        Some(path.directions(Known { law, ..self.known(path) }))
    }

    /// Returns the path that flows to an address are sure to fall under, and their congestion
    /// control.
    fn in_force(&self, address: IpAddr) -> Option<(String, Option<String>)> {
        let (tuning, _) = self.now?;
        let remote = End { address, port: None };
        let (local, user, cgroup, pod) = (None, None, None, None);
        let query = Query { remote, local, user, cgroup, pod, mark: None, interface: None };
        let path = tuning.explain(&query).ok()?.path?;
        let law = match path.settings.get("congestion") {
            Some(Setting::Text(law)) => Some(law.clone()),
            _ => None,
        };
        Some((path.name, law))
    }

    /// Returns what this end's own sources and flows know of a path.
    fn known(&self, path: &OwnPath) -> Known {
        let Some((_, board)) = self.now else { return Known::default() };
        let board = locked(board).clone();
        let Some(target) = board.targets.named(&path.name) else { return Known::default() };
        let time = SystemTime::now();
        let store = board.store();
        let findings = store.findings(target, time);
        let kind = |source: usize| board.sources.get(source).map(|(kind, _)| *kind);
        let fresh = |metric| {
            let found = findings.get(metric).filter(|found| !found.is_stale)?;
            Some((value(&found, kind(found.source)?), found.is_least))
        };
        let (bandwidth, rtt) = (fresh(Metric::Bandwidth), fresh(Metric::Rtt));
        let passive = board.sources.iter().position(|(kind, _)| *kind == PASSIVE);
        let best = passive.and_then(|source| store.sample(source, target, Metric::Bandwidth));
        let best = best.map(|sample| Value {
            value: sample.value,
            age: seconds(seconds_since_1970(time) - sample.measured_at_seconds),
            source: Source::Passive,
        });
        Known {
            law: None,
            is_least: bandwidth.as_ref().is_some_and(|(_, is_least)| *is_least),
            bandwidth_bits_per_second: bandwidth.map(|(value, _)| value),
            rtt_seconds: rtt.map(|(value, _)| value),
            best_rate_bits_per_second: best,
        }
    }
}

/// The kind of the sources that are this host's own flows.
const PASSIVE: &str = "passive";

fn value(found: &Found, kind: &str) -> Value<f64> {
    let source = if kind == PASSIVE { Source::Passive } else { Source::Measured };
    Value { value: found.value, age: seconds(found.age_seconds), source }
}

/// Returns a time of so many seconds: none, of a clock that was set back.
fn seconds(seconds: f64) -> Duration {
    /// As old as a message may say.
    const MOST: f64 = 90.0 * 86_400.0;
    Duration::try_from_secs_f64(seconds.min(MOST)).unwrap_or_default()
}

fn mss(mtu_bytes: u32, remote: IpAddr) -> Option<u32> {
    let headers = if remote.is_ipv4() { HEADERS_V4_BYTES } else { HEADERS_V6_BYTES };
    mtu_bytes.checked_sub(headers).filter(|mss| *mss > 0).map(|mss| mss.min(MOST_MSS_BYTES))
}

/// Returns the memory that TCP may still take before the kernel refuses it any (the last of `tcp_mem`).
fn free_memory_bytes(sysctl: &Sysctl) -> Option<u64> {
    let tcp_mem = sysctl.read("net.ipv4.tcp_mem").ok()?;
    let pages: u64 = tcp_mem.split_whitespace().nth(2)?.parse().ok()?;
    let most = pages.saturating_mul(sockstat::page_bytes());
    Some(most.saturating_sub(sockstat::tcp_held_bytes().ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use wad_peers::message::Statement;

    use super::*;

    #[test]
    fn a_host_says_what_it_has_whatever_it_knows_of_the_path() {
        let own = OwnPaths::default();
        let offer = Offer { own: &own, now: None };
        let said = |remote, grant_buffer_bytes| {
            let peer = "tokyo".to_owned();
            offer.to(&Towards { peer, remote, prefixes: Vec::new(), grant_buffer_bytes })
        };
        let loopback = said(Ipv4Addr::LOCALHOST.into(), Some(1 << 20));
        assert_eq!(loopback.max_rcvbuf_bytes, Some(1 << 20));
        assert!(loopback.mtu_bytes.is_some_and(|mtu| mtu > 1_000), "{loopback:?}");
        assert!(loopback.mss_bytes.is_some_and(|mss| mss > 500), "{loopback:?}");
        assert!(loopback.free_tcp_memory_bytes.is_some(), "{loopback:?}");
        assert_eq!(loopback.sending, wad_policy::heard::Direction::default());
        assert_eq!(said(Ipv4Addr::LOCALHOST.into(), Some(0)).max_rcvbuf_bytes, None);
        let every = Duration::from_secs(30);
        for remote in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
            let statement = Statement { every, prefixes: None, said: said(remote, None) };
            assert_eq!(Statement::read(&statement.write()), Ok(statement));
        }
    }

    #[test]
    fn a_segment_is_what_headers_leave_of_a_packet() {
        let (v4, v6) = (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
        assert_eq!((mss(1_500, v4), mss(9_000, v6)), (Some(1_460), Some(8_940)));
        assert_eq!((mss(40, v4), mss(10, v6), mss(1 << 20, v4)), (None, None, Some(65_535)));
        assert_eq!(seconds(-1.0), Duration::ZERO);
        assert_eq!(seconds(f64::NAN), Duration::from_secs(90 * 86_400));
    }
}
