//! All paths: what becomes of their flows, what is known of them, what they get.

use std::collections::HashMap;

use maud::{Markup, html};
use wad_policy::config::{Settings, Value};
use wad_tuning::readings::PathState;

use super::{
    layout::Page,
    pages::{self, Cut},
    query::{Link, Query},
    words::{self, NONE, or_dash},
};
use crate::{
    paths::{ConditionsInfo, Known, PathInfo, Paths},
    status::{PathStatus, Status},
};

/// Paths of one page.
const ROWS: usize = 100;

/// Makes the page.
pub fn page(status: &Status, paths: &Paths, query: &Query) -> Page {
    let word = query.get("q").unwrap_or_default();
    let known: HashMap<&str, &PathInfo> =
        paths.paths.iter().map(|path| (path.name.as_str(), path)).collect();
    let part = word.to_lowercase();
    let fits = |path: &&PathStatus| path.name.to_lowercase().contains(&part);
    let wanted: Vec<&PathStatus> = status.paths.iter().filter(fits).collect();
    let cut = Cut::of(wanted.len(), ROWS, query);
    let form = html! {
        @if status.paths.len() > ROWS || !word.is_empty() {
            form action="/" {
                label { span { "Name contains" } input name="q" value=(word) type="search"; }
                button { "Find" }
            }
        }
    };
    let live = html! {
        (words::notes(&super::host::faults(status)))
        (words::row(summary(status)))
        @if status.paths.is_empty() {
            p { "No path is in force: connections are as without wad. A path is written down in "
                code { (status.config.display()) } "." }
        } @else {
            (words::table("paths", &caption(&cut, status.paths.len()), &html! {
                thead { tr {
                    th scope="col" { "Path" }
                    th.n scope="col" { "Tuned now" }
                    th.n.wide scope="col" { "Opened" }
                    th.n scope="col" { "Sent" }
                    th.n scope="col" { "Received" }
                    th.n scope="col" { "Sent again" }
                    th.n scope="col" { "RTT" }
                    th.wide scope="col" { "Policy for" }
                    th.n.wide scope="col" { "Send buffer" }
                    th.n.wide scope="col" { "Receive buffer" }
                    th scope="col" { "Congestion" }
                } }
                tbody {
                    @for path in &wanted[cut.range()] {
                        (row(path, known.get(path.name.as_str()).copied()))
                    }
                }
            }))
            (pages::links(&cut, &Link::to("/").with("q", query.get("q"))))
        }
        (sources(paths))
    };
    Page { at: "/", title: "Paths".to_owned(), form, live }
}

fn summary(status: &Status) -> [words::Fact; 4] {
    let tuned: u64 = status.paths.iter().map(|path| path.flows_tuned).sum();
    let memory = format!(
        "{} held by TCP, of at most {}",
        words::octets(status.memory_held_bytes as f64),
        words::octets(status.memory_limit_bytes as f64)
    );
    [
        ("Paths", Some(words::count(status.paths.len() as u64))),
        ("Tuned now", Some(format!("{} flows", words::count(tuned)))),
        ("Memory", Some(memory)),
        ("Up", Some(words::seconds(status.uptime_seconds as f64))),
    ]
}

fn caption(cut: &Cut, all: usize) -> String {
    match cut.of == all {
        true => format!("{cut} paths, in the order of the configuration"),
        false => format!("{cut} paths, among {}", words::count(all as u64)),
    }
}

fn row(path: &PathStatus, known: Option<&PathInfo>) -> Markup {
    let policy = known.map(|known| &known.policy);
    html! {
        tr {
            th.k scope="row" {
                a href=(link(&path.name)) { (path.name) }
                @if let Some(state) = left_alone(path.state) {
                    " " span.warn { (state) }
                }
            }
            td.n { (words::count(path.flows_tuned)) }
            td.n.wide { (words::count(path.flows_opened)) }
            td.n { (words::octets(path.sent_bytes as f64)) }
            td.n { (words::octets(path.received_bytes as f64)) }
            td.n { (or_dash(sent_again(path).map(words::percent))) }
            td.n { (or_dash(path.rtt_us.map(|us| words::microseconds(us as f64)))) }
            td.k.wide { (known.map_or_else(|| NONE.to_owned(), made_for)) }
            td.n.wide { (buffer(policy, "sndbuf_bytes")) }
            td.n.wide { (buffer(policy, "rcvbuf_bytes")) }
            td.k { (policy.and_then(|it| it.get("congestion")).map_or_else(|| "the kernel's".to_owned(), ToString::to_string)) }
        }
    }
}

/// Returns where the page of a path is.
pub fn link(name: &str) -> String {
    Link::to("/path").with("name", Some(name)).to_string()
}

pub const fn left_alone(state: PathState) -> Option<&'static str> {
    match state {
        PathState::Tuned => None,
        PathState::Observed => Some("observed"),
        PathState::Disabled => Some("disabled"),
        PathState::HeldBack => Some("held back"),
    }
}

/// Returns the part of segments with data that was sent again.
pub fn sent_again(path: &PathStatus) -> Option<f64> {
    let sent = path.segments_sent;
    (sent > 0).then(|| path.segments_retransmitted as f64 / sent as f64)
}

fn buffer(policy: Option<&Settings>, name: &str) -> String {
    match policy.and_then(|policy| policy.get(name)) {
        Some(Value::Whole(bytes)) => words::octets(*bytes as f64),
        _ => "the kernel's".to_owned(),
    }
}

/// Says what the policy is made of.
pub fn made_for(path: &PathInfo) -> String {
    match (&path.measured, &path.learned) {
        (Some(measured), _) => conditions(measured.policy_is_for),
        (None, Some(learned)) => {
            format!(
                "{}, {}",
                words::rate(learned.bits_per_second),
                words::seconds(learned.rtt_seconds)
            )
        }
        (None, None) => "the file".to_owned(),
    }
}

fn conditions(known: ConditionsInfo) -> String {
    let rate = known.bits_per_second.zip(known.rtt_seconds);
    let parts = [
        rate.map(|(rate, rtt)| format!("{}, {}", words::rate(rate), words::seconds(rtt))),
        known.reorder_segments.map(|segments| format!("reordering by {segments}")),
        known.is_leaky.then(|| "losses without a queue".to_owned()),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "nothing known".to_owned() } else { parts.join(", ") }
}

/// Says who is asked what paths carry.
fn sources(paths: &Paths) -> Markup {
    html! {
        @if !paths.sources.is_empty() {
            h2 { "Sources of measurements" }
            (words::table("sources", "Who is asked what paths carry", &html! {
                thead { tr {
                    th scope="col" { "Source" }
                    th scope="col" { "Kind" }
                    th.n scope="col" { "Polls" }
                    th.n scope="col" { "Errors" }
                    th.n scope="col" { "Last value" }
                    th scope="col" { "State" }
                } }
                tbody {
                    @for source in &paths.sources {
                        tr {
                            th scope="row" { (source.name) }
                            td { (source.kind) }
                            td.n { (words::count(source.polls)) }
                            td.n { (words::count(source.errors.values().sum())) }
                            td.n { (source.age_seconds.map_or_else(|| "never".to_owned(), words::ago)) }
                            td {
                                @match &source.error {
                                    Some(error) => span.warn { (error) },
                                    None => "well",
                                }
                            }
                        }
                    }
                }
            }))
        }
    }
}

/// Writes a value that is known, from where, and how old.
pub fn known(known: Option<&Known>, shown: impl Fn(f64) -> String) -> Markup {
    html! {
        @match known {
            None => { td.n { (NONE) } td {} td.n {} },
            Some(known) => {
                td.n { (shown(known.value)) }
                td { (known.source) }
                td.n {
                    (words::ago(known.age_seconds))
                    @if known.is_stale { " " span.warn { "too old to count" } }
                }
            },
        }
    }
}
