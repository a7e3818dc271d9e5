//! The emulated path of a scenario is as its file has it, and the laws follow from it.

use std::time::Duration;

use serde::Deserialize;

use crate::emulated::{
    delay_line::DelayLaw,
    direction::DirectionLaw,
    link::LinkLaw,
    losses::LossLaw,
    policer::PolicerLaw,
    units::{Rate, Span},
};

/// IPv4 and TCP headers with the timestamps option take this of each segment.
const HEADER_BYTES: u32 = 52;
/// The emulator looks after its devices at least so often.
const MOST_MODERATION: Duration = Duration::from_millis(1);

/// The path from the sender to the receiver and back.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// The round trip time without queues; each direction takes half of it.
    pub rtt: Span,
    #[serde(default = "ethernet_mtu")]
    pub mtu: u32,
    /// Packets that arrive within this time are delivered together: a network card's
    /// interrupt moderation.
    #[serde(default = "common_moderation")]
    pub moderation: Span,
    /// The seed of everything random.
    #[serde(default)]
    pub seed: u64,
    /// The direction with the data.
    pub forward: Direction,
    /// The direction with the acknowledgements: the same rate and queue, nothing lost,
    /// unless it is given.
    pub reverse: Option<Direction>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Direction {
    pub rate: Rate,
    pub queue: Queue,
    /// Before the queue, some of what comes too fast is dropped.
    pub policer: Option<Policer>,
    /// Delay of up to so much more; packets stay in order.
    #[serde(default)]
    pub jitter: Span,
    /// Random loss: a probability.
    #[serde(default)]
    pub loss: f64,
    /// Packets with data to drop, counted from 1.
    #[serde(default)]
    pub drop_data_packets: Vec<u64>,
    /// Times after the first packet with data, at each of which one is dropped.
    #[serde(default)]
    pub drop_at: Vec<Span>,
    /// Times after the first packet with data, at each of which one that may be
    /// is marked "congestion experienced" (RFC 3168).
    #[serde(default)]
    pub mark_at: Vec<Span>,
    pub reorder: Option<Reorder>,
}

/// The most that waits at the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Queue {
    /// Multiples of the rate times the RTT.
    Bdp(f64),
    /// Packets of the path's MTU.
    Packets(u32),
    Bytes(u64),
}

/// A rate that is let through, and the bytes of a burst, headers included.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policer {
    pub rate: Rate,
    pub burst_bytes: u64,
}

/// Some packets are held back and overtaken: for so long, or by so many later ones.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    pub probability: f64,
    pub by: Span,
    pub packets: Option<u32>,
}

const fn ethernet_mtu() -> u32 {
    1500
}

/// ethtool's rx-usecs is 50 to 100 by default.
const fn common_moderation() -> Span {
    Span(Duration::from_micros(100))
}

impl Path {
    /// Returns the laws of both directions.
    #[must_use]
    pub fn laws(&self) -> [DirectionLaw; 2] {
        let forward = self.law(&self.forward, self.seed);
        let reverse = match &self.reverse {
            Some(reverse) => self.law(reverse, self.seed ^ 1),
            None => DirectionLaw {
                policer: None,
                losses: LossLaw::default(),
                delay: DelayLaw { delay_ns: self.rtt.nanoseconds() / 2, ..DelayLaw::default() },
                ..forward.clone()
            },
        };
        [forward, reverse]
    }

    fn law(&self, direction: &Direction, seed: u64) -> DirectionLaw {
        let times = |spans: &[Span]| spans.iter().map(|span| span.nanoseconds()).collect();
        DirectionLaw {
            link: LinkLaw {
                rate_bits_per_second: direction.rate.bits_per_second,
                queue_limit_bytes: self.queue_bytes(direction),
            },
            policer: direction.policer.map(|policer| PolicerLaw {
                rate_bits_per_second: policer.rate.bits_per_second,
                burst_bytes: policer.burst_bytes,
            }),
            losses: LossLaw {
                probability: direction.loss,
                data_packets: direction.drop_data_packets.clone(),
                after_ns: times(&direction.drop_at),
                mark_after_ns: times(&direction.mark_at),
            },
            delay: DelayLaw {
                delay_ns: self.rtt.nanoseconds() / 2,
                jitter_ns: direction.jitter.nanoseconds(),
                reorder_probability: direction.reorder.map_or(0.0, |law| law.probability),
                reorder_ns: direction.reorder.map_or(0, |law| law.by.nanoseconds()),
                reorder_packets: direction.reorder.and_then(|law| law.packets),
            },
            moderation_ns: self.moderation.nanoseconds(),
            seed,
        }
    }

    /// Returns the most bytes that wait before the bottleneck of a direction.
    #[must_use]
    pub fn queue_bytes(&self, direction: &Direction) -> u64 {
        match direction.queue {
            Queue::Bdp(multiple) => {
                let rate = direction.rate.bits_per_second as f64;
                (multiple * rate / 8.0 * self.rtt.0.as_secs_f64()) as u64
            }
            Queue::Packets(packets) => u64::from(packets) * u64::from(self.mtu),
            Queue::Bytes(bytes) => bytes,
        }
    }

    /// Returns the bandwidth-delay product of the way with the data, headers included.
    #[must_use]
    pub fn bdp_bytes(&self) -> u64 {
        let rate = self.forward.rate.bits_per_second as f64;
        (rate / 8.0 * self.rtt.0.as_secs_f64()) as u64
    }

    /// Returns the most that an application can get for long: the rate less the headers.
    #[must_use]
    pub fn carries_bits_per_second(&self) -> f64 {
        let payload = self.mtu.saturating_sub(HEADER_BYTES);
        let Direction { rate, policer, .. } = &self.forward;
        let least = policer.iter().map(|policer| policer.rate).chain([*rate]);
        let rate = least.map(|rate| rate.bits_per_second).min().unwrap_or_default();
        rate as f64 * f64::from(payload) / f64::from(self.mtu)
    }

    /// Returns why the path cannot be used, if so.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        for direction in std::iter::once(&self.forward).chain(&self.reverse) {
            if !is_share(direction.loss)
                || !direction.reorder.is_none_or(|law| is_share(law.probability))
            {
                return Some("a probability is a number from 0 to 1");
            }
            if matches!(direction.queue, Queue::Bdp(multiple) if !(0.0..=100.0).contains(&multiple))
            {
                return Some("queue.bdp is a number from 0 to 100");
            }
            if direction.policer.is_some_and(|policer| policer.burst_bytes < self.mtu.into()) {
                return Some("policer.burst_bytes takes a packet of the path's mtu");
            }
        }
        if self.moderation.0 > MOST_MODERATION {
            return Some("moderation is a time of at most 1ms");
        }
        let mtus = 576..=65_535;
        (!mtus.contains(&self.mtu)).then_some("mtu is a number from 576 to 65535")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(more: &str) -> Path {
        let text =
            format!("rtt = '120ms'\n{more}\nforward = {{ rate = '600Mbit', queue.bdp = 1 }}");
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn packets_wait_as_long_for_others_as_the_path_says_both_ways() {
        let both = |more| path(more).laws().map(|law| law.moderation_ns);
        assert_eq!(both(""), [100_000; 2]);
        assert_eq!(both("moderation = '300us'"), [300_000; 2]);
    }

    #[test]
    fn a_policer_says_what_the_path_carries_and_lets_a_packet_through() {
        let path = |burst| {
            let policer = format!("{{ rate = '100Mbit', burst_bytes = {burst} }}");
            let forward = format!("{{ rate = '1Gbit', queue.bdp = 1, policer = {policer} }}");
            toml::from_str::<Path>(&format!("rtt = '20ms'\nforward = {forward}")).unwrap()
        };
        assert_eq!(path(1_500).carries_bits_per_second(), 1e8 * 1_448.0 / 1_500.0);
        assert_eq!(path(1_500).fault(), None);
        let fault = path(1_499).fault();
        assert_eq!(fault, Some("policer.burst_bytes takes a packet of the path's mtu"));
        let [there, back] = path(1_500).laws();
        assert!(there.policer.is_some() && back.policer.is_none());
    }

    #[test]
    fn packets_wait_no_longer_than_the_emulator_looks_after_them() {
        assert_eq!(path("moderation = '1ms'").fault(), None);
        let fault = path("moderation = '1001us'").fault();
        assert_eq!(fault, Some("moderation is a time of at most 1ms"));
    }
}
