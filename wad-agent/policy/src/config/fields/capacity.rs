//! These fields say what a path carries.

use crate::config::{
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
        doc: "The rate of the path, for \"auto\" and for what `wad check` says.",
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
