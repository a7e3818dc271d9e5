//! Clients and servers count by themselves, and the agent is to have counted the same.

use std::sync::atomic::{AtomicU64, Ordering};

use wad_testbed::metrics::{Metrics, MetricsError};

/// Counts of a path.
#[derive(Debug, Default)]
pub struct Tally {
    connections: AtomicU64,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
}

impl Tally {
    pub fn connection(&self) {
        self.connections.fetch_add(1, Ordering::SeqCst);
    }

    pub fn bytes(&self, sent: u64, received: u64) {
        self.sent_bytes.fetch_add(sent, Ordering::SeqCst);
        self.received_bytes.fetch_add(received, Ordering::SeqCst);
    }

    pub fn now(&self) -> Counted {
        Counted {
            connections: self.connections.load(Ordering::SeqCst),
            sent_bytes: self.sent_bytes.load(Ordering::SeqCst),
            received_bytes: self.received_bytes.load(Ordering::SeqCst),
        }
    }
}

/// The counts at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub connections: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
}

impl Counted {
    /// Returns what has come since.
    pub const fn since(self, before: Self) -> Self {
        Self {
            connections: self.connections - before.connections,
            sent_bytes: self.sent_bytes - before.sent_bytes,
            received_bytes: self.received_bytes - before.received_bytes,
        }
    }

    /// Says in what the agent's counts of a path differ. In those of bytes each connection's SYN
    /// and FIN may count for one (RFC 9293, section 3.4: they take a number each).
    ///
    /// # Errors
    /// When the path has no counts.
    pub fn differs(self, metrics: &Metrics, path: &str) -> Result<Option<String>, MetricsError> {
        let mut wrong = Vec::new();
        let mut hold = |name: &str, least: u64, most: u64| -> Result<(), MetricsError> {
            let told = metrics.of_path(name, path)?;
            if !(least as f64..=most as f64).contains(&told) {
                wrong.push(format!("{name} is {told}, not {least}"));
            }
            Ok(())
        };
        let numbers = 2 * self.connections;
        for name in
            ["wad_connections_matched_total", "wad_flows_opened_total", "wad_flows_closed_total"]
        {
            hold(name, self.connections, self.connections)?;
        }
        hold("wad_sent_bytes_total", self.sent_bytes, self.sent_bytes + numbers)?;
        hold("wad_received_bytes_total", self.received_bytes, self.received_bytes + numbers)?;
        Ok((!wrong.is_empty()).then(|| format!("{path}: {}", wrong.join(", "))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_or_a_byte_too_few_is_told() {
        let counted = Counted { connections: 2, sent_bytes: 100, received_bytes: 50 };
        let told = |closed: u64, sent: u64| {
            let line = |name: &str, value| format!("wad_{name}_total{{path=\"p\"}} {value}\n");
            let text = line("connections_matched", 2)
                + &line("flows_opened", 2)
                + &line("flows_closed", closed)
                + &line("sent_bytes", sent)
                + &line("received_bytes", 50);
            counted.differs(&Metrics::of(text), "p").unwrap()
        };
        assert_eq!(told(2, 100), None);
        // Each SYN and FIN.
        assert_eq!(told(2, 104), None);
        assert_eq!(told(2, 99).unwrap(), "p: wad_sent_bytes_total is 99, not 100");
        assert!(told(2, 105).is_some() && told(1, 100).is_some());
        assert!(counted.differs(&Metrics::of(String::new()), "p").is_err());
    }
}
