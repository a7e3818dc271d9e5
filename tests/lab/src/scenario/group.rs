//! The flows of a variant that go together.

use std::ops::RangeInclusive;

use wad_testbed::{emulated::units::Span, ss::Flow};

use crate::iperf3;

/// Flows under one policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub name: String,
    /// Connections at a time.
    pub streams: u32,
    /// The time since the start of the run.
    pub start: Span,
    /// The port that its receiver listens on; further processes of iperf3 have the next.
    pub port: u16,
}

impl Group {
    /// Returns all ports that its receivers may listen on.
    #[must_use]
    pub fn ports(&self) -> RangeInclusive<u16> {
        let more = iperf3::processes(self.streams).count().saturating_sub(1);
        self.port..=self.port.saturating_add(u16::try_from(more).unwrap_or(u16::MAX))
    }

    /// Tells whether a flow is one of its own.
    #[must_use]
    pub fn has(&self, flow: &Flow) -> bool {
        let ports = self.ports();
        ports.contains(&flow.peer.port()) || ports.contains(&flow.local.port())
    }
}
