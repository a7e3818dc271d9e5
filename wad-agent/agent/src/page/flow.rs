//! One flow: whose it is, what held it back, what was told of it, and every instrument.

use jiff::Timestamp;
use maud::{Markup, html};
use wad_instruments::{Flow, STANDARD, Unit, name, phase};
use wad_observing::recent::LastHour;
use wad_tuning::instance::Instance;

use super::{
    columns::{COLUMNS, outcome, since_start},
    events, figure,
    layout::Page,
    paths,
    words::{self, NONE, or_dash},
};

/// Makes the page of a flow, or of one that was there in the last hour; None where nothing is
/// known of it.
pub fn page(
    (cookie, instance): (u64, &str),
    flow: Option<&Flow>,
    hour: &LastHour,
    now: Timestamp,
) -> Option<Page> {
    let (local, remote) = match (flow, hour.told.first()) {
        (Some(flow), _) => (flow.local, flow.remote),
        (None, Some(told)) => told.ends.map(|ends| (ends.local, ends.remote))?,
        (None, None) => return None,
    };
    let live = html! {
        @match flow {
            Some(flow) => (lives(flow)),
            None => p { span.warn { "It is not there any more." } " This was told of it:" },
        }
        @if !hour.told.is_empty() {
            h2 { "Told of it in the last hour" }
            (events::table(&hour.told, "Events of this flow", now))
        }
        @if let Some(flow) = flow { (instruments(flow)) }
        h2 { "Over time" }
        p { "The agent keeps no course of single flows by itself. These commands record and draw one:" }
        pre tabindex="0" { code {
            "wad trace " (of_instance(instance)) "--cookie " (cookie) " --out flow.jsonl\n"
            "wad plot flow.jsonl -o flow.svg"
        } }
    };
    Some(Page { at: "/flows", title: format!("{local} → {remote}"), form: html! {}, live })
}

/// Says which agent a command is for, where that is not the usual one.
fn of_instance(instance: &str) -> String {
    match instance == Instance::default().name() {
        true => String::new(),
        false => format!("--instance {instance} "),
    }
}

fn lives(flow: &Flow) -> Markup {
    let get = |name: &str| flow.instruments.get(name);
    let owner = Some(flow.owner.to_string()).filter(|owner| !owner.is_empty());
    let column = |key: &str| COLUMNS.iter().find(|column| column.key == key)?.cell(flow);
    let segments = get(name::CUR_CWND).zip(get(name::CUR_MSS)).filter(|(_, mss)| *mss > 0.0);
    let window = segments.map(|(cwnd, mss)| {
        format!("{} = {:.0} segments of {}", words::octets(cwnd), cwnd / mss, words::octets(mss))
    });
    let rtt = get(name::SMOOTHED_RTT).map(|rtt| {
        let least = get(name::MIN_RTT).map(|us| format!(", least {}", words::microseconds(us)));
        format!("{}{}", words::microseconds(rtt), least.unwrap_or_default())
    });
    let law = get(name::PHASE).and_then(phase).map(|phase| phase.name().replace('_', " "));
    let law = match law {
        Some(phase) => format!("{}, in {phase}", flow.congestion),
        None => flow.congestion.to_string(),
    };
    html! {
        @if flow.path.is_empty() {
            p { "It is on no path: it is as without wad." }
        } @else {
            p { "On path " a href=(paths::link(&flow.path)) { (flow.path) } ", " (outcome(flow)) "." }
        }
        (words::facts([
            ("Owner", owner),
            ("Opened", Some(role(&flow.role).to_owned())),
            ("Age", column("age")),
            ("Congestion control", Some(law)),
            ("Mean rate", column("rate")),
            ("Delivery rate", column("delivery")),
            ("RTT", rtt),
            ("Window", window),
            ("Sent", column("sent")),
            ("Received", column("received")),
            ("Sent again", column("again")),
            ("Cookie", Some(flow.cookie.to_string())),
        ]))
        (held_back(flow))
    }
}

fn role(role: &str) -> &str {
    match role {
        "connected" => "by this host",
        "accepted" => "by the other end",
        "running" => "before the agent, which found it running",
        other => other,
    }
}

/// Shows what held it back, as parts of its time.
fn held_back(flow: &Flow) -> Markup {
    let limits: Vec<_> =
        since_start(flow).limits_ms().map(|(who, ms)| (who, ms.max(0.0))).collect();
    let all: f64 = limits.iter().map(|(_, ms)| ms).sum();
    html! {
        @if all > 0.0 {
            h2 { "What held it back" }
            (figure::parts(&limits))
            (words::table("limits", "Times", &html! {
                thead { tr {
                    th scope="col" { "By" } th.n scope="col" { "Time" } th.n scope="col" { "Part" }
                } }
                tbody {
                    @for (place, (who, ms)) in limits.iter().enumerate() {
                        tr {
                            th scope="row" { (figure::key(place)) (who) }
                            td.n { (words::seconds(ms / 1e3)) }
                            td.n { (format!("{:.1} %", ms / all * 100.0)) }
                        }
                    }
                }
            }))
        }
    }
}

fn instruments(flow: &Flow) -> Markup {
    html! {
        h2 { "Instruments" }
        (words::table("instruments", "What TCP knows of it, by the names of RFC 4898", &html! {
            thead { tr {
                th scope="col" { "Instrument" }
                th.n scope="col" { "Value" }
                th scope="col" { "Unit" }
                th.wide scope="col" { "What it is" }
            } }
            tbody {
                @for (name, value) in flow.instruments.iter() {
                    @let known = STANDARD.iter().find(|known| known.name == name);
                    tr {
                        th scope="row" { code { (name) } }
                        td.n { (or_dash(value.map(number))) }
                        td { (known.map_or_else(|| NONE.to_owned(), |known| unit(known.unit))) }
                        td.wide { (known.map_or("", |known| known.about)) }
                    }
                }
            }
        }))
    }
}

fn unit(unit: Unit) -> String {
    match unit {
        Unit::Microseconds => "µs".to_owned(),
        Unit::Number => NONE.to_owned(),
        other => other.to_string(),
    }
}

/// Writes a whole number in groups, another one with three digits behind the point.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e18 {
        let sign = if value < 0.0 { "−" } else { "" };
        return format!("{sign}{}", words::count(value.abs() as u64));
    }
    format!("{value:.3}")
}
