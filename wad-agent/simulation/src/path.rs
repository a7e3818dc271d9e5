//! A path: one bottleneck, and the delay behind it.

/// IPv4 and TCP headers with the timestamps option take this of each packet.
const HEADER_BYTES: u32 = 52;
/// A network card holds packets back for so long, to interrupt the processor once for all of
/// them (ethtool's `rx-usecs` is 50 to 100 by default).
const MODERATION_NS: u64 = 100_000;
/// A train is no longer than this part of the round trip time: see the test of trains.
const TRAIN_OF_RTT: u64 = 512;

/// A path and what it does to packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// The bottleneck's rate, headers included.
    pub bits_per_second: f64,
    /// The round trip time without queues.
    pub rtt_ns: u64,
    /// The most bytes that wait before the bottleneck, headers included; what comes beyond is
    /// dropped.
    pub queue_bytes: u64,
    /// The largest packet, which all are, but for links' own headers.
    pub mtu_bytes: u32,
    /// Probability that a packet is lost, each by itself, before the queue.
    pub loss: f64,
    /// ACKs are later by up to so much, at random, and stay in order.
    pub jitter_ns: u64,
    /// Packets that arrive within this time are looked at together. No train is longer.
    pub moderation_ns: u64,
    /// The seed of all that is random.
    pub seed: u64,
}

impl Path {
    /// A path of this rate, RTT and queue, which loses nothing by itself.
    #[must_use]
    pub fn new(bits_per_second: f64, rtt_seconds: f64, queue_bytes: u64) -> Self {
        let rtt_ns = (rtt_seconds * 1e9).round() as u64;
        Self {
            bits_per_second,
            rtt_ns,
            queue_bytes,
            mtu_bytes: 1500,
            loss: 0.0,
            jitter_ns: 0,
            moderation_ns: MODERATION_NS.min(rtt_ns / TRAIN_OF_RTT),
            seed: 1,
        }
    }

    /// The path for so many flows, each of which sends a part of a train: what is looked
    /// at together grows with their number, within its bound. ACKs are later at random by up to
    /// two trains, so that the flows do not lose in step.
    #[must_use]
    pub fn for_flows(self, flows: u32) -> Self {
        if flows < 2 {
            return self;
        }
        let moderation_ns = (MODERATION_NS * u64::from(flows)).min(self.rtt_ns / TRAIN_OF_RTT);
        Self { moderation_ns, jitter_ns: 2 * moderation_ns, ..self }
    }

    /// The payload of a packet.
    #[must_use]
    pub const fn mss_bytes(&self) -> u32 {
        self.mtu_bytes.saturating_sub(HEADER_BYTES)
    }

    /// The time that a packet takes on the bottleneck, in picoseconds; 1 at least.
    #[must_use]
    pub fn packet_ps(&self) -> u64 {
        ((f64::from(self.mtu_bytes) * 8e12 / self.bits_per_second).round() as u64).max(1)
    }

    /// The most payload that the path carries for long: its rate less the headers.
    #[must_use]
    pub fn carries_bits_per_second(&self) -> f64 {
        self.bits_per_second * f64::from(self.mss_bytes()) / f64::from(self.mtu_bytes)
    }

    /// The bandwidth-delay product, headers included.
    #[must_use]
    pub fn bdp_bytes(&self) -> f64 {
        self.bits_per_second / 8.0 * self.rtt_ns as f64 / 1e9
    }
}
