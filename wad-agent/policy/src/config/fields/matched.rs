//! These fields say which flows a path is for, and whether they get anything.

use crate::config::field::{Checked, Field, Kind};

const PORT: Field = Field {
    kind: Kind::Whole { range: 0..=65_535, unit: "(0 for any)" },
    default: "any",
    ..Field::NONE
};

const PREFIXES: Kind =
    Kind::Other { takes: "an address or a prefix, or a list of them", range: "" };

pub const MODE: Field = Field {
    key: "mode",
    kind: Kind::Word { words: &["static", "measured", "observe"], unless: "is no mode" },
    default: "\"static\"",
    doc: "Whether the values are those of the file, whether \"auto\" follows what is measured, or \
          whether connections are only counted.",
    check: Some(
        Checked::words(|path| path.observe.then(|| "only observed".to_owned()))
            .after("override_setsockopt"),
    ),
    ..Field::NONE
};

pub const MATCHED: &[Field] = &[
    Field {
        key: "name",
        kind: Kind::Other { takes: "text", range: "1 to 63 bytes" },
        default: "required",
        doc: "The name that logs and metrics have for the path.",
        ..Field::NONE
    },
    Field {
        key: "remote",
        alias: Some("dst_addr"),
        kind: PREFIXES,
        default: "required",
        doc: "The address or prefix of the other end; the longest that fits wins.",
        ..Field::NONE
    },
    Field {
        key: "local",
        alias: Some("src_addr"),
        kind: PREFIXES,
        default: "any",
        doc: "The address or prefix of this host.",
        ..Field::NONE
    },
    Field {
        key: "remote_port",
        alias: Some("dst_port"),
        doc: "The port of the other end.",
        read: |field, table, problems, path| path.remote_port = port(field.whole(table, problems)),
        ..PORT
    },
    Field {
        key: "local_port",
        alias: Some("src_port"),
        doc: "The port of this host.",
        read: |field, table, problems, path| path.local_port = port(field.whole(table, problems)),
        ..PORT
    },
    MODE,
];

/// Returns the port, which is in range, hence whole.
fn port(number: Option<u32>) -> u16 {
    number.map_or(0, |number| number as u16)
}
