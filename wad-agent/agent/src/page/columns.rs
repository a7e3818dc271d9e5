//! The columns of the table of flows: each says what it shows of a flow, and how flows are put
//! in order by it.

use std::cmp::Ordering;

use wad_instruments::{Flow, Span, name};
use wad_toolbox::refusals;

use super::words;

/// A column of the table of flows.
pub struct Column {
    /// The name in the page's address.
    pub key: &'static str,
    pub title: &'static str,
    /// Says what it shows, for those who ask.
    pub about: &'static str,
    pub shown: Shown,
    /// Whether it is left out where there is little room.
    pub is_wide: bool,
}

/// A column has this of a flow.
#[derive(Clone, Copy)]
pub enum Shown {
    Text(fn(&Flow) -> Option<String>),
    /// A number, and how it is written.
    Number(OfFlow, Written),
}

type OfFlow = fn(&Flow) -> Option<f64>;
type Written = fn(f64) -> String;

/// The place of a flow in the order by a column.
#[derive(Debug, PartialEq)]
pub enum Place {
    Text(Option<String>),
    Number(Option<f64>),
}

const fn text(
    key: &'static str,
    title: &'static str,
    of: fn(&Flow) -> Option<String>,
    about: &'static str,
) -> Column {
    Column { key, title, about, shown: Shown::Text(of), is_wide: false }
}

const fn number(
    key: &'static str,
    title: &'static str,
    (of, written): (OfFlow, Written),
    about: &'static str,
) -> Column {
    Column { key, title, about, shown: Shown::Number(of, written), is_wide: false }
}

impl Column {
    const fn wide(self) -> Self {
        Self { is_wide: true, ..self }
    }

    /// Whether the greatest comes first, where nobody says otherwise.
    pub const fn is_number(&self) -> bool {
        matches!(self.shown, Shown::Number(..))
    }

    /// Returns the class of its cells: figures to the right, and what is left out of a narrow page.
    pub const fn class(&self) -> &'static str {
        match (self.is_number(), self.is_wide) {
            (true, true) => "n wide",
            (true, false) => "n",
            (false, true) => "k wide",
            (false, false) => "k",
        }
    }

    /// Returns what stands in it.
    pub fn cell(&self, flow: &Flow) -> Option<String> {
        match self.shown {
            Shown::Text(text) => text(flow),
            Shown::Number(number, written) => number(flow).map(written),
        }
    }

    pub fn place(&self, flow: &Flow) -> Place {
        match self.shown {
            Shown::Text(text) => Place::Text(text(flow)),
            Shown::Number(number, _) => Place::Number(number(flow)),
        }
    }
}

impl Place {
    /// Compares two of one column. What is not known comes last, in either order.
    pub fn order(&self, other: &Self, is_descending: bool) -> Ordering {
        let of_known = |order: Ordering| if is_descending { order.reverse() } else { order };
        match (self, other) {
            (Self::Number(Some(one)), Self::Number(Some(other))) => of_known(one.total_cmp(other)),
            (Self::Text(Some(one)), Self::Text(Some(other))) => of_known(one.cmp(other)),
            (one, other) => other.is_known().cmp(&one.is_known()),
        }
    }

    const fn is_known(&self) -> bool {
        matches!(self, Self::Number(Some(_)) | Self::Text(Some(_)))
    }
}

/// The column by which flows are sorted where nobody says otherwise.
pub const USUAL: &str = "rate";

/// The columns, in the order in which they stand.
pub const COLUMNS: &[Column] = &[
    text("remote", "Remote", |flow| Some(flow.remote.to_string()), "The other end"),
    text("local", "Local", |flow| Some(flow.local.to_string()), "This end").wide(),
    text("path", "Path", path, "The path that it is on").wide(),
    text("owner", "Owner", |flow| flow.owner.short(), "Its process, pod, unit or user"),
    text("state", "State", |flow| Some(outcome(flow)), "Whether it has got what its path says")
        .wide(),
    text(
        "congestion",
        "Congestion",
        |flow| Some(flow.congestion.to_string()).filter(|name| !name.is_empty()),
        "The congestion control that it has now",
    )
    .wide(),
    number(
        "rate",
        "Rate",
        (|flow| since_start(flow).bits_per_second(), words::rate),
        "The mean of both directions since it was established",
    ),
    number(
        "delivery",
        "Delivery",
        (|flow| Some(8.0 * flow.instruments.get(name::DELIVERY_RATE)?), words::rate),
        "The kernel's latest sample of what the other end has got",
    ),
    number(
        "rtt",
        "RTT",
        (|flow| flow.instruments.get(name::SMOOTHED_RTT), words::microseconds),
        "Smoothed round trip time",
    ),
    number(
        "cwnd",
        "Window",
        (|flow| flow.instruments.get(name::CUR_CWND), words::octets),
        "Congestion window",
    )
    .wide(),
    number(
        "again",
        "Resent",
        (|flow| since_start(flow).retransmitted(), words::percent),
        "The part of segments with data that was sent again",
    ),
    number(
        "sent",
        "Sent",
        (|flow| flow.instruments.get(name::HC_THRU_OCTETS_ACKED), words::octets),
        "Data that the other end has acknowledged",
    ),
    number(
        "received",
        "Received",
        (|flow| flow.instruments.get(name::HC_THRU_OCTETS_RECEIVED), words::octets),
        "Data received in order",
    ),
    number(
        "age",
        "Age",
        (|flow| flow.instruments.get(name::ELAPSED_SECS), words::seconds),
        "Since it was established, or found running",
    )
    .wide(),
    text(
        "limited",
        "Limited by",
        |flow| since_start(flow).limited_by().map(str::to_owned),
        "What held it back for most of its time",
    ),
];

pub const fn since_start(flow: &Flow) -> Span<'_> {
    Span { now: flow, before: None }
}

fn path(flow: &Flow) -> Option<String> {
    Some(flow.path.to_string()).filter(|path| !path.is_empty())
}

/// Returns what became of it, and what it did not get.
pub fn outcome(flow: &Flow) -> String {
    let outcome = flow.outcome.replace('_', " ");
    match refusals::text(&flow.refused) {
        Some(refused) => format!("{outcome} but {refused}"),
        None => outcome,
    }
}
