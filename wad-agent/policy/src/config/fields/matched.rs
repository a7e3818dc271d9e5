//! These fields say which flows a path is for, and whether they get anything.

use wad_common::ports::PortRange;

use crate::config::{
    field::{Checked, Field, Kind},
    pods::PODS,
    ports,
    user::RANGE as USERS,
};

const PORT: Field = Field {
    kind: Kind::Other {
        takes: "a port, a range such as \"50000-51000\", or a list of them",
        range: "1 to 65535; 0 for any",
    },
    default: "any",
    ..Field::NONE
};

pub const USER: Field = Field {
    key: "user",
    kind: Kind::Other { takes: "the name of a user, or its number", range: USERS },
    default: "any",
    doc: "The user that the socket belongs to; of paths on one prefix, those with more of user, \
          cgroup, mark and interface go first.",
    check: Some(Checked::words(|path| path.user.map(|user| format!("user {user}")))),
    ..Field::NONE
};

const PREFIXES: Kind =
    Kind::Other { takes: "an address or a prefix, or a list of them", range: "" };

pub const MODE: Field = Field {
    key: "mode",
    kind: Kind::Word { words: &["static", "measured", "observe"], unless: "is no mode" },
    default: "\"static\"",
    doc: "Whether the values are those of the file, whether \"auto\" follows what is measured, or \
          whether connections are only counted.",
    check: Some(
        Checked::words(|path| path.observe.then(|| "only observed".to_owned()))
            .after("override_setsockopt"),
    ),
    ..Field::NONE
};

pub const MATCHED: &[Field] = &[
    Field {
        key: "name",
        kind: Kind::Other { takes: "text", range: "1 to 63 bytes" },
        default: "required",
        doc: "The name that logs and metrics have for the path.",
        ..Field::NONE
    },
    Field {
        key: "remote",
        alias: Some("dst_addr"),
        kind: PREFIXES,
        default: "required, but with `remote_set` or `remote_name`",
        doc: "The address or prefix of the other end; the longest that fits wins.",
        ..Field::NONE
    },
    Field {
        key: "remote_set",
        kind: Kind::Other { takes: "the name of a [[set]], or a list of them", range: "" },
        default: "none",
        doc: "The lists whose prefixes are meant, beside those of `remote`.",
        check: Some(Checked::words(|path| path.origin.remote_sets_words())),
        ..Field::NONE
    },
    Field {
        key: "remote_name",
        kind: Kind::Other { takes: "the name of a host, or a list of them", range: "" },
        default: "none",
        doc: "The hosts whose addresses are meant, which are looked up again and again.",
        check: Some(Checked::words(|path| path.origin.remote_names_words())),
        ..Field::NONE
    },
    Field {
        key: "local",
        alias: Some("src_addr"),
        kind: PREFIXES,
        default: "any",
        doc: "The address or prefix of this host.",
        ..Field::NONE
    },
    Field {
        key: "remote_port",
        alias: Some("dst_port"),
        doc: "The ports of the other end; of paths on one prefix, that with the fewest ports wins.",
        read: |field, table, problems, path| {
            path.remote_ports = ports::read(table, field.key, problems);
        },
        check: Some(Checked::words(|path| shown("remote", &path.remote_ports))),
        ..PORT
    },
    Field {
        key: "local_port",
        alias: Some("src_port"),
        doc: "The ports of this host.",
        read: |field, table, problems, path| {
            path.local_ports = ports::read(table, field.key, problems);
        },
        check: Some(Checked::words(|path| shown("local", &path.local_ports))),
        ..PORT
    },
    USER,
    Field {
        key: "cgroup",
        kind: Kind::Other { takes: "the path of a cgroup, with * and ? in names", range: "" },
        default: "any",
        doc: "The cgroups that sockets are of, with those within: as `system.slice/globus.service`.",
        check: Some(Checked::words(|path| path.cgroup.as_ref().map(ToString::to_string))),
        ..Field::NONE
    },
    Field {
        key: "unit",
        kind: Kind::Other { takes: "the name of a unit, with * and ?", range: "" },
        default: "any",
        doc: "The unit of systemd that sockets are of: the cgroups of that name.",
        ..Field::NONE
    },
    Field {
        key: PODS,
        kind: Kind::Other {
            takes: "a table with `namespace`, the name of one, and `labels`, values by their \
                    names, or one of the two",
            range: "",
        },
        default: "any",
        doc: "The pods of Kubernetes that sockets are of, on this node: those that have all of it.",
        ..Field::NONE
    },
    Field {
        key: "mark",
        kind: Kind::Other {
            takes: "a mark, or one with a mask such as \"0x10/0xff\"",
            range: "32 bits",
        },
        default: "any",
        doc: "The mark that sockets have (SO_MARK), as `ip rule` writes it.",
        check: Some(Checked::words(|path| path.mark.map(|mark| mark.to_string()))),
        ..Field::NONE
    },
    Field {
        key: "interface",
        kind: Kind::Other {
            takes: "the name of an interface, or how names begin, with a * behind",
            range: "",
        },
        default: "any",
        doc: "The interface that packets leave by, as the connection is made or accepted: the device \
              of its route.",
        check: Some(Checked::words(|path| path.interface.map(|pattern| pattern.to_string()))),
        ..Field::NONE
    },
    MODE,
    Field {
        key: "inherit",
        kind: Kind::Other { takes: "the name of another path", range: "" },
        default: "nothing",
        doc: "The path whose fields this one has as well, but for those that say which flows it \
              is for, and `allow`; its own come first.",
        ..Field::NONE
    },
];

/// Returns the ports in words; None for any.
fn shown(end: &str, ranges: &[PortRange]) -> Option<String> {
    let one = match ranges {
        [] => return None,
        [range] => range.count() == 1,
        _ => false,
    };
    let ranges: Vec<_> = ranges.iter().map(PortRange::to_string).collect();
    Some(format!("{end} port{} {}", if one { "" } else { "s" }, ranges.join(", ")))
}
