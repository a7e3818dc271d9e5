//! The events of flows in the last hour: how many in each minute, and the last of each kind.

use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value;
use wad_observing::recent::{KEPT, LastHour, Told};
use wad_policy::event_name::EventName;

use super::{
    figure, flows,
    layout::Page,
    pages::{self, Cut},
    paths,
    query::{Link, Query},
    words,
};

/// Events of one page.
const ROWS: usize = 100;

/// Makes the page.
pub fn page(hour: &LastHour, query: &Query, now: Timestamp) -> Page {
    let kind = query.get("event");
    let kind = EventName::ALL.into_iter().find(|event| Some(event.label()) == kind);
    let wanted: Vec<&Told> =
        hour.told.iter().filter(|told| kind.is_none_or(|kind| told.event == kind)).collect();
    let cut = Cut::of(wanted.len(), ROWS, query);
    let shown: Vec<Told> = wanted[cut.range()].iter().map(|told| (*told).clone()).collect();
    let form = html! {
        form action="/events" {
            label {
                span { "Event" }
                select name="event" {
                    option value="" { "any" }
                    @for event in EventName::ALL {
                        option value=(event.label()) selected[Some(event) == kind] { (event.label()) }
                    }
                }
            }
            button { "Show" }
        }
    };
    let live = html! {
        (since(hour, now))
        (figure::minutes(hour, now))
        (totals(hour))
        h2 { "The last of each kind" }
        @if shown.is_empty() {
            p { "None was told." }
        } @else {
            (table(&shown, &format!("{cut} events, the newest first; {KEPT} of each kind are kept"), now))
            (pages::links(&cut, &Link::to("/events").with("event", kind.map(EventName::label))))
        }
    };
    Page { at: "/events", title: "Events of the last hour".to_owned(), form, live }
}

fn since(hour: &LastHour, now: Timestamp) -> Markup {
    const HOUR: f64 = 3_600.0;
    let age = hour.since.map(|since| now.duration_since(since).as_secs_f64());
    html! {
        @if let Some(age) = age.filter(|age| *age < HOUR) {
            p.soft { "They are kept since the agent began, or the page came: " (words::seconds(age.max(0.0))) "." }
        }
    }
}

fn totals(hour: &LastHour) -> Markup {
    let of =
        |event: EventName| hour.minutes.iter().map(|it| u64::from(it.counts[event as usize])).sum();
    html! {
        (words::table("totals", "Events of the last hour, by kind", &html! {
            thead { tr {
                th scope="col" { "Event" } th.n scope="col" { "Times" } th scope="col" { "Told when" }
            } }
            tbody {
                @for event in EventName::ALL {
                    tr {
                        th.k scope="row" { (figure::key(event as usize)) (event.label()) }
                        td.n { (words::count(of(event))) }
                        td { (event.when()) }
                    }
                }
            }
        }))
    }
}

/// Writes events in a table.
pub fn table(told: &[Told], caption: &str, now: Timestamp) -> Markup {
    html! {
        (words::table("events", caption, &html! {
            thead { tr {
                th scope="col" { "Time, UTC" }
                th.n.wide scope="col" { "Ago" }
                th scope="col" { "Event" }
                th.wide scope="col" { "Path" }
                th scope="col" { "Remote" }
                th.wide scope="col" { "Local" }
                th.what scope="col" { "What" }
            } }
            tbody {
                @for told in told {
                    tr {
                        td.k { (told.time.strftime("%H:%M:%S%.3f")) }
                        td.n.wide { (words::seconds(now.duration_since(told.time).as_secs_f64().max(0.0))) }
                        td.k {
                            @if told.event.level() == "Warn" { span.warn { (told.event.label()) } }
                            @else { (told.event.label()) }
                        }
                        td.k.wide { a href=(paths::link(&told.path)) { (told.path) } }
                        @if let (Some(ends), Some(cookie)) = (told.ends, told.cookie) {
                            td.k { a href=(flows::link(cookie)) { (ends.remote) } }
                            td.k.wide { (ends.local) }
                        } @else {
                            td.k { "-" }
                            td.k.wide { "-" }
                        }
                        td { (summary(told)) }
                    }
                }
            }
        }))
    }
}

/// Says in a line what an event says.
fn summary(told: &Told) -> String {
    let values: Value = serde_json::from_str(&told.values).unwrap_or_default();
    let text = |name: &str| values[name].as_str().unwrap_or_default().replace('_', " ");
    let number = |name: &str| values[name].as_f64().unwrap_or_default();
    let refused = values["refused"].as_array().map(|all| {
        let setting = |it: &Value| it["setting"].as_str().unwrap_or_default().to_owned();
        format!("; refused: {}", all.iter().map(setting).collect::<Vec<_>>().join(", "))
    });
    let refused = refused.unwrap_or_default();
    match told.event {
        EventName::Open => format!("{}, {}", text("role"), text("outcome")),
        EventName::Tuned => format!("{}{refused}", change(&values)),
        EventName::Retuned => format!("{}: {}{refused}", text("why"), change(&values)),
        EventName::Limited => format!("{}{refused}", text("why")),
        EventName::Closed | EventName::Left => format!(
            "{}, {} sent, {} received, {}, {} of {} segments sent again, RTT {}{refused}",
            words::seconds(number("seconds")),
            words::octets(number("sent_bytes")),
            words::octets(number("received_bytes")),
            words::rate(number("goodput_bits_per_second")),
            words::count(number("segments_retransmitted") as u64),
            words::count(number("segments_sent") as u64),
            words::microseconds(number("srtt_us")),
        ),
        EventName::Experiment => match values["news"].as_str().unwrap_or_default() {
            "thrown" => format!("block {} does not count: {}", number("block"), text("reason")),
            "verdict" => format!("{}: {}", text("metric"), text("verdict")),
            _ => format!("it is over, by {}", text("by")),
        },
        EventName::Guard => match values["news"].as_str().unwrap_or_default() {
            "tripped" => format!(
                "{}, {:.1} times, where {} is no harm{}",
                text("signal"),
                number("ratio"),
                number("margin"),
                if values["dry_run"] == true { "; in a dry run nothing comes of it" } else { "" }
            ),
            "held_back" => {
                format!("at the kernel's defaults for {}", words::seconds(number("seconds")))
            }
            "trial" => "the policy is tried with a part of new connections".to_owned(),
            _ => "the policy is in force again".to_owned(),
        },
        EventName::Derived => {
            let limit = ["above", "below"].into_iter().find_map(|side| {
                Some(format!(
                    "{side} {} for {}",
                    values[side].as_f64()?,
                    words::seconds(number("seconds"))
                ))
            });
            let unit = values["unit"].as_str().unwrap_or_default();
            format!("{} {} {unit}, {}", text("name"), number("value"), limit.unwrap_or_default())
        }
    }
}

/// Says what was set.
fn change(values: &Value) -> String {
    let congestion = |side: &str| values[side]["congestion"].as_str().unwrap_or_default();
    let bytes = |side: &str, name: &str| values[side][name].as_f64().unwrap_or_default();
    let from_to = |name: &str, label: &str| {
        let [before, after] = ["before", "after"].map(|side| bytes(side, name));
        (before != after)
            .then(|| format!("{label} {} → {}", words::octets(before), words::octets(after)))
    };
    let law = (congestion("before") != congestion("after"))
        .then(|| format!("{} → {}", congestion("before"), congestion("after")));
    let all =
        [law, from_to("sndbuf_bytes", "send buffer"), from_to("rcvbuf_bytes", "receive buffer")];
    let all: Vec<_> = all.into_iter().flatten().collect();
    if all.is_empty() { "as before".to_owned() } else { all.join(", ") }
}
