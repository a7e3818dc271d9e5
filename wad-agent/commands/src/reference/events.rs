//! The page of events: when each is told, and the values that it has.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use wad_policy::event_name::EventName;

use super::{head, row};

/// Lines of all events. The tests of the events hold what is told against them.
const LINES: &str = include_str!("../../../observing/src/events/testdata/lines.jsonl");

/// The values of events, with what they are, in the order of the page.
const VALUES: &[(&str, &str)] = &[
    ("policy_set", "the number of the policy set that the connection has got it from"),
    ("role", "`connected`, `accepted`, or `running`: found running"),
    (
        "outcome",
        "`tuned`, `untuned` where an [experiment](../evidence.md) or the path's `share` leaves it at \
         the defaults, `too_many`, or `observed`",
    ),
    (
        "why",
        "of `limited`: `memory`, `max_flows`, or `refused` by the kernel, with what is in `refused`; of `retuned`: `adopted` \
         when it came to the path while it ran, `policy` when its path changed (`policy_set` says to \
         which set), `divided` when others came or went",
    ),
    (
        "owner",
        "whose it is, as far as that is known, with `container` (64 hexadecimal digits) and `pod` \
         (its UID) where it is in one, and `namespace`, `pod_name` and `container_name` where the \
         agent knows the pods of its node; of an accepted one the process comes after `open`",
    ),
    ("uid", "in `owner`: the user that the socket belongs to"),
    ("pid", "in `owner`: the process that connected or accepted, as the host numbers it"),
    ("process", "in `owner`: the name of its command"),
    ("cgroup", "in `owner`: the cgroup's path below the root"),
    ("refused", "each setting that the kernel did not set; left out where there is none"),
    ("setting", "in `refused`: its key in the configuration"),
    (
        "errno",
        "in `refused`: why, as in errno(3); `null` for a buffer that the kernel cut to \
         `net.core.wmem_max` or `rmem_max`",
    ),
    ("before", "what it had before anything was changed"),
    ("after", "what it has then"),
    (
        "seconds",
        "how long it was a connection of the path; of `derived`: for so long already; of `guard`: how \
         long it is held back",
    ),
    ("sent_bytes", "bytes that the other end acknowledged"),
    ("received_bytes", "bytes received in order"),
    ("goodput_bits_per_second", "over its life, in the direction that carried more"),
    ("segments_sent", "segments sent with data"),
    ("segments_retransmitted", "segments sent again"),
    ("srtt_us", "smoothed RTT, in microseconds"),
    ("min_rtt_us", "least RTT, in microseconds"),
    ("cwnd_segments", "congestion window"),
    ("ssthresh_segments", "slow start threshold; `null` while there is none"),
    ("mss_bytes", "maximum segment size"),
    ("congestion", "in `before` and `after`: congestion control"),
    ("sndbuf_bytes", "in `before` and `after`: send buffer, as the kernel reports it, doubled"),
    ("rcvbuf_bytes", "in `before` and `after`: receive buffer, the same"),
    ("name", "of the derived event"),
    ("value", "of the derived event"),
    ("unit", "of the derived event, if it has one; in `owner`: the innermost unit of systemd"),
    ("above", "the threshold that the value is above"),
    ("below", "the threshold that the value is below"),
    (
        "news",
        "of `experiment`: `thrown`, as a block does not count, `verdict`, or `ended`; of `guard`: \
         `tripped`, as the policy hurts, `held_back`, `trial`, or `returned`",
    ),
    ("block", "the number of the block, from 0"),
    ("reason", "why it does not count"),
    ("metric", "what the verdict is on"),
    ("verdict", "`better`, `equal` or `worse`"),
    ("pairs", "so many pairs of blocks had been compared"),
    ("signal", "what is worse, and than what"),
    ("ratio", "so many times, in the geometric mean of the looks"),
    ("margin", "up to this it would be no harm"),
    ("ticks", "so many looks it has been under suspicion"),
    ("dry_run", "whether it is only said"),
    ("by", "what has ended it: `time`, `verdict`, or `hand`"),
];

const OPENING: &str = "\
# Events

[The page about events](../events.md) says how to have them told. `[[sink]] events` takes these names.

";

const FIELDS: &str = "
Each line also has these fields, but that `experiment` and `guard` are of no connection, and have
neither hosts nor ports, nor a cookie:

";

const MEANINGS: &str = "
## Values

Values of `0`, and an empty `congestion`, are those that the kernel did not say.

";

pub fn page() -> String {
    let mut page = OPENING.to_owned();
    page += &head(["Event", "When", "Level", "Values"]);
    for event in EventName::ALL {
        let values = lines(event).filter_map(|mut line| match line.remove("values") {
            Some(Value::Object(values)) => Some(values),
            _ => None,
        });
        let values = names(values.flatten().map(|(name, _)| name).collect());
        page += &row([&format!("`{}`", event.label()), event.when(), event.level(), &values]);
    }
    page += FIELDS;
    page += &names(lines(EventName::Open).flatten().map(|(name, _)| name).collect());
    page += ".\n";
    page += MEANINGS;
    page += &head(["Value", "What it is"]);
    for (name, about) in VALUES {
        page += &row([&format!("`{name}`"), about]);
    }
    page
}

/// The lines of an event.
fn lines(event: EventName) -> impl Iterator<Item = Map<String, Value>> {
    let lines = LINES.lines().filter_map(|line| serde_json::from_str(line).ok());
    lines.filter(move |line: &Map<_, _>| line.get("event") == Some(&event.label().into()))
}

/// The names, in their order in [`VALUES`]; those that are not there last.
fn names(names: BTreeSet<String>) -> String {
    let place = |name: &String| VALUES.iter().position(|(known, _)| known == name);
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_by_key(|name| place(name).unwrap_or(usize::MAX));
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(value: &Value, names: &mut BTreeSet<String>) {
        for (name, value) in value.as_object().into_iter().flatten() {
            names.insert(name.clone());
            add(value, names);
        }
        value.as_array().into_iter().flatten().for_each(|value| add(value, names));
    }

    #[test]
    fn all_values_are_told_of_and_no_others() {
        let mut told = BTreeSet::new();
        for event in EventName::ALL {
            assert!(lines(event).next().is_some(), "there is no line of {event:?}");
            lines(event).for_each(|line| add(&line["values"], &mut told));
        }
        let known: BTreeSet<_> = VALUES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(told, known);
    }
}
