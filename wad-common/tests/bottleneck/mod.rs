//! Flows share one bottleneck, packet by packet: a drop-tail queue, a rate, each flow's
//! own RTT, and losses that have nothing to do with the queue.
//!
//! The whole delay lies behind the queue and ACKs are never lost, so that a
//! packet's fate is known when it is sent. Every transmission has a number of
//! its own; one is lost when a third later one is delivered, as RACK and three
//! duplicate ACKs find it.

use std::collections::VecDeque;

pub mod cubic;

/// A segment takes so many bytes on the link.
pub const PACKET_BYTES: u64 = 1500;

const NS: u64 = 1_000_000_000;

/// Holds what a sender learns from an ACK.
pub struct Ack {
    pub now_us: u64,
    pub rtt_us: u32,
    pub acked: u32,
    pub lost: u32,
    pub delivered: u32,
    pub in_flight: u32,
}

/// A congestion control.
pub trait Control {
    fn on_ack(&mut self, ack: &Ack);
    fn on_timeout(&mut self, ack: &Ack);
    fn sent(&mut self) {}
    fn cwnd(&self) -> u32;
    /// Packets per second, if the flow is paced.
    fn pacing(&self) -> Option<f64> {
        None
    }
}

#[derive(Clone, Copy)]
pub struct Path {
    pub rate_mbps: f64,
    pub queue_packets: u64,
    /// Probability of a loss that no queue causes.
    pub loss: f64,
    /// ACKs are this late at most, at random.
    pub jitter_us: u64,
    pub packets_per_ack: u32,
    pub seed: u64,
}

struct Flying {
    id: u64,
    sent_ns: u64,
    ack_ns: u64,
}

pub struct Flow {
    pub control: Box<dyn Control>,
    /// The RTT of the path without its queue; a change of the route may change it.
    pub rtt_ns: u64,
    /// The next packet is lost.
    pub lose_next: bool,
    flying: VecDeque<Flying>,
    dropped: VecDeque<u64>,
    next_id: u64,
    in_flight: u32,
    may_send_ns: u64,
    burst: u32,
    last_ack_ns: u64,
    srtt_ns: u64,
    unreported: (u32, u32),
    pub delivered: u64,
    pub lost: u64,
    progress_ns: u64,
}

impl Flow {
    pub fn new(control: Box<dyn Control>, rtt_ms: f64, start_s: f64) -> Self {
        let start_ns = (start_s * 1e9) as u64;
        Self {
            control,
            rtt_ns: (rtt_ms * 1e6) as u64,
            lose_next: false,
            flying: VecDeque::new(),
            dropped: VecDeque::new(),
            next_id: 0,
            in_flight: 0,
            may_send_ns: start_ns,
            burst: 0,
            last_ack_ns: 0,
            srtt_ns: (rtt_ms * 1e6) as u64,
            unreported: (0, 0),
            delivered: 0,
            lost: 0,
            progress_ns: start_ns,
        }
    }

    fn next_ns(&self) -> u64 {
        let ack = self.flying.front().map_or_else(
            || {
                if self.in_flight > 0 {
                    self.progress_ns + (2 * self.srtt_ns).max(NS / 5)
                } else {
                    u64::MAX
                }
            },
            |f| f.ack_ns,
        );
        let send = if self.in_flight < self.control.cwnd() { self.may_send_ns } else { u64::MAX };
        ack.min(send)
    }
}

pub struct World {
    path: Path,
    pub flows: Vec<Flow>,
    free_ns: u64,
    packet_ns: u64,
    queue_ns: u64,
    random: u64,
    pub now_ns: u64,
}

impl World {
    pub fn new(path: Path, flows: Vec<Flow>) -> Self {
        let packet_ns = (PACKET_BYTES as f64 * 8e3 / path.rate_mbps) as u64;
        Self {
            path,
            flows,
            free_ns: 0,
            packet_ns,
            queue_ns: packet_ns * path.queue_packets,
            random: path.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            now_ns: 0,
        }
    }

    fn random(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Runs to this second.
    pub fn run(&mut self, until_s: f64) {
        let until_ns = (until_s * 1e9) as u64;
        loop {
            let (which, at) = self
                .flows
                .iter()
                .enumerate()
                .map(|(i, f)| (i, f.next_ns()))
                .min_by_key(|&(_, at)| at)
                .unwrap();
            if at > until_ns {
                self.now_ns = until_ns;
                return;
            }
            self.now_ns = at.max(self.now_ns);
            let flow = &self.flows[which];
            match flow.flying.front() {
                Some(front) if front.ack_ns <= at => self.ack(which),
                None if flow.in_flight > 0
                    && !(flow.in_flight < flow.control.cwnd() && flow.may_send_ns <= at) =>
                {
                    self.timeout(which);
                }
                _ => self.send(which),
            }
        }
    }

    fn send(&mut self, which: usize) {
        let now = self.now_ns;
        let lost_anyway = self.path.loss > 0.0 && self.random() < self.path.loss;
        let jitter = if self.path.jitter_us > 0 {
            (self.random() * self.path.jitter_us as f64 * 1e3) as u64
        } else {
            0
        };
        let free = self.free_ns.max(now);
        let full = free - now > self.queue_ns;
        let flow = &mut self.flows[which];
        let id = flow.next_id;
        if flow.in_flight == 0 {
            flow.progress_ns = now;
        }
        flow.next_id += 1;
        flow.in_flight += 1;
        flow.control.sent();
        if lost_anyway || full || std::mem::take(&mut flow.lose_next) {
            flow.dropped.push_back(id);
        } else {
            self.free_ns = free + self.packet_ns;
            let ack_ns = (self.free_ns + flow.rtt_ns + jitter).max(flow.last_ack_ns);
            flow.last_ack_ns = ack_ns;
            flow.flying.push_back(Flying { id, sent_ns: now, ack_ns });
        }
        flow.may_send_ns = match flow.control.pacing() {
            None => now,
            Some(rate) => {
                // In bursts of a millisecond, as segmentation offload leaves them.
                flow.burst += 1;
                let quantum = (rate / 1000.0).clamp(2.0, 44.0) as u32;
                if flow.burst >= quantum {
                    let burst = std::mem::take(&mut flow.burst);
                    flow.may_send_ns.max(now.saturating_sub(1_000_000))
                        + (f64::from(burst) * 1e9 / rate) as u64
                } else {
                    flow.may_send_ns
                }
            }
        };
    }

    fn ack(&mut self, which: usize) {
        let now = self.now_ns;
        let flow = &mut self.flows[which];
        let packet = flow.flying.pop_front().unwrap();
        flow.progress_ns = now;
        flow.delivered += 1;
        flow.in_flight -= 1;
        flow.unreported.0 += 1;
        while flow.dropped.front().is_some_and(|&id| id + 3 <= packet.id) {
            flow.dropped.pop_front();
            flow.in_flight -= 1;
            flow.lost += 1;
            flow.unreported.1 += 1;
        }
        let rtt_ns = now - packet.sent_ns;
        flow.srtt_ns = (flow.srtt_ns * 7 + rtt_ns) / 8;
        let more_follows = flow.flying.front().is_some_and(|next| next.ack_ns < now + 1_000_000);
        if flow.unreported.0 < self.path.packets_per_ack && flow.unreported.1 == 0 && more_follows {
            return;
        }
        let (acked, lost) = std::mem::take(&mut flow.unreported);
        let ack = Ack {
            now_us: now / 1000,
            rtt_us: (rtt_ns / 1000) as u32,
            acked,
            lost,
            delivered: flow.delivered as u32,
            in_flight: flow.in_flight,
        };
        flow.control.on_ack(&ack);
        if flow.control.pacing().is_none() {
            flow.may_send_ns = now;
        }
    }

    fn timeout(&mut self, which: usize) {
        let now = self.now_ns;
        let flow = &mut self.flows[which];
        flow.progress_ns = now;
        flow.lost += flow.dropped.len() as u64;
        let lost = flow.dropped.len() as u32;
        flow.dropped.clear();
        flow.in_flight = 0;
        flow.may_send_ns = now;
        let ack = Ack {
            now_us: now / 1000,
            rtt_us: 0,
            acked: 0,
            lost,
            delivered: flow.delivered as u32,
            in_flight: 0,
        };
        flow.control.on_timeout(&ack);
    }

    /// Returns the Mb/s of payload that `which` delivered, since it had delivered
    /// `before`.
    pub fn mbps(&self, which: usize, before: u64, seconds: f64) -> f64 {
        (self.flows[which].delivered - before) as f64 * 1448.0 * 8.0 / seconds / 1e6
    }

    pub fn queue_ms(&self) -> f64 {
        self.free_ns.saturating_sub(self.now_ns) as f64 / 1e6
    }
}
