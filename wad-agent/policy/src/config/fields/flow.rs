//! These fields say what a path's flows begin with, and what holds for their packets.

use toml::de::DeValue;
use wad_common::{
    policy::{NO_DELAYED_ACKS, SETS_TRAFFIC_CLASS},
    share,
};

use crate::config::{
    aimd::HANDSHAKE_SEGMENTS,
    allow::{self, Allow},
    dscp, experiment,
    field::{Checked, Field, Kind, Whole},
    route_rules::MAX_REORDER_SEGMENTS,
    setting::{Setting, Value},
    table,
};

/// The key of the paths of others on the same way.
pub const NEIGHBOURS: &str = "neighbours";

pub const FLOW: &[Field] = &[
    Field {
        key: "initial_window",
        // A first flight of 1.4 MB. The handshake bounds it further where this host
        // connects: see `HANDSHAKE_SEGMENTS`.
        kind: Kind::Whole { range: 1..=1_000, unit: "segments" },
        default: "as it is, or ten for each of the `equivalent_streams`, up to 45",
        doc: "The congestion window at the start.",
        // That of equivalent streams is there already.
        read: |field, table, problems, path| {
            let given = field.whole(table, problems);
            path.initial_window_segments = given.or(path.initial_window_segments);
        },
        put: |path, policy| {
            policy.initial_window_segments = path.initial_window_segments.unwrap_or(0);
        },
        check: Some(
            Checked::column("IW", |path| path.initial_window_segments.map(|n| n.to_string()))
                .after("rcvbuf"),
        ),
        explain: Some(
            Setting::new("initial_window_segments", |in_force| {
                Value::number(in_force.policy.initial_window_segments)
            })
            .unit(" segments"),
        ),
        ..Field::NONE
    },
    Field {
        key: "initial_receive_window",
        // More would not fit into the handshake's window.
        kind: Kind::Whole { range: 1..=HANDSHAKE_SEGMENTS as u64, unit: "segments" },
        doc: "The receive window at the start.",
        read: |field, table, problems, path| {
            path.initial_receive_window_segments = field.whole(table, problems);
        },
        put: |path, policy| {
            policy.initial_receive_window_segments =
                path.initial_receive_window_segments.unwrap_or(0);
        },
        check: Some(Checked::words(|path| {
            path.initial_receive_window_segments.map(|n| format!("initial_receive_window {n}"))
        })),
        explain: Some(
            Setting::new("initial_receive_window_segments", |in_force| {
                Value::number(in_force.policy.initial_receive_window_segments)
            })
            .unit(" segments"),
        ),
        ..Field::NONE
    },
    Field {
        key: "reorder",
        // From what TCP begins with (RFC 5681) to what `net.ipv4.tcp_max_reordering` lets it
        // learn.
        kind: Kind::Whole { range: 3..=MAX_REORDER_SEGMENTS as u64, unit: "segments" },
        or: &["auto"],
        default: "the kernel's own",
        doc: "The segments that may arrive before one sent ahead of them, before it counts as \
              lost; takes `[host] routes`; \"auto\" on a path that is measured is as far as its \
              flows have seen it.",
        read: |field, table, problems, path| match field.whole_or_auto(table, problems) {
            Whole::Absent => {}
            Whole::Auto => path.origin.traits.reorder = true,
            Whole::Number(segments) => {
                path.reorder_segments = Some(segments);
                path.origin.reorder_segments = segments;
            }
        },
        check: Some(Checked::words(|path| match path.reorder_segments {
            None => path.origin.traits.reorder.then(|| "reorder as measured".to_owned()),
            Some(segments) => Some(format!("reorder {segments}")),
        })),
        explain: Some(
            Setting::new("reorder_segments", |in_force| {
                Value::number(in_force.origin.reorder_segments)
            })
            .unit(" segments"),
        ),
        ..Field::NONE
    },
    Field {
        key: "delayed_ack",
        alias: Some("delack"),
        kind: Kind::PapersSwitch,
        default: "true",
        doc: "Whether an acknowledgement may wait; `false` sends it within two ticks of the \
              kernel's clock, or at once with `[host] routes`.",
        read: |field, table, problems, path| {
            path.no_delayed_acks = field.switch(table, problems) == Some(false);
        },
        put: |path, policy| {
            policy.flags |= if path.no_delayed_acks { NO_DELAYED_ACKS } else { 0 };
        },
        check: Some(Checked::words(|path| {
            path.no_delayed_acks.then(|| "delayed_ack false".to_owned())
        })),
        explain: Some(Setting::new("delayed_ack", |in_force| {
            (in_force.policy.flags & NO_DELAYED_ACKS != 0).then_some(Value::Flag(false))
        })),
        ..Field::NONE
    },
    Field {
        key: "ecn",
        kind: Kind::Word {
            words: &["on"],
            unless: "cannot be given to a connection by the kernel",
        },
        default: "as `net.ipv4.tcp_ecn` has it",
        doc: "\"on\" asks for Explicit Congestion Notification (RFC 3168), and accepts it; takes \
              `[host] routes`.",
        read: |field, table, problems, path| {
            path.origin.ecn = field.word(table, problems).is_some();
        },
        check: Some(Checked::words(|path| path.origin.ecn.then(|| "ecn on".to_owned()))),
        explain: Some(Setting::new("ecn", |in_force| {
            in_force.origin.ecn.then(|| Value::Text("on".to_owned()))
        })),
        ..Field::NONE
    },
    Field {
        key: "dscp",
        kind: Kind::Other { takes: "a number, or a name such as \"le\"", range: "0 to 63" },
        doc: "The differentiated services code point of the packets.",
        read: |field, table, problems, path| {
            path.dscp = table.read(field.key, problems, dscp::parse).map(|dscp| dscp.value);
        },
        put: |path, policy| {
            policy.traffic_class =
                path.dscp.map_or(0, |dscp| u32::from(dscp) << 2 | SETS_TRAFFIC_CLASS);
        },
        check: Some(Checked::words(|path| path.dscp.map(|dscp| format!("dscp {dscp}")))),
        explain: Some(Setting::new("dscp", |in_force| {
            let class = in_force.policy.traffic_class;
            (class & SETS_TRAFFIC_CLASS != 0).then(|| Value::Whole(u64::from(class as u8 >> 2)))
        })),
        ..Field::NONE
    },
    Field {
        key: "max_flows",
        kind: Kind::Whole { range: 1..=u32::MAX as u64, unit: "flows" },
        default: "no bound",
        doc: "The most tuned connections at a time; others stay untuned.",
        read: |field, table, problems, path| path.max_flows = field.whole(table, problems),
        put: |path, policy| policy.max_flows = path.max_flows.unwrap_or(0),
        explain: Some(Setting::new("max_flows", |in_force| {
            Value::number(in_force.policy.max_flows)
        })),
        ..Field::NONE
    },
    Field {
        key: "share",
        kind: Kind::Number { range: 0.0..=1.0, unit: "" },
        default: "1",
        doc: "The part of new connections that get the policy, chosen by addresses and ports; the \
              others are left at the kernel's defaults. It bounds what a mistake costs; the two \
              kinds share the path, so to hold one against the other tells nothing: that is what an \
              [experiment](../evidence.md) is for.",
        read: |field, table, problems, path| {
            let read = |value: &DeValue<'_>| table::number(value, 0.0..=1.0, "");
            let share = table.read(field.key, problems, read);
            // In range, hence whole.
            path.share = share.map(|part| (part.value * f64::from(share::ALL)).round() as u32);
        },
        put: |path, policy| policy.share = path.share.unwrap_or(share::ALL),
        check: Some(Checked::words(|path| {
            path.share.map(|share| format!("for {} of new connections", part_words(share)))
        })),
        explain: Some(Setting::new("share", |in_force| {
            let share = in_force.policy.share;
            (share != share::ALL).then(|| Value::Real(f64::from(share) / f64::from(share::ALL)))
        })),
        ..Field::NONE
    },
    Field {
        key: NEIGHBOURS,
        kind: Kind::Other {
            takes: "the name of a path with mode = \"observe\", or a list of them",
            range: "",
        },
        default: "none",
        doc: "Paths of others on the same way: what happens to them is harm that tuning does, to \
              the path's [guard](../guard.md) and its experiments.",
        read: |field, table, problems, path| {
            let name = |value: &DeValue<'_>| table::text(value).map(str::to_owned);
            let names = table.read_list(field.key, problems, name);
            path.neighbours = names.into_iter().flatten().map(|name| name.value).collect();
        },
        check: Some(Checked::words(|path| {
            let names = path.neighbours.join(", ");
            (!names.is_empty()).then(|| format!("neighbours {names}"))
        })),
        ..Field::NONE
    },
    Field {
        key: experiment::KEY,
        kind: Kind::Other { takes: "a table [path.experiment]", range: "" },
        default: "none",
        doc: "An [experiment](../evidence.md): in turn, new connections get the policy and the \
              kernel's defaults.",
        check: Some(Checked::words(|path| path.experiment.as_deref().map(experiment::words))),
        ..Field::NONE
    },
    Field {
        key: "allow",
        kind: Kind::Other { takes: "\"aggressive\", or \"peer:\" and a peer's name", range: "" },
        default: "nothing",
        doc: "Consent to more than a CUBIC flow's share, to an algorithm of the kernel's whose \
              share is not known, or to an initial window above 10 segments; not on prefixes \
              shorter than /8 (IPv6: /16). With a [peer](../peers.md)'s name the settings that \
              take more are in force while that peer consents.",
        read: |field, table, problems, path| {
            let allow = table.read(field.key, problems, allow::parse);
            path.allow = allow.map(|allow| allow.value);
        },
        check: Some(Checked::words(|path| match &path.allow {
            Some(Allow::Peer(peer)) => Some(format!("while peer {peer} consents")),
            _ => None,
        })),
        ..Field::NONE
    },
];

/// Returns a share as a part in hundred.
fn part_words(share: u32) -> String {
    format!("{}%", (f64::from(share) / f64::from(share::ALL) * 1e4).round() / 1e2)
}
