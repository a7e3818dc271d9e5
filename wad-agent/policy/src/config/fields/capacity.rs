//! These fields say what a path carries.

use crate::config::{
    PathPolicy, Windows,
    field::{Checked, Field, Kind},
    line::{RATES, TIMES},
};

/// The band where the file does not say: a tenth to tenfold.
pub const BAND: u32 = 10;

pub const MEASURED_BAND: Field = Field {
    key: "measured_band",
    kind: Kind::Whole { range: 2..=1_000_000, unit: "times" },
    default: "10",
    doc: "How far a measurement may be from the path's own `bandwidth` or `rtt` and count: up to so \
          many times that, or less than it by as much.",
    check: Some(Checked::words(|path| {
        let band = path.measured.map(|measured| measured.band);
        band.filter(|&band| band != BAND).map(|band| format!("measured_band {band}"))
    })),
    ..Field::NONE
};

pub const CAPACITY: &[Field] = &[
    Field {
        key: "bandwidth",
        kind: Kind::Other { takes: "a rate such as \"622Mbit\"", range: RATES },
        default: "not known",
        doc: "The rate of the path, for \"auto\" and for what `wad check` says; and of flows \
              that send at a time, none goes beyond its part of it in slow start.",
        put: |path, policy| policy.path_bytes = shared_bytes(path),
        ..Field::NONE
    },
    Field {
        key: "rtt",
        kind: Kind::Other { takes: "a time such as \"70ms\"", range: TIMES },
        default: "not known",
        doc: "The round trip time of the path, for \"auto\" and for what `wad check` says.",
        ..Field::NONE
    },
    MEASURED_BAND,
];

/// A little above the payload that the path carries, so that it is full. What flows got
/// is no bound on what they may share.
fn shared_bytes(path: &PathPolicy) -> u32 {
    let capacity = path.origin.capacity;
    match capacity.bdp_bytes().filter(|_| !capacity.is_least) {
        Some(bdp_bytes) => Windows::of_bdp(bdp_bytes).bytes,
        None => 0,
    }
}
