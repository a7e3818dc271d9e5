//! `wad`'s parsers of what comes from outside, by the names of their seeds' folders:
//! `cargo xtask fuzz` has libFuzzer feed them, `cargo test` what is made of their seeds.
#![forbid(unsafe_code)]

use wad_commands::fuzz;

/// A parser takes any bytes, soon and without a panic.
pub type Parser = fn(&[u8]);

/// This table has all of them.
pub const PARSERS: [(&str, Parser); 28] = [
    ("archive", fuzz::archive),
    ("authorization", fuzz::authorization),
    ("config", fuzz::config),
    ("derived", fuzz::derived),
    ("dns", fuzz::dns),
    ("document", fuzz::document),
    ("experiments", fuzz::experiments),
    ("guards", fuzz::guards),
    ("http", fuzz::http),
    ("otlp", fuzz::otlp),
    ("packed_trace", fuzz::packed_trace),
    ("papers", fuzz::papers),
    ("peer_certificate", fuzz::peer_certificate),
    ("peer_message", fuzz::peer_message),
    ("peer_reservation", fuzz::peer_reservation),
    ("pods", fuzz::pods),
    ("probe_helper", fuzz::probe_helper),
    ("probe_message", fuzz::probe_message),
    ("probe_paths", fuzz::probe_paths),
    ("probe_pscheduler", fuzz::probe_pscheduler),
    ("proc", fuzz::proc),
    ("prometheus", fuzz::prometheus),
    ("pscheduler", fuzz::pscheduler),
    ("query", fuzz::query),
    ("set", fuzz::set),
    ("spool", fuzz::spool),
    ("state", fuzz::state),
    ("trace", fuzz::trace),
];

/// Returns the parser of a name.
#[must_use]
pub fn parser(name: &str) -> Option<Parser> {
    PARSERS.iter().find(|(known, _)| *known == name).map(|(_, parser)| *parser)
}
