//! The paths as the own file has them, as far as peers are told of them: never anything that
//! was heard.

use std::{collections::HashMap, net::IpAddr, sync::Arc, time::Duration};

use ipnet::IpNet;
use wad_policy::{
    capacity::Capacity,
    config::{Config, PathPolicy, auto_buffer_bytes, is_rate, is_rtt},
    heard::{Direction, Source, Value},
};

/// The paths of a configuration, and its bound on buffers.
#[derive(Debug, Default)]
pub struct OwnPaths {
    paths: Vec<OwnPath>,
    by_name: HashMap<Arc<str>, usize>,
    pub max_buffer_bytes: Option<u64>,
}

/// A path as the file has it.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnPath {
    pub name: Arc<str>,
    remote: Vec<IpNet>,
    /// The congestion control, where the file says one.
    law: Option<String>,
    sndbuf_bytes: Option<u32>,
    rcvbuf_bytes: Option<u32>,
    /// It carries so much, by the file.
    capacity: Capacity,
}

/// Holds what is known of a path beside the file, none of it from peers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// The congestion control in force.
    pub law: Option<String>,
    pub bandwidth_bits_per_second: Option<Value<f64>>,
    /// The bandwidth is what flows had room for: the path may carry more.
    pub is_least: bool,
    pub rtt_seconds: Option<Value<f64>>,
    /// The rate that flows got which no application held back.
    pub best_rate_bits_per_second: Option<Value<f64>>,
}

impl OwnPaths {
    pub fn of(config: &Config) -> Self {
        // Of those that are only watched, nothing follows.
        let paths = config.paths.iter().filter(|path| !path.observe).map(OwnPath::of);
        let paths: Vec<_> = paths.collect();
        let by_name = paths.iter().enumerate().map(|(at, path)| (Arc::clone(&path.name), at));
        let by_name = by_name.collect();
        let max_buffer_bytes = config.limits.max_buffer_bytes.map(u64::from);
        Self { paths, by_name, max_buffer_bytes }
    }

    pub fn named(&self, name: &str) -> Option<&OwnPath> {
        self.by_name.get(name).map(|at| &self.paths[*at])
    }

    /// Returns the path that is for a peer: the narrowest around its address, or else the first
    /// that has anything in common with what it speaks for.
    pub fn towards(&self, address: Option<IpAddr>, prefixes: &[IpNet]) -> Option<&OwnPath> {
        let around = address.and_then(|address| {
            let bits = |path: &OwnPath| {
                let around = path.remote.iter().filter(|net| net.contains(&address));
                around.map(IpNet::prefix_len).max()
            };
            let around = self.paths.iter().filter_map(|path| Some((path, bits(path)?)));
            // Of several the first, as for flows.
            around.reduce(|best, next| if next.1 > best.1 { next } else { best })
        });
        let meets = |path: &&OwnPath| {
            path.remote
                .iter()
                .any(|own| prefixes.iter().any(|its| own.contains(its) || its.contains(own)))
        };
        around.map(|(path, _)| path).or_else(|| self.paths.iter().find(meets))
    }
}

impl OwnPath {
    fn of(path: &PathPolicy) -> Self {
        let fallback = path.measured.map(|measured| measured.fallback).unwrap_or_default();
        // It follows from what is measured, and from the capacity below where nothing is.
        let follows = path.measured.is_some_and(|measured| measured.buffers.sndbuf);
        Self {
            name: path.name.as_str().into(),
            remote: path.remote.clone(),
            law: path.congestion.as_ref().map(|law| law.name().to_owned()),
            sndbuf_bytes: path.sndbuf_bytes.filter(|_| !follows),
            rcvbuf_bytes: path.rcvbuf_bytes,
            capacity: path.origin.capacity.or(fallback),
        }
    }

    /// Returns what is said of both directions: of data that this end sends, and of data that
    /// it receives.
    pub fn directions(&self, known: Known) -> [Direction; 2] {
        let law = known.law.or_else(|| self.law.clone());
        let file = |of: Option<f64>, is_valid: fn(f64) -> bool| {
            of.filter(|value| is_valid(*value)).map(of_file)
        };
        let bandwidth = known.bandwidth_bits_per_second.filter(|rate| is_rate(rate.value));
        // What flows got says how much the other end needs only where nothing better is known.
        let file_rate = file(self.capacity.bits_per_second, is_rate);
        let bandwidth = match bandwidth {
            Some(least) if known.is_least => match file_rate {
                Some(rate) if rate.value >= least.value => Some(rate),
                _ => Some(least),
            },
            Some(measured) => Some(measured),
            None => file_rate,
        };
        let rtt = known.rtt_seconds.filter(|rtt| is_rtt(rtt.value));
        let rtt = rtt.or_else(|| file(self.capacity.rtt_seconds, is_rtt));
        let best = known.best_rate_bits_per_second.filter(|rate| is_rate(rate.value));
        let sending = Direction {
            law: law.map(of_file),
            wanted_window_bytes: window(self.sndbuf_bytes, bandwidth.as_ref(), rtt.as_ref()),
            bandwidth_bits_per_second: bandwidth,
            min_rtt_seconds: rtt.clone(),
            best_rate_bits_per_second: best,
            limited_by: Vec::new(),
        };
        // What a path carries this way, the sources of this end do not measure.
        let receiving = Direction {
            wanted_window_bytes: self.rcvbuf_bytes.map(|bytes| of_file(u64::from(bytes))),
            min_rtt_seconds: rtt,
            ..Direction::default()
        };
        [sending, receiving]
    }
}

/// The file says so, and is as new as can be.
const fn of_file<T>(value: T) -> Value<T> {
    Value { value, age: Duration::ZERO, source: Source::File }
}

/// Returns the buffer that a path needs at the other end: what the file gives at this one, or
/// what follows from what the path carries.
fn window(
    in_file: Option<u32>,
    bandwidth: Option<&Value<f64>>,
    rtt: Option<&Value<f64>>,
) -> Option<Value<u64>> {
    if let Some(bytes) = in_file {
        return Some(of_file(bytes.into()));
    }
    let (bandwidth, rtt) = bandwidth.zip(rtt)?;
    let bytes = auto_buffer_bytes(bandwidth.value / 8.0 * rtt.value);
    // As old as the older of the two, and from where that is.
    let older = if rtt.age > bandwidth.age { rtt } else { bandwidth };
    let source = match (bandwidth.source, rtt.source) {
        (Source::File, Source::File) => Source::File,
        (Source::Passive, _) | (_, Source::Passive) => Source::Passive,
        _ => Source::Measured,
    };
    // An int in the kernel.
    let value = bytes.clamp(1, i32::MAX as u64);
    Some(Value { value, age: older.age, source })
}

#[cfg(test)]
mod tests {
    use wad_policy::config::testing::host;

    use super::*;

    fn paths(text: &str) -> OwnPaths {
        OwnPaths::of(&Config::parse("file", text, &host()).unwrap())
    }

    const FILE: &str = "\
        [limits]\nmax_buffer = '128MiB'\n\
        [[path]]\nname = 'site'\nremote = ['192.0.2.0/24', '2001:db8::/48']\nsndbuf = '8MiB'\n\
        [[path]]\nname = 'host'\nremote = '192.0.2.7'\nbandwidth = '1Gbit'\nrtt = '100ms'\n\
        sndbuf = 'auto'\ncongestion = 'cubic'\n\
        [[path]]\nname = 'watched'\nremote = '198.51.100.0/24'\nmode = 'observe'\n\
        [[path]]\nname = 'measured'\nremote = '203.0.113.0/24'\nmode = 'measured'\n\
        bandwidth = '622Mbit'\nrtt = '70ms'\nsndbuf = 'auto'\nrcvbuf = 'auto'\n";

    fn value(value: f64, seconds: u64, source: Source) -> Option<Value<f64>> {
        Some(Value { value, age: Duration::from_secs(seconds), source })
    }

    #[test]
    fn the_path_of_a_peer_is_the_narrowest_around_it() {
        let paths = paths(FILE);
        let name = |address: Option<&str>, prefixes: &[&str]| {
            let prefixes: Vec<_> = prefixes.iter().map(|net| net.parse().unwrap()).collect();
            let path = paths.towards(address.map(|it| it.parse().unwrap()), &prefixes);
            path.map(|path| path.name.to_string())
        };
        assert_eq!(name(Some("192.0.2.7"), &[]).as_deref(), Some("host"));
        assert_eq!(name(Some("192.0.2.8"), &[]).as_deref(), Some("site"));
        assert_eq!(name(Some("2001:db8::1"), &[]).as_deref(), Some("site"));
        assert_eq!(name(Some("10.0.0.1"), &["192.0.0.0/16"]).as_deref(), Some("site"));
        assert_eq!(name(None, &["203.0.113.64/26"]).as_deref(), Some("measured"));
        assert_eq!(name(None, &["198.51.100.0/24"]), None);
        assert_eq!(name(None, &[]), None);
        assert_eq!(paths.max_buffer_bytes, Some(128 << 20));
        assert!(paths.named("host").is_some() && paths.named("none").is_none());
    }

    #[test]
    fn the_window_is_what_the_file_gives_or_what_the_path_carries() {
        let paths = paths(FILE);
        let said = |name: &str, known| paths.named(name).unwrap().directions(known);
        let window = |direction: &Direction| {
            direction.wanted_window_bytes.as_ref().map(|it| (it.value, it.source))
        };
        let [sending, receiving] = said("site", Known::default());
        assert_eq!(window(&sending), Some((8 << 20, Source::File)));
        assert_eq!((window(&receiving), sending.bandwidth_bits_per_second), (None, None));
        let [sending, _] = said("host", Known::default());
        // 1 Gbit/s times 100 ms, and a quarter more.
        assert_eq!(window(&sending), Some((15_625_000, Source::File)));
        assert_eq!(sending.law.as_ref().unwrap().value, "cubic");
        assert_eq!(sending.min_rtt_seconds, value(0.1, 0, Source::File));
        let law = Some("wad_leaky".to_owned());
        let [sending, _] = said("host", Known { law, ..Known::default() });
        assert_eq!(sending.law.unwrap().value, "wad_leaky");

        let [sending, receiving] = said("measured", Known::default());
        assert_eq!(window(&sending), Some((6_803_125, Source::File)));
        assert_eq!(receiving.bandwidth_bits_per_second, None);
        let known = Known {
            bandwidth_bits_per_second: value(1e9, 30, Source::Measured),
            rtt_seconds: value(0.1, 60, Source::Passive),
            best_rate_bits_per_second: value(9e8, 90, Source::Passive),
            ..Known::default()
        };
        let [sending, _] = said("measured", known.clone());
        let of_both = sending.wanted_window_bytes.unwrap();
        assert_eq!((of_both.value, of_both.source), (15_625_000, Source::Passive));
        assert_eq!(of_both.age, Duration::from_secs(60));
        assert_eq!(sending.best_rate_bits_per_second, known.best_rate_bits_per_second);
        // Flows got less than the path carries, by the file.
        let little = value(1e6, 5, Source::Passive);
        let known = Known { bandwidth_bits_per_second: little, is_least: true, ..known };
        let [sending, _] = said("measured", known);
        assert_eq!(sending.bandwidth_bits_per_second, value(622e6, 0, Source::File));
    }

    #[test]
    fn whatever_is_measured_what_is_said_can_be() {
        let paths = paths(FILE);
        for rate in [0.0, -1.0, 1e30, f64::NAN, f64::INFINITY, 1e13, 1.0] {
            for rtt in [0.0, 1e9, f64::NAN, 1e-9, 1.0] {
                let known = Known {
                    bandwidth_bits_per_second: value(rate, 1, Source::Measured),
                    rtt_seconds: value(rtt, 1, Source::Measured),
                    best_rate_bits_per_second: value(rate, 1, Source::Passive),
                    ..Known::default()
                };
                let [sending, receiving] = paths.named("measured").unwrap().directions(known);
                let said = wad_policy::heard::Said { sending, receiving, ..Default::default() };
                let every = Duration::from_secs(30);
                let statement = wad_peers::message::Statement { every, prefixes: None, said };
                let read = wad_peers::message::Statement::read(&statement.write());
                assert!(read.is_ok(), "{rate} {rtt}: {read:?}");
            }
        }
    }
}
