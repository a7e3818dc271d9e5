//! The agent and its host: how it is, what it has changed here, and whom it serves.

use maud::{Markup, html};

use super::{
    layout::Page,
    words::{self, MOST_ROWS, left_out, or_dash},
};
use crate::status::{PeerStatus, Status};

/// Makes the page.
pub fn page(status: &Status) -> Page {
    let live = html! {
        (words::notes(&faults(status)))
        h2 { "Agent" }
        (words::facts(facts(status)))
        h2 { "Changed on this host" }
        (changes(status))
        (services(status))
        (sets(status))
        (peers(status))
    };
    Page { at: "/host", title: "Host".to_owned(), form: html! {}, live }
}

/// Says in sentences what somebody should know first.
pub fn faults(status: &Status) -> Vec<String> {
    let mut notes = Vec::new();
    if status.reloads.behind {
        notes.push("What the file says by now was not taken; the log says why.".to_owned());
    }
    if status.all_disabled {
        notes.push("All paths are disabled; `wad enable` ends that.".to_owned());
    }
    let detached = status.detached.iter().map(|fault| format!("Detached: {fault}."));
    notes.extend(detached);
    let pods = status.pods.iter().filter_map(|pods| pods.lacking.clone());
    let peers = status.peers.iter().filter_map(|peers| peers.failing.clone());
    notes.extend(pods.chain(peers));
    if status.events_lost > 0 {
        notes.push(format!(
            "{} events found the kernel's ring full and are lost.",
            words::count(status.events_lost)
        ));
    }
    notes
}

fn facts(status: &Status) -> Vec<words::Fact> {
    let counted = |count: u64| (count > 0).then(|| words::count(count));
    let probes = status.probes.as_ref().map(|probes| {
        let next = probes.next_task.as_deref().zip(probes.next_in_seconds);
        let next = next.map(|(task, time)| format!("; next {task} in {}", words::seconds(time)));
        format!("{} tasks, {} run{}", probes.tasks, probes.running, next.unwrap_or_default())
    });
    let pods = status.pods.as_ref().map(|pods| format!("{} known", words::count(pods.known)));
    let refused = status.page.as_ref().map(|page| words::count(page.refused));
    let refused = refused.map(|count| format!("{count}, with clients that were too slow"));
    let without: Vec<_> = status.lacking.iter().chain(&status.programs_refused).cloned().collect();
    let without = Some(without.join("; ")).filter(|text| !text.is_empty());
    vec![
        ("Version", Some(status.version.clone())),
        ("Instance", Some(format!("{}, process {}", status.instance, status.pid))),
        ("Up", Some(words::seconds(status.uptime_seconds as f64))),
        ("Configuration", Some(status.config.display().to_string())),
        ("Policy set", Some(words::count(status.generation))),
        ("Cgroup", Some(status.cgroup.display().to_string())),
        (
            "Memory of TCP",
            Some(format!(
                "{} held, at most {} before buffers shrink",
                words::octets(status.memory_held_bytes as f64),
                words::octets(status.memory_limit_bytes as f64)
            )),
        ),
        ("MPTCP subflows left alone", counted(status.mptcp_subflows)),
        ("Left alone for want of storage", counted(status.flows_without_storage)),
        ("Pods", pods),
        ("Probes", probes),
        ("Refused by this page", refused),
        ("Goes without", without),
    ]
}

fn changes(status: &Status) -> Markup {
    html! {
        @if status.changes.is_empty() {
            p { "Nothing beside the BPF programs and their maps." }
        } @else {
            p { "It is in the journal, and undone at the agent's end or by " code { "wad cleanup" } "." }
            (words::table("changes", "Settings of this host that wad has changed", &html! {
                thead { tr {
                    th scope="col" { "What" }
                    th.n scope="col" { "Before" }
                    th.n scope="col" { "Now" }
                } }
                tbody {
                    @for change in status.changes.iter().take(MOST_ROWS) {
                        @let [before, after] = match change.values() {
                            Some((before, after)) => [before, after].map(|it| Some(it.to_owned())),
                            None => [None, None],
                        };
                        tr {
                            th scope="row" { (change.to_string()) }
                            td.n { (or_dash(before)) }
                            td.n { (or_dash(after)) }
                        }
                    }
                }
            }))
            (left_out(status.changes.len()))
        }
    }
}

/// Where events, traces and metrics go.
fn services(status: &Status) -> Markup {
    let mut rows = Vec::new();
    for sink in &status.sinks {
        let waits = (sink.spooled_bytes > 0)
            .then(|| format!("; {} wait", words::octets(sink.spooled_bytes as f64)));
        let lost = (sink.lost + sink.refused > 0)
            .then(|| format!("; {} lost, {} refused", sink.lost, sink.refused));
        let did = format!(
            "{} events{}{}",
            words::count(sink.sent),
            waits.unwrap_or_default(),
            lost.unwrap_or_default()
        );
        rows.push((format!("Sink {} ({})", sink.name, sink.kind), did, &sink.failing));
    }
    for trace in &status.traces {
        let did = format!(
            "{} lines, {}, to {}",
            words::count(trace.lines),
            words::octets(trace.bytes as f64),
            trace.file.display()
        );
        rows.push((format!("Trace {}", trace.name), did, &trace.failing));
    }
    if let Some(otlp) = &status.otlp {
        let did = format!("{} exports to {}", words::count(otlp.sent), otlp.url);
        rows.push(("Metrics by OTLP".to_owned(), did, &otlp.failing));
    }
    html! {
        @if !rows.is_empty() {
            h2 { "Told to others" }
            (words::table("services", "Where events, traces and metrics go", &html! {
                thead { tr {
                    th scope="col" { "Where" } th scope="col" { "So far" } th scope="col" { "State" }
                } }
                tbody {
                    @for (name, did, failing) in &rows {
                        tr { th scope="row" { (name) } td { (did) } td { (state(failing.as_deref())) } }
                    }
                }
            }))
        }
    }
}

fn state(failing: Option<&str>) -> Markup {
    html! {
        @match failing {
            Some(why) => span.warn { (why) },
            None => "well",
        }
    }
}

fn sets(status: &Status) -> Markup {
    html! {
        @if !status.sets.is_empty() {
            h2 { "Sets of prefixes" }
            (words::table("sets", "Lists that paths are for", &html! {
                thead { tr {
                    th scope="col" { "Set" }
                    th.n scope="col" { "Prefixes" }
                    th.n scope="col" { "Read" }
                    th scope="col" { "State" }
                } }
                tbody {
                    @for set in status.sets.iter().take(MOST_ROWS) {
                        tr {
                            th scope="row" { (set.name) }
                            td.n { (words::count(set.prefixes)) }
                            td.n { (or_dash(set.age_seconds.map(|age| words::ago(age as f64)))) }
                            td { (state(set.failing.as_deref())) }
                        }
                    }
                }
            }))
            (left_out(status.sets.len()))
        }
    }
}

fn peers(status: &Status) -> Markup {
    let heard = |peer: &PeerStatus| match (peer.age_seconds, peer.silent_seconds) {
        (Some(age), _) => words::ago(age as f64),
        (None, Some(silent)) => format!("silent for {}", words::seconds(silent as f64)),
        (None, None) => "not yet".to_owned(),
    };
    html! {
        @if let Some(peers) = status.peers.as_ref().filter(|peers| !peers.peers.is_empty()) {
            h2 { "Peers" }
            (words::table("peers", "Agents at other ends of paths", &html! {
                thead { tr {
                    th scope="col" { "Peer" }
                    th.n scope="col" { "Heard" }
                    th scope="col" { "Paths by its word" }
                    th scope="col" { "State" }
                } }
                tbody {
                    @for peer in peers.peers.iter().take(MOST_ROWS) {
                        tr {
                            th scope="row" { (peer.name) }
                            td.n { (heard(peer)) }
                            td { (peer.paths.join(", ")) }
                            td { (state(peer.failing.as_deref())) }
                        }
                    }
                }
            }))
            (left_out(peers.peers.len()))
        }
    }
}
