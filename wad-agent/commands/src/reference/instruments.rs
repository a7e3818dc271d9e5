//! The page of instruments.

use wad_instruments::{STANDARD, WITHOUT_EQUAL};

use super::{head, row};

const OPENING: &str = "\
# Instruments

The numbers that `wad flows --json`, `trace` and [derived events](../derived-events.md) have of every
connection, by the names of RFC 4898. A **counter** only grows, a **gauge** goes up and down.

Any other number of the kernel's `struct tcp_sock` is shown by `--field`, as `snd_wl1`, `inet_conn.icsk_ca_state` or
`rtt_min.s[0].v`.

";

pub fn page() -> String {
    let mut page = OPENING.to_owned();
    page += &head(["Name", "Unit", "Kind", "What it is"]);
    for of in STANDARD {
        let (unit, kind) = (of.unit.to_string(), of.kind.to_string());
        page += &row([&format!("`{}`", of.name), &unit, &kind, of.about]);
    }
    page += "\n## What Linux has no equal of\n\n";
    page += "These are in RFC 4898, and Linux does not count them:\n\n";
    page += &head(["Name", "Why, or where it is"]);
    for (names, why) in WITHOUT_EQUAL {
        page += &row([names, why]);
    }
    page
}
