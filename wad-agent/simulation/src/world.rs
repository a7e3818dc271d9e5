//! Flows that share a path. Time runs from one event to the next.

use crate::{
    channel::{Channel, PS_PER_NS},
    flow::Flow,
    path::Path,
    sender::Sender,
};

/// The path and its flows.
pub struct World {
    path: Path,
    channel: Channel,
    pub flows: Vec<Flow>,
    now_ns: u64,
}

impl World {
    /// A path without flows, which loses these packets of all that come, counted from 1.
    #[must_use]
    pub fn new(path: Path, lose: &[u64]) -> Self {
        Self { channel: Channel::new(&path, lose), path, flows: Vec::new(), now_ns: 0 }
    }

    /// Has a flow begin then, one of so many of its path; its handshake is over.
    #[must_use]
    pub fn with(self, sender: &Sender, of: u32, begins_seconds: f64) -> Self {
        let rtt_ns = self.path.rtt_ns;
        self.with_rtt(sender, of, (begins_seconds, rtt_ns))
    }

    /// Has a flow begin whose RTT is another one than the path's.
    #[must_use]
    pub fn with_rtt(mut self, sender: &Sender, of: u32, (begins, rtt_ns): (f64, u64)) -> Self {
        let mss_bytes = self.path.mss_bytes();
        let law = sender.law(of, mss_bytes);
        let flow = Flow::new(law, mss_bytes, rtt_ns, (begins * 1e9) as u64)
            .with_window_bytes(sender.window_bytes(of))
            .with_moderation_ns(self.path.moderation_ns);
        self.flows.push(flow);
        self
    }

    /// Runs to this time.
    pub fn run(&mut self, until_seconds: f64) {
        let until_ns = (until_seconds * 1e9) as u64;
        loop {
            let due = self.flows.iter().map(Flow::next_ns).enumerate();
            let Some((which, at_ns)) = due.min_by_key(|(_, at_ns)| *at_ns) else { break };
            if at_ns > until_ns {
                break;
            }
            self.now_ns = at_ns.max(self.now_ns);
            self.flows[which].step(self.now_ns, &mut self.channel);
        }
        self.now_ns = until_ns;
    }

    /// Loses the next packet that comes.
    pub fn lose_next(&mut self) {
        self.channel.lose_next();
    }

    #[must_use]
    pub fn now_seconds(&self) -> f64 {
        self.now_ns as f64 / 1e9
    }

    /// Segments of all flows that have arrived.
    #[must_use]
    pub fn arrived(&self, which: usize) -> u64 {
        self.flows[which].arrived(self.now_ns)
    }

    /// The queue before the bottleneck, as the time that it takes.
    #[must_use]
    pub fn queue_seconds(&self) -> f64 {
        self.channel.link.backlog_ps(self.now_ns * PS_PER_NS) as f64 / 1e12
    }

    /// The most bytes that ever waited there, headers included.
    #[must_use]
    pub fn most_queue_bytes(&self) -> u64 {
        let seconds = self.channel.link.most_backlog_ps() as f64 / 1e12;
        (seconds * self.path.bits_per_second / 8.0).round() as u64
    }
}
