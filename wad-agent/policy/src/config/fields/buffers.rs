//! The socket buffers of a path's flows.

use wad_common::policy::{DIVIDES, GROWS_RCVBUF, GROWS_SNDBUF, OVERRIDES};

use crate::config::{
    buffers::{MAX_BYTES, MIN_BYTES},
    fault::Fault,
    field::{Checked, Field, Kind},
    quantity,
    setting::{Setting, Value},
};

const SIZE: Field =
    Field { kind: Kind::Size { range: MIN_BYTES..=MAX_BYTES }, or: &["auto"], ..Field::NONE };

const SNDBUF: Setting =
    Setting::new("sndbuf_bytes", |in_force| Value::number(in_force.policy.sndbuf_bytes))
        .unit(" bytes");
const RCVBUF: Setting =
    Setting::new("rcvbuf_bytes", |in_force| Value::number(in_force.policy.rcvbuf_bytes))
        .unit(" bytes");

/// The fields that `divide` divides.
const DIVIDED: [&str; 5] = ["sndbuf", "rcvbuf", "max_cwnd", "dedicated", "pacing"];

pub const BUFFERS: &[Field] = &[
    Field {
        key: "sndbuf",
        doc: "The send buffer, as the argument of SO_SNDBUF, which the kernel doubles: of that \
              size from the start, or with \"auto\" up to what the path holds, with need.",
        put: |path, policy| {
            policy.sndbuf_bytes = path.sndbuf_bytes.unwrap_or(0);
            policy.flags |= flag(path.origin.buffers.sndbuf, GROWS_SNDBUF);
        },
        check: Some(Checked::column("SNDBUF", |path| number(path.sndbuf_bytes))),
        explain: Some(SNDBUF),
        paths: Some(SNDBUF.title("SNDBUF")),
        ..SIZE
    },
    Field {
        key: "rcvbuf",
        doc: "The receive buffer, as the argument of SO_RCVBUF, which the kernel doubles: of that \
              size from the start, or with \"auto\" up to what the path holds, with need.",
        put: |path, policy| {
            policy.rcvbuf_bytes = path.rcvbuf_bytes.unwrap_or(0);
            policy.flags |= flag(path.origin.buffers.rcvbuf, GROWS_RCVBUF);
        },
        check: Some(Checked::column("RCVBUF", |path| number(path.rcvbuf_bytes))),
        explain: Some(RCVBUF),
        paths: Some(RCVBUF.title("RCVBUF")),
        ..SIZE
    },
    Field {
        key: "buffers",
        kind: Kind::Other { takes: "\"autotune\"", range: "" },
        doc: "That the kernel sizes both buffers, with room for 2.5 times what the path holds: \
              the ceilings of the agent's network namespace, and of its connections', are raised \
              for it.",
        check: Some(Checked::words(|path| {
            path.autotune_bytes.map(|_| "buffers autotuned by the kernel".to_owned())
        })),
        ..Field::NONE
    },
    Field {
        key: "divide",
        kind: Kind::PapersSwitch,
        default: "false",
        doc: "Whether `sndbuf`, `rcvbuf`, `max_cwnd`, `dedicated` and a rate for `pacing` are for \
              all of the path's connections together.",
        read: |field, table, problems, path| {
            path.divide = field.switch(table, problems).unwrap_or(false);
            let at = table.place(field.key).filter(|_| path.divide);
            if let Some(at) = at.filter(|_| !DIVIDED.iter().any(|key| table.has(key))) {
                let title = "divide = true has no effect";
                let fault = Fault::new(title, "there is nothing to divide")
                    .help("add `sndbuf` and `rcvbuf`, for all flows together, or leave it out")
                    .idle();
                problems.push(fault.at(at));
            }
        },
        put: |path, policy| policy.flags |= flag(path.divide, DIVIDES),
        check: Some(Checked::words(|path| {
            path.divide.then(|| "divided among its flows".to_owned())
        })),
        explain: Some(
            Setting::new("divide", |in_force| {
                (in_force.policy.flags & DIVIDES != 0).then_some(Value::Flag(true))
            })
            .words("among the path's flows"),
        ),
        ..Field::NONE
    },
    Field {
        key: "notsent_lowat",
        kind: Kind::Size { range: MIN_BYTES..=MAX_BYTES },
        default: "as it is, by default `net.ipv4.tcp_notsent_lowat`",
        doc: "The most bytes that a socket takes before they are sent, as TCP_NOTSENT_LOWAT: less \
              waits behind what is urgent. An application that has set it keeps its own.",
        read: |field, table, problems, path| {
            let bytes = table
                .read(field.key, problems, |value| quantity::size(value, MIN_BYTES..=MAX_BYTES));
            // In range, hence whole.
            path.notsent_lowat_bytes = bytes.map(|bytes| bytes.value as u32);
        },
        put: |path, policy| policy.notsent_lowat_bytes = path.notsent_lowat_bytes.unwrap_or(0),
        check: Some(Checked::words(|path| {
            path.notsent_lowat_bytes.map(|bytes| format!("notsent_lowat {bytes} bytes"))
        })),
        explain: Some(
            Setting::new("notsent_lowat_bytes", |in_force| {
                Value::number(in_force.policy.notsent_lowat_bytes)
            })
            .unit(" bytes"),
        ),
        ..Field::NONE
    },
    Field {
        key: "override_setsockopt",
        default: "false",
        doc: "Whether buffers, `congestion`, `pacing` and `dscp` hold against what the \
              application itself sets, which sees no error.",
        read: |field, table, problems, path| {
            path.override_setsockopt = field.switch(table, problems).unwrap_or(false);
        },
        put: |path, policy| policy.flags |= flag(path.override_setsockopt, OVERRIDES),
        check: Some(Checked::words(|path| {
            path.override_setsockopt.then(|| "override_setsockopt".to_owned())
        })),
        ..Field::NONE
    },
];

fn number(bytes: Option<u32>) -> Option<String> {
    bytes.map(|bytes| bytes.to_string())
}

const fn flag(is_set: bool, flag: u32) -> u32 {
    if is_set { flag } else { 0 }
}

#[cfg(test)]
mod tests {
    use wad_common::policy::Policy;

    use crate::config::{
        Config, InForce, Origin, PathPolicy, Settings, Value, fields, testing::host,
    };

    fn path(keys: &str) -> PathPolicy {
        let text = format!("[[path]]\nname = 'p'\nremote = '10.0.0.1'\n{keys}\n");
        Config::parse("wad.toml", &text, &host()).expect("valid").paths.remove(0)
    }

    fn policy(path: &PathPolicy) -> Policy {
        let mut policy = Policy::observing([0; 64]);
        fields::all().for_each(|field| (field.put)(path, &mut policy));
        policy
    }

    #[test]
    fn the_bound_of_unsent_bytes_reaches_the_kernel_side_and_is_explained() {
        let bounded = path("notsent_lowat = '128KiB'");
        assert_eq!(bounded.notsent_lowat_bytes, Some(131_072));
        let policy_of = policy(&bounded);
        assert_eq!(policy_of.notsent_lowat_bytes, 131_072);
        let explained =
            Settings::explained(InForce { policy: &policy_of, origin: &Origin::default() });
        assert_eq!(explained.get("notsent_lowat_bytes"), Some(&Value::Whole(131_072)));
        assert_eq!(policy(&path("")), Policy::observing([0; 64]));
    }
}
