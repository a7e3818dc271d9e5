//! These fields say what a path carries.

use crate::config::{
    field::{Field, Kind},
    line::{RATES, TIMES},
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
];
