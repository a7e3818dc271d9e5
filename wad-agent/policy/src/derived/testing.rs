//! Flows for tests.

use wad_instruments::{Flow, Owner};

use super::Derived;

/// A flow of the path bob.
pub fn flow(values: &[(&str, f64)]) -> Flow {
    Flow {
        cookie: 1,
        netns: 4_026_531_840,
        path: "bob".into(),
        local: ([10, 0, 0, 1], 40_000).into(),
        remote: ([10, 5, 128, 74], 5201).into(),
        role: "connected".into(),
        outcome: "tuned".into(),
        refused: vec![],
        congestion: "cubic".into(),
        owner: Owner::default(),
        instruments: values.iter().map(|(name, value)| (*name, Some(*value))).collect(),
    }
}

/// Adds the derived values to one flow, from it and from how it was at an earlier
/// reading.
pub fn extend(derived: &Derived, flow: &mut Flow, earlier: Option<&Flow>) {
    derived.extend(std::slice::from_mut(flow), |_| earlier.map(|flow| &flow.instruments));
}
