//! Makes records of what the kernel side tells of a flow: one event of its may be two
//! or three of theirs.

use jiff::Timestamp;
use serde::Serialize;
use wad_common::{
    event::{Event, Kind},
    flow::{self, Flow, Outcome, Role},
    law::INFINITE_SSTHRESH,
};
use wad_instruments::Owner;
use wad_policy::event_name::EventName;
use wad_toolbox::{
    refusals::{self, RefusedSetting},
    shown::{address, outcome, role, text},
};

use super::{
    record::{Ends, Record},
    shown::{duration_seconds, goodput_bits_per_second},
};

/// The values of a record, by its event.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Values {
    Open {
        role: &'static str,
        outcome: &'static str,
        policy_set: u64,
        owner: Owner,
    },
    Tuned {
        policy_set: u64,
        outcome: &'static str,
        before: Settings,
        after: Settings,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        refused: Vec<RefusedSetting>,
    },
    Retuned {
        why: &'static str,
        policy_set: u64,
        outcome: &'static str,
        before: Settings,
        after: Settings,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        refused: Vec<RefusedSetting>,
    },
    Limited {
        why: &'static str,
        policy_set: u64,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        refused: Vec<RefusedSetting>,
    },
    Ended(Box<Summary>),
}

/// The settings of a socket; 0 where the kernel did not say.
#[derive(Debug, Serialize)]
pub struct Settings {
    congestion: String,
    sndbuf_bytes: u32,
    rcvbuf_bytes: u32,
    cwnd_segments: u32,
}

impl From<&flow::Settings> for Settings {
    fn from(settings: &flow::Settings) -> Self {
        let flow::Settings { congestion, sndbuf_bytes, rcvbuf_bytes, cwnd_segments, reserved: _ } =
            *settings;
        Self { congestion: text(&congestion), sndbuf_bytes, rcvbuf_bytes, cwnd_segments }
    }
}

/// The summary of a flow at its end.
#[derive(Debug, Serialize)]
pub struct Summary {
    role: &'static str,
    outcome: &'static str,
    policy_set: u64,
    seconds: f64,
    sent_bytes: u64,
    received_bytes: u64,
    goodput_bits_per_second: u64,
    segments_sent: u32,
    segments_retransmitted: u32,
    srtt_us: u32,
    min_rtt_us: u32,
    cwnd_segments: u32,
    /// The slow start threshold; None while it is infinite.
    ssthresh_segments: Option<u32>,
    mss_bytes: u32,
    before: Settings,
    after: Settings,
    owner: Owner,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<RefusedSetting>,
}

impl Summary {
    fn of(event: &Event, owner: Owner) -> Self {
        let flow = &event.flow;
        Self {
            role: role(flow.role),
            outcome: outcome(flow.outcome),
            policy_set: flow.generation,
            seconds: duration_seconds(event),
            sent_bytes: event.bytes_acked,
            received_bytes: event.bytes_received,
            goodput_bits_per_second: goodput_bits_per_second(event),
            segments_sent: event.data_segs_out,
            segments_retransmitted: event.segs_retrans,
            srtt_us: event.srtt_us,
            min_rtt_us: event.min_rtt_us,
            cwnd_segments: event.cwnd_segments,
            ssthresh_segments: Some(event.ssthresh_segments)
                .filter(|segments| *segments < INFINITE_SSTHRESH),
            mss_bytes: event.mss_bytes,
            before: (&flow.before).into(),
            after: (&flow.after).into(),
            owner,
            refused: refusals::of(&flow.refused),
        }
    }
}

/// Returns the kinds of events that only become records which nobody wants. Of a flow's
/// end the log and the metrics want to know, too.
pub fn unwanted(want: impl Fn(EventName) -> bool) -> Vec<Kind> {
    use EventName::{Limited, Open, Retuned, Tuned};
    let told_as: [(Kind, &[EventName]); 3] = [
        (Kind::Open, &[Open, Tuned, Retuned, Limited]),
        (Kind::Change, &[Retuned]),
        (Kind::Divide, &[Retuned]),
    ];
    let unwanted = told_as.into_iter().filter(|(_, names)| !names.iter().any(|name| want(*name)));
    unwanted.map(|(kind, _)| kind).collect()
}

/// Hands the records of an event to `take`, in their order.
pub fn records(
    event: &Event,
    owner: &Owner,
    path: &str,
    time: Timestamp,
    mut take: impl FnMut(Record<'_, Values>),
) {
    let ends = Ends {
        local: address(event.local, event.local_port),
        remote: address(event.remote, event.remote_port),
    };
    let mut tell = |event_name: EventName, values: Values, cookie: u64| {
        let (ends, cookie) = (Some(ends), Some(cookie));
        take(Record { time, event: event_name, ends, cookie, path, values });
    };
    let (flow, cookie) = (&event.flow, event.cookie);
    match event.kind {
        kind if kind == Kind::Open as u32 => {
            let (role, outcome) = (role(flow.role), outcome(flow.outcome));
            let open =
                Values::Open { role, outcome, policy_set: flow.generation, owner: owner.clone() };
            tell(EventName::Open, open, cookie);
            if flow.is_tuned() {
                let is_running = flow.role == Role::Running as u32;
                let (name, values) = if is_running {
                    (EventName::Retuned, retuned("adopted", flow))
                } else {
                    (EventName::Tuned, tuned(flow))
                };
                tell(name, values, cookie);
            }
            if let Some(why) = limit(flow) {
                let refused = refusals::of(&flow.refused);
                let limited = Values::Limited { why, policy_set: flow.generation, refused };
                tell(EventName::Limited, limited, cookie);
            }
        }
        kind if kind == Kind::Change as u32 => {
            tell(EventName::Retuned, retuned("policy", flow), cookie);
        }
        kind if kind == Kind::Divide as u32 => {
            tell(EventName::Retuned, retuned("divided", flow), cookie);
        }
        kind if kind == Kind::Close as u32 => {
            tell(
                EventName::Closed,
                Values::Ended(Summary::of(event, owner.clone()).into()),
                cookie,
            );
        }
        kind if kind == Kind::Leave as u32 => {
            tell(EventName::Left, Values::Ended(Summary::of(event, owner.clone()).into()), cookie);
        }
        _ => {}
    }
}

fn tuned(flow: &Flow) -> Values {
    Values::Tuned {
        policy_set: flow.generation,
        outcome: outcome(flow.outcome),
        before: (&flow.before).into(),
        after: (&flow.after).into(),
        refused: refusals::of(&flow.refused),
    }
}

fn retuned(why: &'static str, flow: &Flow) -> Values {
    Values::Retuned {
        why,
        policy_set: flow.generation,
        outcome: outcome(flow.outcome),
        before: (&flow.before).into(),
        after: (&flow.after).into(),
        refused: refusals::of(&flow.refused),
    }
}

/// Returns the limit as the metric `wad_flows_untuned_total` has it.
const fn limit(flow: &Flow) -> Option<&'static str> {
    match flow.outcome {
        n if n == Outcome::TooMany as u32 => Some("max_flows"),
        _ if flow.refused.are_any() => Some("refused"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use wad_common::refused::SocketSetting;
    use wad_instruments::testing::owner;
    use wad_tuning::bpf::testing::event;

    use super::*;
    use crate::events::record::testing::teller;

    /// Names and values of what is told of an event.
    fn told(event: &Event) -> Vec<(String, Value)> {
        let mut told = Vec::new();
        records(event, &owner(), "bob", Timestamp::UNIX_EPOCH, |record| {
            let line = record.line(&teller(), 0).unwrap();
            let line: Value = serde_json::from_slice(&line).unwrap();
            assert_eq!(line["dst_host"], "10.5.128.74");
            assert_eq!((&line["src_port"], &line["cookie"]), (&json!(40_000), &json!(1)));
            told.push((line["event"].as_str().unwrap().to_owned(), line["values"].clone()));
        });
        told
    }

    /// The reference in the book is made of these lines. Those that are of no flow, or of
    /// `derived`, are not told here.
    #[test]
    fn lines_are_as_the_reference_has_them() {
        let mut event = event();
        event.flow.refused.note(SocketSetting::Congestion, Err(-libc::ENOENT));
        let mut lines = String::new();
        for kind in [Kind::Open, Kind::Change, Kind::Close, Kind::Leave] {
            write_lines(&Event { kind: kind as u32, ..event }, &mut lines);
        }
        let golden = include_str!("testdata/lines.jsonl");
        let of_others = ["derived", "experiment", "guard"];
        let of_others = of_others.map(|event| format!("\"event\":\"{event}\""));
        let others = |line: &&str| !of_others.iter().any(|event| line.contains(event));
        let expected: Vec<_> = golden.lines().filter(others).collect();
        assert_eq!(lines.lines().collect::<Vec<_>>(), expected, "{lines}");
    }

    fn write_lines(event: &Event, lines: &mut String) {
        records(event, &owner(), "bob", Timestamp::UNIX_EPOCH, |record| {
            *lines += &String::from_utf8(record.line(&teller(), 0).unwrap()).unwrap();
        });
    }

    fn names(event: &Event) -> Vec<(String, Value)> {
        told(event).into_iter().map(|(name, values)| (name, values["why"].clone())).collect()
    }

    fn named(name: &str, why: Value) -> (String, Value) {
        (name.to_owned(), why)
    }

    #[test]
    fn a_flow_that_ends_is_summed_up() {
        let settings = |congestion: &str, sndbuf_bytes, rcvbuf_bytes, cwnd_segments| {
            json!({
                "congestion": congestion,
                "sndbuf_bytes": sndbuf_bytes,
                "rcvbuf_bytes": rcvbuf_bytes,
                "cwnd_segments": cwnd_segments,
            })
        };
        let expected = json!({
            "role": "connected",
            "outcome": "tuned",
            "policy_set": 0,
            "seconds": 16.0,
            "sent_bytes": 1_000_000_000,
            "received_bytes": 1000,
            "goodput_bits_per_second": 499_987_500,
            "segments_sent": 690_608,
            "segments_retransmitted": 3,
            "srtt_us": 70_125,
            "min_rtt_us": 70_001,
            "cwnd_segments": 3759,
            "ssthresh_segments": 3000,
            "mss_bytes": 1448,
            "before": settings("cubic", 16_384, 131_072, 10),
            "after": settings("wad_aimd", 7_502_478, 13_143_798, 24),
            "owner": {
                "uid": 1_000,
                "pid": 4_711,
                "process": "globus-gridftp-",
                "cgroup": "system.slice/globus.service",
                "unit": "globus.service",
            },
        });
        assert_eq!(told(&event()), [("closed".to_owned(), expected)]);
        let left =
            Event { kind: Kind::Leave as u32, ssthresh_segments: INFINITE_SSTHRESH, ..event() };
        assert_eq!(names(&left), [named("left", Value::Null)]);
        assert_eq!(told(&left)[0].1["ssthresh_segments"], Value::Null);
    }

    #[test]
    fn a_new_flow_is_tuned_or_limited_or_both() {
        let mut open = Event { kind: Kind::Open as u32, ..event() };
        let opened = || named("open", Value::Null);
        assert_eq!(names(&open), [opened(), named("tuned", Value::Null)]);
        for (outcome, told) in [
            (Outcome::TooMany, vec![opened(), named("limited", json!("max_flows"))]),
            (Outcome::Observed, vec![opened()]),
        ] {
            open.flow.outcome = outcome as u32;
            assert_eq!(names(&open), told);
        }
    }

    #[test]
    fn what_the_kernel_refused_is_named_with_its_errno() {
        let mut open = Event { kind: Kind::Open as u32, ..event() };
        open.flow.refused.note(SocketSetting::Congestion, Err(-libc::ENOENT));
        let told_of_it = [
            named("open", Value::Null),
            named("tuned", Value::Null),
            named("limited", json!("refused")),
        ];
        assert_eq!(names(&open), told_of_it);
        let refused = json!([{ "setting": "congestion", "errno": "ENOENT" }]);
        for (_, values) in &told(&open)[1..] {
            assert_eq!(values["refused"], refused, "{values}");
        }
        for kind in [Kind::Change, Kind::Divide, Kind::Close, Kind::Leave] {
            let (_, values) = told(&Event { kind: kind as u32, ..open }).remove(0);
            assert_eq!((&values["outcome"], &values["refused"]), (&json!("tuned"), &refused));
        }
    }

    #[test]
    fn a_running_flow_is_retuned_and_says_why() {
        let mut adopted = Event { kind: Kind::Open as u32, ..event() };
        adopted.flow.role = Role::Running as u32;
        let told = [named("open", Value::Null), named("retuned", json!("adopted"))];
        assert_eq!(names(&adopted), told);
        for (kind, why) in [(Kind::Change, "policy"), (Kind::Divide, "divided")] {
            let changed = Event { kind: kind as u32, ..event() };
            assert_eq!(names(&changed), [named("retuned", json!(why))]);
        }
    }

    #[test]
    fn an_unknown_event_is_none() {
        assert_eq!(told(&Event { kind: 99, ..event() }), []);
    }

    #[test]
    fn what_becomes_no_wanted_record_is_not_sent() {
        assert_eq!(unwanted(|_| true), []);
        assert_eq!(unwanted(|_| false), [Kind::Open, Kind::Change, Kind::Divide]);
        let only = |wanted: EventName| move |event: EventName| event == wanted;
        assert_eq!(unwanted(only(EventName::Limited)), [Kind::Change, Kind::Divide]);
        assert_eq!(unwanted(only(EventName::Retuned)), []);
        assert_eq!(unwanted(only(EventName::Closed)).len(), 3);
    }
}
