//! The steps of flows are made of how they get on from one look to the next.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use wad_common::{flow::Outcome, health::Health};
use wad_evidence::guard::{Network, Step};

/// The steps of flows from one look to the next.
#[derive(Debug, Default)]
pub struct Looked {
    /// By the index of their policy, and whether that is for them.
    pub steps: HashMap<u32, Vec<(bool, Step)>>,
    pub passed: Duration,
}

/// A flow has found its rate after so many looks, and so many round trips: one that has just begun
/// beside others has less than these.
const YOUNG_LOOKS: u32 = 6;
const YOUNG_ROUND_TRIPS: u32 = 50;

/// Flows as they were at the last look.
#[derive(Debug, Default)]
pub struct Flows {
    before: HashMap<u64, Seen>,
    at: Option<Instant>,
}

/// A flow at a look.
#[derive(Clone, Copy, Debug)]
struct Seen {
    health: Health,
    /// It was seen first then.
    first: Instant,
    looks: u32,
}

impl Flows {
    /// Takes flows as they are now. Those that have come since, or came under something else, have
    /// done no step.
    pub fn look(&mut self, now: Vec<Health>, at: Instant) -> Looked {
        let passed = self.at.replace(at).map(|before| at.saturating_duration_since(before));
        let mut looked = Looked { passed: passed.unwrap_or_default(), ..Looked::default() };
        let mut all = HashMap::new();
        for health in now {
            let before = self.before.get(&health.cookie).copied();
            let seen = match before {
                Some(Seen { first, looks, .. }) => Seen { health, first, looks: looks + 1 },
                None => Seen { health, first: at, looks: 0 },
            };
            all.insert(health.cookie, seen);
            let is_same = |before: &Seen| {
                let Health { policy, outcome, .. } = before.health;
                (policy, outcome) == (health.policy, health.outcome)
            };
            let Some(before) = before.filter(is_same) else { continue };
            let mut step = step(&before.health, &health);
            if seen.is_young(at) {
                step.held_up = 1.0;
            }
            let is_tuned = health.outcome == Outcome::Tuned as u32;
            looked.steps.entry(health.policy).or_default().push((is_tuned, step));
        }
        self.before = all;
        looked
    }

    /// Forgets what was.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

impl Seen {
    fn is_young(&self, now: Instant) -> bool {
        let round_trips = Duration::from_micros(self.health.srtt_us.into()) * YOUNG_ROUND_TRIPS;
        self.looks < YOUNG_LOOKS || now.saturating_duration_since(self.first) < round_trips
    }
}

fn step(before: &Health, now: &Health) -> Step {
    let bytes = |segments: u32| u64::from(segments) * u64::from(now.mss_bytes);
    let limits = now.limits.since(&before.limits);
    let all = f64::from(now.ticks.wrapping_sub(before.ticks));
    // A full send buffer holds nobody up for no reason: it may be what tuning mends.
    let at_work = f64::from(limits.busy_ticks) + f64::from(limits.sndbuf_ticks);
    let least_us = if now.min_rtt_us == u32::MAX { 0 } else { now.min_rtt_us };
    Step {
        network: network(now.remote),
        bytes_acked: now.bytes_acked.wrapping_sub(before.bytes_acked),
        bytes_sent: bytes(now.data_segs_out.wrapping_sub(before.data_segs_out)),
        bytes_resent: bytes(now.segs_retrans.wrapping_sub(before.segs_retrans)),
        srtt: Duration::from_micros(now.srtt_us.into()),
        min_rtt: Duration::from_micros(least_us.into()),
        held_up: if all > 0.0 { (1.0 - at_work / all).clamp(0.0, 1.0) } else { 1.0 },
    }
}

/// Returns the network that an address is of: the first 24 bits of IPv4, or 48 of IPv6.
fn network(address: [u32; 4]) -> Network {
    let [first, second, third, fourth] = address.map(u32::from_be);
    if (first, second, third) == (0, 0, 0xffff) {
        u64::from(fourth >> 8) | 1 << 63
    } else {
        u64::from(first) << 16 | u64::from(second >> 16)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv6Addr};

    use wad_common::progress::Limits;

    use super::*;

    fn words(address: &str) -> [u32; 4] {
        let mapped = match address.parse().unwrap() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let word = |n: usize| {
            let octets = Ipv6Addr::octets(&mapped);
            u32::from_ne_bytes(octets[4 * n..4 * n + 4].try_into().unwrap())
        };
        [0, 1, 2, 3].map(word)
    }

    /// A flow after so many seconds, at 1 MB in each.
    fn health(second: u32) -> Health {
        Health {
            cookie: 7,
            bytes_acked: u64::from(second) * 1_000_000,
            remote: words("192.0.2.1"),
            policy: 3,
            outcome: Outcome::Tuned as u32,
            data_segs_out: second * 1_000,
            segs_retrans: second * 10,
            srtt_us: 30_000,
            min_rtt_us: 20_000,
            mss_bytes: 1_000,
            limits: Limits { busy_ticks: second * 60, rwnd_ticks: 0, sndbuf_ticks: second * 35 },
            ticks: second * 100,
            reserved: 0,
        }
    }

    /// Returns what a flow of a minute has done in the last five seconds.
    fn looked(before: Health, now: Health) -> Looked {
        let (mut flows, at) = (Flows::default(), Instant::now());
        let after = |seconds| at + Duration::from_secs(seconds);
        assert!(flows.look(vec![before], at).steps.is_empty());
        (1..12).for_each(|n| _ = flows.look(vec![before], after(5 * n)));
        flows.look(vec![now], after(60))
    }

    #[test]
    fn who_has_just_begun_shows_no_rate_yet() {
        let (mut flows, at) = (Flows::default(), Instant::now());
        let of = |flows: &mut Flows, look: u32, health| {
            let looked = flows.look(vec![health], at + Duration::from_millis(100) * look);
            looked.steps.get(&3).map(|steps| steps[0].1.held_up)
        };
        let rates: Vec<_> = (0..8).map(|look| of(&mut flows, look, health(look))).collect();
        assert_eq!(rates[..6], [None, Some(1.0), Some(1.0), Some(1.0), Some(1.0), Some(1.0)]);
        // Fifty round trips of 30 ms are 1.5 s.
        assert_eq!(rates[6..], [Some(1.0); 2]);
        let rates: Vec<_> = (8..17).map(|look| of(&mut flows, look, health(look))).collect();
        assert!(rates[7..].iter().all(|held_up| *held_up < Some(0.1)), "{rates:?}");
    }

    #[test]
    fn a_step_is_what_a_flow_did_meanwhile() {
        let Looked { steps, passed } = looked(health(10), health(15));
        assert_eq!(passed, Duration::from_secs(5));
        let (is_tuned, step) = steps[&3][0];
        assert!(is_tuned && (step.held_up - 0.05).abs() < 1e-9, "{step:?}");
        assert_eq!((step.bytes_acked, step.bytes_sent), (5_000_000, 5_000_000));
        assert_eq!((step.bytes_resent, step.srtt), (50_000, Duration::from_millis(30)));
    }

    #[test]
    fn counts_that_wrapped_go_on() {
        let before = Health { segs_retrans: u32::MAX, ticks: u32::MAX - 99, ..health(10) };
        let now = Health { segs_retrans: 4, ticks: 400, ..health(15) };
        let (_, step) = looked(before, now).steps[&3][0];
        assert_eq!(step.bytes_resent, 5_000);
        assert!((step.held_up - 0.05).abs() < 1e-9, "{step:?}");
    }

    #[test]
    fn who_came_under_something_else_has_done_no_step() {
        let now = health(15);
        for other in [
            Health { cookie: 8, ..now },
            Health { policy: 4, ..now },
            Health { outcome: Outcome::Observed as u32, ..now },
        ] {
            assert!(looked(health(10), other).steps.is_empty(), "{other:?}");
        }
        let odd = Health { ticks: 1_000, min_rtt_us: u32::MAX, ..now };
        let (_, step) = looked(health(10), odd).steps[&3][0];
        assert_eq!((step.held_up, step.min_rtt), (1.0, Duration::ZERO));
    }

    #[test]
    fn networks_are_told_apart() {
        let of = |address| network(words(address));
        assert_eq!(of("192.0.2.1"), of("192.0.2.254"));
        assert_eq!(of("2001:db8:1:2::3"), of("2001:db8:1:ffff::"));
        let all = ["192.0.2.1", "192.0.3.1", "2001:db8:1::", "2001:db8:2::", "::1"].map(of);
        assert_eq!(all.iter().collect::<std::collections::HashSet<_>>().len(), all.len());
    }
}
