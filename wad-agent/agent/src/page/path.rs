//! One path: its counts, what is known of it and from where, and what its connections get.

use jiff::Timestamp;
use maud::{Markup, html};
use wad_policy::config::{Value, fields};
use wad_probing::{answers::History, archive::Bucket, measurement::Share};
use wad_toolbox::refusals::RefusedFlows;

use super::{
    evidence, figure,
    layout::Page,
    paths,
    query::Link,
    words::{self, NONE, or_dash},
};
use crate::{
    paths::{MeasuredInfo, PathInfo, Paths},
    status::{PathStatus, Status},
};

/// Makes the page; None where there is no such path. `history` is of the last week.
pub fn page(
    name: &str,
    (status, paths): (&Status, &Paths),
    history: Option<&History>,
    now: Timestamp,
) -> Option<Page> {
    let counts = status.paths.iter().find(|path| path.name == name)?;
    let known = paths.paths.iter().find(|path| path.name == name);
    let flows = Link::to("/flows").with("path", Some(name));
    let live = html! {
        @if let Some(state) = paths::left_alone(counts.state) {
            p { span.warn { "It is " (state) ":" } " its connections are counted, and get nothing." }
        }
        p { a href=(flows) { "Its flows" } }
        h2 { "Counts" }
        (words::facts(facts(counts)))
        @if let Some(guard) = status.guards.iter().find(|guard| guard.path == name) {
            p { "Its guard: " a href="/evidence" { (evidence::state(guard)) } "." }
        }
        (refused(&counts.refused))
        @if let Some(known) = known {
            h2 { "Known of it" }
            (what_is_known(known))
            h2 { "Policy" }
            (policy(known))
        }
        @if let Some(history) = history.filter(|history| !history.buckets.is_empty()) {
            (past(history, now))
        }
    };
    Some(Page { at: "/", title: format!("Path {name}"), form: html! {}, live })
}

fn facts(path: &PathStatus) -> [words::Fact; 9] {
    let segments = format!(
        "{} of {} segments with data",
        words::count(path.segments_retransmitted),
        words::count(path.segments_sent)
    );
    let again = match paths::sent_again(path) {
        Some(part) => format!("{}: {segments}", words::percent(part)),
        None => NONE.to_owned(),
    };
    // None is no bound.
    let most = (path.max_flows > 0)
        .then(|| format!(" of at most {}", words::count(path.max_flows.into())));
    let most = most.unwrap_or_default();
    let untuned = &path.flows_untuned;
    let untuned = format!(
        "{} beyond the most that are tuned, {} refused something",
        words::count(untuned.max_flows),
        words::count(untuned.refused)
    );
    [
        ("Tuned now", Some(format!("{}{most}", words::count(path.flows_tuned)))),
        ("Matched", Some(words::count(path.connections_matched))),
        ("Opened", Some(words::count(path.flows_opened))),
        ("Closed", Some(words::count(path.flows_closed))),
        ("Not all tuned", Some(untuned)),
        ("Sent", Some(words::octets(path.sent_bytes as f64))),
        ("Received", Some(words::octets(path.received_bytes as f64))),
        ("Sent again", Some(again)),
        (
            "RTT",
            path.rtt_us.map(|us| {
                format!("{}, of the flow that closed last", words::microseconds(us as f64))
            }),
        ),
    ]
}

fn refused(refused: &[RefusedFlows]) -> Markup {
    let sentence = |RefusedFlows { refused, flows }: &RefusedFlows| {
        let why = refused.why().map(|why| format!(": {why}")).unwrap_or_default();
        format!("The kernel has refused {refused} to {flows} of its flows{why}")
    };
    words::notes(&refused.iter().map(sentence).collect::<Vec<_>>())
}

fn what_is_known(path: &PathInfo) -> Markup {
    let by_peer = path.by_peer.as_ref().and_then(|by_peer| by_peer.words());
    html! {
        @match (&path.measured, &path.learned) {
            (Some(measured), _) => (measurements(measured)),
            (None, Some(learned)) => p {
                "Learned: " (learned.evidence) "; last used "
                (words::ago(learned.unused_seconds)) "."
            },
            (None, None) => p { "It is as the file says." },
        }
        @if path.measured.is_some() || path.learned.is_some() {
            p { "The policy in force is for " (paths::made_for(path)) "." }
        }
        @if let Some(words) = by_peer {
            p { "By the word of a peer: " (words) "." }
        }
    }
}

fn measurements(measured: &MeasuredInfo) -> Markup {
    let part = |part: f64| format!("{part:.1e}");
    let refused: Vec<_> = measured.refused.iter().map(|refused| refused.text.clone()).collect();
    html! {
        (words::table("known", "What is measured of it", &html! {
            thead { tr {
                th scope="col" { "Of" }
                th.n scope="col" { "Value" }
                th scope="col" { "Source" }
                th.n scope="col" { "Measured" }
            } }
            tbody {
                tr { th scope="row" { "Bandwidth" } (paths::known(measured.bandwidth_bits_per_second.as_ref(), words::rate)) }
                tr { th scope="row" { "RTT" } (paths::known(measured.rtt_seconds.as_ref(), words::seconds)) }
                tr { th scope="row" { "Packets lost" } (paths::known(measured.loss.as_ref(), part)) }
                tr { th scope="row" { "Packets out of order" } (paths::known(measured.reordering.as_ref(), part)) }
            }
        }))
        (words::notes(&refused))
    }
}

fn policy(path: &PathInfo) -> Markup {
    let known = || fields::shown_of_paths().iter();
    html! {
        (words::table("policy", "What its connections get, as the kernel has it", &html! {
            thead { tr { th scope="col" { "Setting" } th.n scope="col" { "Value" } } }
            tbody {
                @for (name, value) in path.policy.iter() {
                    tr {
                        th scope="row" { code { (name) } }
                        td.n {
                            @match value {
                                None => span.soft { "the kernel's" },
                                Some(value) => {
                                    (known().find(|(_, known)| known.name == name)
                                        .map_or_else(|| value.to_string(), |(_, known)| known.text(value)))
                                    @if let Some(size) = size(name, value) { span.soft { " = " (size) } }
                                },
                            }
                        }
                    }
                }
            }
        }))
    }
}

/// Returns a size as people read it, where it is one that they would not.
fn size(name: &str, value: &Value) -> Option<String> {
    match value {
        Value::Whole(bytes) if name.ends_with("_bytes") && *bytes >= 1024 => {
            Some(words::octets(*bytes as f64))
        }
        _ => None,
    }
}

/// Shows what probes have found out over the last week.
fn past(history: &History, now: Timestamp) -> Markup {
    let buckets = &history.buckets;
    html! {
        h2 { "Measured by probes in the last 7 days" }
        (figure::course(buckets, figure::RTT, now))
        (figure::course(buckets, figure::BANDWIDTH, now))
        details #past {
            summary { "The same as a table" }
            (words::table("history", "What probes have found out, the newest first", &html! {
                thead { tr {
                    th scope="col" { "From" }
                    th.n scope="col" { "RTT" }
                    th.n scope="col" { "Least" }
                    th.n scope="col" { "Greatest" }
                    th.n scope="col" { "Bandwidth" }
                    th.n scope="col" { "Least" }
                    th.n scope="col" { "Greatest" }
                    th.n scope="col" { "Lost" }
                    th.n scope="col" { "Measured" }
                } }
                tbody { @for bucket in buckets.iter().rev() { (past_row(bucket)) } }
            }))
        }
    }
}

fn past_row(bucket: &Bucket) -> Markup {
    let rtt = bucket.rtt_seconds;
    let rate = bucket.bandwidth_bits_per_second;
    let least = if bucket.least > 0 { "≥ " } else { "" };
    html! {
        tr {
            th.k scope="row" { (bucket.start.strftime("%F %H:%M")) }
            td.n { (or_dash(rtt.map(|it| words::seconds(it.mean)))) }
            td.n { (or_dash(rtt.map(|it| words::seconds(it.min)))) }
            td.n { (or_dash(rtt.map(|it| words::seconds(it.max)))) }
            td.n { (or_dash(rate.map(|it| format!("{least}{}", words::rate(it.mean))))) }
            td.n { (or_dash(rate.map(|it| words::rate(it.min)))) }
            td.n { (or_dash(rate.map(|it| words::rate(it.max)))) }
            td.n { (or_dash(bucket.loss.map(|Share { part, whole }| format!("{part} of {whole}")))) }
            td.n { (bucket.measured) " of " (bucket.periods) }
        }
    }
}
