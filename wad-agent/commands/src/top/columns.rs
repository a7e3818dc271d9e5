//! The columns of the two views.

use std::cmp::Ordering;

use wad_toolbox::amounts::{Bytes, Rate, Time};

use super::rows::{FlowRow, PathRow};

pub struct Column<R> {
    pub title: &'static str,
    pub width: u16,
    /// Whether it takes what others leave of a wide terminal.
    pub grows: bool,
    /// The narrowest terminal that has room for it.
    pub from_width: u16,
    pub cell: fn(&R) -> String,
    /// The order of rows: what one wants to see first comes first.
    pub order: fn(&R, &R) -> Ordering,
}

impl<R> Column<R> {
    const fn new(
        title: &'static str,
        width: u16,
        cell: fn(&R) -> String,
        order: fn(&R, &R) -> Ordering,
    ) -> Self {
        Self { title, width, grows: false, from_width: 0, cell, order }
    }

    const fn growing(self) -> Self {
        Self { grows: true, ..self }
    }

    const fn from(self, from_width: u16) -> Self {
        Self { from_width, ..self }
    }
}

type OfFlow = Column<FlowRow>;
type OfPath = Column<PathRow>;

/// A terminal with room for all columns.
const WIDE: u16 = 163;

/// 80 columns hold those that are always there, with a space between each two.
pub const FLOWS: [OfFlow; 12] = [
    OfFlow::new("SENDS", 7, |row| rate(row.sent), |a, b| largest(a.sent, b.sent)),
    OfFlow::new("GETS", 7, |row| rate(row.received), |a, b| largest(a.received, b.received)),
    OfFlow::new("REMOTE", 21, |row| row.remote.clone(), |a, b| a.remote.cmp(&b.remote)).growing(),
    OfFlow::new("LOCAL", 21, |row| row.local.clone(), |a, b| a.local.cmp(&b.local))
        .growing()
        .from(WIDE),
    OfFlow::new("PATH", 7, |row| row.path.clone(), |a, b| a.path.cmp(&b.path)).growing(),
    OfFlow::new("LAW", 13, |row| row.congestion.clone(), |a, b| a.congestion.cmp(&b.congestion))
        .from(WIDE),
    OfFlow::new("CWND", 8, |row| size(row.cwnd_bytes), |a, b| largest(a.cwnd_bytes, b.cwnd_bytes)),
    OfFlow::new(
        "RTT",
        7,
        |row| time(row.rtt_seconds),
        |a, b| largest(a.rtt_seconds, b.rtt_seconds),
    ),
    OfFlow::new(
        "AGAIN",
        5,
        |row| part(row.retransmitted),
        |a, b| largest(a.retransmitted, b.retransmitted),
    ),
    OfFlow::new(
        "LIMITED BY",
        11,
        |row| row.limit.short().to_owned(),
        |a, b| a.limit.urgency().cmp(&b.limit.urgency()),
    ),
    OfFlow::new("OWNER", 22, |row| row.owner.clone(), |a, b| a.owner.cmp(&b.owner)).from(WIDE),
    OfFlow::new("COOKIE", 12, |row| row.cookie.to_string(), |a, b| a.cookie.cmp(&b.cookie))
        .from(WIDE),
];

pub const PATHS: [OfPath; 8] = [
    OfPath::new("SENDS", 7, |row| rate(Some(row.sent)), |a, b| b.sent.total_cmp(&a.sent)),
    OfPath::new(
        "GETS",
        7,
        |row| rate(Some(row.received)),
        |a, b| b.received.total_cmp(&a.received),
    ),
    OfPath::new("PATH", 13, |row| row.path.clone(), |a, b| a.path.cmp(&b.path)).growing(),
    OfPath::new("FLOWS", 7, |row| row.flows.to_string(), |a, b| b.flows.cmp(&a.flows)),
    OfPath::new(
        "RTT",
        7,
        |row| time(row.rtt_seconds),
        |a, b| largest(a.rtt_seconds, b.rtt_seconds),
    ),
    OfPath::new(
        "AGAIN",
        5,
        |row| part(row.retransmitted),
        |a, b| largest(a.retransmitted, b.retransmitted),
    ),
    OfPath::new(
        "MOST LIMITED BY",
        15,
        |row| row.limit.short().to_owned(),
        |a, b| a.limit.urgency().cmp(&b.limit.urgency()),
    ),
    OfPath::new("EVIDENCE", 12, |row| row.evidence.clone(), |a, b| a.evidence.cmp(&b.evidence)),
];

fn none() -> String {
    "-".to_owned()
}

/// "622 Mb", of "622 Mbit/s": 80 columns are few.
fn rate(bits_per_second: Option<f64>) -> String {
    let short = |rate| Rate(rate).to_string().trim_end_matches("it/s").to_owned();
    bits_per_second.map_or_else(none, short)
}

/// "1.4 M", of "1.4 MiB".
fn size(bytes: Option<f64>) -> String {
    let short = |bytes| Bytes(bytes as u64).to_string().trim_end_matches("iB").to_owned();
    bytes.map_or_else(none, short)
}

fn time(seconds: Option<f64>) -> String {
    seconds.map_or_else(none, |seconds| Time(seconds).to_string())
}

fn part(part: Option<f64>) -> String {
    part.map_or_else(none, |part| format!("{:.1}%", part * 100.0))
}

fn largest(a: Option<f64>, b: Option<f64>) -> Ordering {
    let known = |value: Option<f64>| value.unwrap_or(-1.0);
    known(b).total_cmp(&known(a))
}
