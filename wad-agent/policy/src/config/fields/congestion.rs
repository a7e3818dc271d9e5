//! The congestion control of a path's flows, and its parameters.

use wad_common::{
    control::{IGNORE_LOCAL_STALLS, IIAD, KEEP_WHEN_IDLE, Pacing, WindowSize},
    policy::PACED,
};

use crate::{
    config::{
        PathPolicy,
        aimd::{DECREASE, INCREASE, STREAMS},
        field::{Checked, Field, Kind},
        line::RATES,
        pacing::RANGE as PACING_RANGE,
        resume,
        setting::{InForce, Setting, Value},
        thresholds::{BYTES, SEGMENTS},
    },
    law::Law,
    pair::{decrease, increase_segments},
};

const CONGESTION_NAME: Setting =
    Setting::new("congestion", |in_force| in_force.congestion().map(Value::Text));

const INITIAL_SSTHRESH: Setting = Setting::new("initial_ssthresh", |in_force| {
    Value::window(in_force.policy.control.initial_ssthresh)
});

const MAX_CWND: Setting =
    Setting::new("max_cwnd", |in_force| Value::window(in_force.policy.control.max_cwnd));

const WINDOW: Field = Field {
    kind: Kind::Window { segments: SEGMENTS, bytes: BYTES },
    or: &["auto"],
    default: "none",
    ..Field::NONE
};

pub const LOSS: Field = Field {
    key: "loss",
    kind: Kind::Word { words: &["congestion", "leaky", "auto"], unless: "is no cause of losses" },
    default: "\"congestion\"",
    doc: "What a loss means; \"leaky\" takes from the window only what the RTT shows to be a \
          queue; \"auto\" on a path that is measured is \"leaky\" while its flows lose packets \
          without a queue, and else what `congestion` is.",
    check: Some(Checked::words(|path| {
        path.origin.traits.loss.then(|| "loss as measured".to_owned())
    })),
    why: |in_force| {
        let is_leaky = in_force.law() == Some(Law::Leaky);
        (is_leaky && in_force.origin.traits.loss)
            .then_some("its flows lost packets without a queue: losses are no congestion")
    },
    ..Field::NONE
};

pub const CONGESTION: &[Field] = &[
    Field {
        key: "congestion",
        kind: Kind::Other { takes: "the name of a congestion control, or a list", range: "" },
        default: "as it is, or \"wad_cubic\" with a field of `wad`'s laws",
        doc: "The congestion control: one of `wad`'s laws, or any of the kernel's; of a list the \
              first that can be had.",
        check: Some(Checked::column("CONGESTION", |path| {
            path.congestion.as_ref().map(|congestion| congestion.name().to_owned())
        })),
        explain: Some(CONGESTION_NAME),
        paths: Some(CONGESTION_NAME.title("CONGESTION")),
        ..Field::NONE
    },
    LOSS,
    Field {
        key: "dedicated",
        kind: Kind::Other { takes: "a rate such as \"622Mbit\"", range: RATES },
        default: "not so",
        doc: "The rate at which the window is held, times `rtt`, paced, whatever is lost.",
        check: Some(
            Checked::words(|path| {
                let rate = path.control.dedicated_bytes_per_second;
                (rate > 0).then(|| format!("paced at {} of payload", bits_per_second(rate)))
            })
            .after("max_cwnd"),
        ),
        explain: Some(
            Setting::new("dedicated_bytes_per_second", |in_force| {
                Value::number(in_force.policy.control.dedicated_bytes_per_second)
            })
            .unit(" bytes/s of payload")
            .after("standing_queue"),
        ),
        ..Field::NONE
    },
    Field {
        key: "additive_increase",
        alias: Some("wadai"),
        kind: Kind::Number { range: INCREASE, unit: "segments for each RTT" },
        or: &["auto"],
        default: "1",
        doc: "The growth of the window for each RTT; \"auto\" is RFC 3649's pair at the window \
              that fills the path.",
        check: Some(Checked::column("AIMD(b, a)", |path| {
            path.law().is_some_and(|law| law.takes("additive_increase")).then(|| {
                let aimd = path.control.aimd;
                format!("{}, {}", rounded(decrease(aimd)), rounded(increase_segments(aimd)))
            })
        })),
        explain: Some(Setting::new("additive_increase_segments", |in_force| {
            has_pair(in_force)
                .then(|| Value::Real(rounded(increase_segments(in_force.policy.control.aimd))))
        })),
        paths: Some(Setting::new("additive_increase", |in_force| {
            has_pair(in_force).then(|| Value::Real(increase_segments(in_force.policy.control.aimd)))
        })),
        ..Field::NONE
    },
    Field {
        key: "decrease",
        alias: Some("wadmd"),
        kind: Kind::Number { range: DECREASE, unit: "" },
        default: "0.5",
        doc: "The fraction of the window that is given up at a loss.",
        explain: Some(Setting::new("decrease", |in_force| {
            has_pair(in_force).then(|| Value::Real(rounded(decrease(in_force.policy.control.aimd))))
        })),
        paths: Some(Setting::new("decrease", |in_force| {
            has_pair(in_force).then(|| Value::Real(decrease(in_force.policy.control.aimd)))
        })),
        ..Field::NONE
    },
    Field {
        key: "equivalent_streams",
        kind: Kind::Whole { range: STREAMS, unit: "standard flows" },
        default: "1",
        doc: "The number of flows as which one behaves: CUBIC's under `wad_cubic`, Reno's under \
              `wad_aimd`, in place of increase and decrease; \"auto\" buffers and the initial window \
              grow with it.",
        ..Field::NONE
    },
    Field {
        key: "binomial",
        kind: Kind::Word { words: &["sqrt", "iiad"], unless: "is no binomial law" },
        default: "\"sqrt\"",
        doc: "The law of the family that `wad_binomial` is: \"sqrt\" gains 1/sqrt(w) segments for \
              each RTT and loses 2/3 sqrt(w) at a loss, \"iiad\" gains 1.5/w and loses one.",
        read: |field, table, problems, path| {
            if field.word(table, problems).is_some_and(|word| word.value == "iiad") {
                path.control.flags |= IIAD;
            }
        },
        check: Some(Checked::words(|path| flag(path, IIAD, "binomial iiad"))),
        explain: Some(Setting::new("binomial", |in_force| {
            let has_it = in_force.law().is_some_and(|law| law.takes("binomial"));
            let is_iiad = in_force.policy.control.flags & IIAD != 0;
            has_it.then(|| Value::Text(if is_iiad { "iiad" } else { "sqrt" }.to_owned()))
        })),
        ..Field::NONE
    },
    Field {
        key: "initial_ssthresh",
        doc: "The slow start threshold at the start.",
        check: Some(Checked::words(|path| {
            window("initial_ssthresh", path.control.initial_ssthresh)
        })),
        explain: Some(INITIAL_SSTHRESH),
        paths: Some(INITIAL_SSTHRESH),
        ..WINDOW
    },
    Field {
        key: "max_ssthresh",
        alias: Some("maxssth"),
        // RFC 3742 suggests 100.
        kind: Kind::Whole { range: 2..=100_000, unit: "segments" },
        default: "none; `wad_delay` doubles in two RTTs from 100 segments on",
        doc: "The window from which on slow start is limited (RFC 3742).",
        read: |field, table, problems, path| {
            path.control.max_ssthresh_segments = field.whole(table, problems).unwrap_or(0);
        },
        check: Some(
            Checked::words(|path| number("max_ssthresh", path.control.max_ssthresh_segments))
                .after("max_cwnd"),
        ),
        explain: Some(
            Setting::new("max_ssthresh_segments", |in_force| {
                Value::number(in_force.policy.control.max_ssthresh_segments)
            })
            .unit(" segments")
            .after("max_cwnd"),
        ),
        ..Field::NONE
    },
    Field {
        key: "max_cwnd",
        doc: "The largest congestion window.",
        check: Some(Checked::words(|path| window("max_cwnd", path.control.max_cwnd))),
        explain: Some(MAX_CWND),
        paths: Some(MAX_CWND),
        ..WINDOW
    },
    Field {
        key: "standing_queue",
        kind: Kind::Whole { range: 2..=10_000, unit: "segments" },
        default: "the law's own choice",
        doc: "The packets that a flow of `wad_delay` keeps queued; above 1 Gbit/s it takes more \
              than the 45 that a host sends at once.",
        read: |field, table, problems, path| {
            path.control.standing_queue_segments = field.whole(table, problems).unwrap_or(0);
        },
        check: Some(Checked::words(|path| {
            number("standing_queue", path.control.standing_queue_segments)
        })),
        explain: Some(
            Setting::new("standing_queue_segments", |in_force| {
                Value::number(in_force.policy.control.standing_queue_segments)
            })
            .unit(" segments"),
        ),
        ..Field::NONE
    },
    Field {
        key: "idle",
        kind: Kind::Word { words: &["decay", "keep"], unless: "is nothing to do when idle" },
        default: "\"decay\"",
        doc: "What becomes of the window in a pause; the first flight after it is 10 segments in \
              any case.",
        read: |field, table, problems, path| {
            if field.word(table, problems).is_some_and(|word| word.value == "keep") {
                path.control.flags |= KEEP_WHEN_IDLE;
            }
        },
        check: Some(Checked::words(|path| flag(path, KEEP_WHEN_IDLE, "idle keep"))),
        why: |in_force| {
            has_flag(
                in_force,
                KEEP_WHEN_IDLE,
                "after a pause, from its first ACK on, the window is as it was",
            )
        },
        ..Field::NONE
    },
    resume::FIELD,
    Field {
        key: "ignore_local_stalls",
        default: "false",
        doc: "Whether a full queue of this host is no congestion.",
        read: |field, table, problems, path| {
            if field.switch(table, problems) == Some(true) {
                path.control.flags |= IGNORE_LOCAL_STALLS;
            }
        },
        check: Some(Checked::words(|path| flag(path, IGNORE_LOCAL_STALLS, "ignore_local_stalls"))),
        why: |in_force| {
            let why = "a full queue of this host is not taken for congestion";
            has_flag(in_force, IGNORE_LOCAL_STALLS, why)
        },
        ..Field::NONE
    },
    Field {
        key: "pacing",
        kind: Kind::Other { takes: "a rate such as \"600Mbit\"", range: PACING_RANGE },
        or: &["off", "auto"],
        default: "on for `wad`'s laws from 10 ms on",
        doc: "Whether packets are spread over the RTT, and the most rate; \"auto\" on a path that is \
              measured is 1.2 times its bandwidth at most.",
        put: |path, policy| {
            policy.max_pacing_bytes_per_second = path.max_pacing_bytes_per_second.unwrap_or(0);
        },
        check: Some(Checked::words(pacing)),
        explain: Some(
            Setting::new("max_pacing_bytes_per_second", |in_force| {
                let rate = in_force.policy.max_pacing_bytes_per_second;
                if rate == PACED { None } else { Value::number(rate) }
            })
            .unit(" bytes/s at most")
            .after("initial_receive_window"),
        ),
        why: |in_force| {
            let rate = in_force.policy.max_pacing_bytes_per_second;
            (rate == PACED).then_some("paced, at the rate that the law sets")
        },
        ..Field::NONE
    },
];

fn has_pair(in_force: InForce<'_>) -> bool {
    in_force.law().is_some_and(|law| law.takes("additive_increase"))
}

/// Four digits behind the point, no trailing zeros: what fixed point keeps.
fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

fn number(key: &str, number: u32) -> Option<String> {
    (number > 0).then(|| format!("{key} {number}"))
}

fn window(key: &str, size: WindowSize) -> Option<String> {
    Value::window(size).map(|size| format!("{key} {size}"))
}

fn flag(path: &PathPolicy, flag: u32, words: &str) -> Option<String> {
    (path.control.flags & flag != 0).then(|| words.to_owned())
}

fn has_flag(in_force: InForce<'_>, flag: u32, why: &'static str) -> Option<&'static str> {
    let is_set = in_force.policy.control.flags & flag != 0;
    (is_set && in_force.law().is_some()).then_some(why)
}

fn pacing(path: &PathPolicy) -> Option<String> {
    let asked = path.control.pacing;
    match path.max_pacing_bytes_per_second {
        Some(PACED) => Some("paced".to_owned()),
        Some(rate) => Some(format!("paced up to {}", bits_per_second(rate.into()))),
        None if asked == Pacing::On as u32 => Some("paced".to_owned()),
        None if asked == Pacing::Off as u32 => Some("not paced".to_owned()),
        None => None,
    }
}

fn bits_per_second(bytes_per_second: u64) -> String {
    format!("{} Mbit/s", (bytes_per_second as f64 * 8e-3).round() / 1e3)
}
