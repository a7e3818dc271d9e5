//! The flows of a variant that go together.

use wad_testbed::emulated::units::Span;

/// Flows under one policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub name: String,
    /// Connections at a time.
    pub streams: u32,
    /// The time since the start of the run.
    pub start: Span,
    /// The port that its receiver listens on.
    pub port: u16,
}
