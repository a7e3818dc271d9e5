//! The tables of a file, for the reference in the book; but not that of a path, whose
//! fields have a table of their own.

use super::{
    agent, api, derived, experiment, host_changes, keys::Key, kubernetes, learn, limits, log,
    metrics, otlp, page, path_guards, peers, probe, set, sink, source, trace,
};

/// A table that a file may have.
pub struct ReferenceTable {
    pub name: &'static str,
    /// Whether there may be more of it.
    pub is_array: bool,
    pub keys: &'static [Key],
}

/// These tables, in the order of the reference.
pub const TABLES: &[ReferenceTable] = &[
    one(agent::TABLE, agent::KEYS),
    one(metrics::TABLE, metrics::KEYS),
    one(limits::TABLE, limits::KEYS),
    one(learn::TABLE, learn::KEYS),
    one(path_guards::TABLE, path_guards::KEYS),
    one(log::TABLE, log::KEYS),
    one(api::TABLE, api::KEYS),
    one(page::TABLE, page::KEYS),
    one(otlp::TABLE, otlp::KEYS),
    one(kubernetes::TABLE, kubernetes::KEYS),
    one(host_changes::TABLE, host_changes::KEYS),
    many(source::TABLE, source::KEYS),
    many(set::TABLE, set::KEYS),
    many(sink::TABLE, sink::KEYS),
    many(trace::TABLE, trace::KEYS),
    many(derived::TABLE, derived::KEYS),
    one(probe::TABLE, probe::KEYS),
    many(probe::TASK_TABLE, probe::TASK_KEYS),
    one(peers::TABLE, peers::KEYS),
    many(peers::PEER_TABLE, peers::PEER_KEYS),
    one(peers::CONSENT_TABLE, peers::CONSENT_KEYS),
    one(experiment::TABLE, experiment::KEYS),
];

const fn one(name: &'static str, keys: &'static [Key]) -> ReferenceTable {
    ReferenceTable { name, is_array: false, keys }
}

const fn many(name: &'static str, keys: &'static [Key]) -> ReferenceTable {
    ReferenceTable { name, is_array: true, keys }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            Config,
            keys::{LeftOut, Takes},
            testing::host,
        },
        *,
    };

    /// A file that a key of the table may be added to at the end.
    fn base(table: &ReferenceTable, key: &str) -> String {
        let rest = match (table.name, key) {
            ("source", _) => {
                "name = \"s\"\nkind = \"prometheus\"\nurl = \"http://127.0.0.1:1\"\nrtt = \"x\"\n"
            }
            ("set", "timeout" | "max_response") => "name = \"s\"\nurl = \"http://127.0.0.1:1\"\n",
            ("set", _) => "name = \"s\"\nfile = \"/x\"\n",
            ("sink", "max_size" | "keep") => "name = \"s\"\nkind = \"file\"\npath = \"/x\"\n",
            ("sink", "timeout") => "name = \"s\"\nkind = \"http\"\nurl = \"http://127.0.0.1:1\"\n",
            ("sink", _) => "name = \"s\"\nkind = \"stdout\"\n",
            ("trace", _) => "name = \"t\"\nfile = \"/x\"\n",
            ("page", _) => "listen = \"127.0.0.1:1\"\n",
            ("otlp", _) => "url = \"http://127.0.0.1:1\"\n",
            ("probe", key) if key.starts_with("answer_") => {
                "answer = \"[::]:4824\"\nanswer_to = \"::1\"\n"
            }
            ("probe.task", key) => {
                let tool = match key {
                    "echo" | "count" | "interval" | "size" => "rtt",
                    "max_packet" => "path-mtu",
                    "time" | "streams" | "reverse" => "iperf3",
                    "memory" => "command\"\ncommand = \"/x",
                    "test" => "pscheduler\"\nurl = \"http://127.0.0.1:1/pscheduler",
                    _ => "bandwidth",
                };
                return format!(
                    "[[probe.task]]\nname = \"t\"\ntool = \"{tool}\"\nhost = \"h\"\nevery = \"1h\"\n"
                );
            }
            ("peer" | "peer.consent", _) => {
                let of_consent = if table.name == "peer" { "" } else { "[peer.consent]\n" };
                return format!(
                    "[peers]\nlisten = \"[::]:4825\"\ncertificate = \"/c\"\nkey = \"/k\"\nca = \"/a\"\n\
                     [[peer]]\nname = \"p\"\nidentity = \"wad://p\"\n{of_consent}"
                );
            }
            ("path.experiment", _) => {
                return "[[path]]\nname = \"p\"\nremote = \"::1\"\n[path.experiment]\n".to_owned();
            }
            ("derived", _) => "name = \"S\"\nvalue = \"SegsOut\"\nabove = 1\n",
            _ => "",
        };
        if table.is_array {
            format!("[[{}]]\n{rest}", table.name)
        } else {
            format!("[{}]\n{rest}", table.name)
        }
    }

    fn read(text: &str) -> Config {
        Config::parse("file", text, &host()).unwrap_or_else(|error| panic!("{text}\n{error}"))
    }

    #[test]
    fn what_is_left_out_is_as_the_reference_says() {
        let mut checked = 0;
        for table in TABLES {
            for key in table.keys {
                let Some(LeftOut::Value(value)) = key.doc.as_ref().map(|doc| &doc.left_out) else {
                    continue;
                };
                let base = base(table, key.name);
                let written = format!("{base}{} = {value}\n", key.name);
                assert_eq!(read(&written), read(&base), "{written}");
                checked += 1;
            }
        }
        assert!(checked > 10, "{checked}");
    }

    #[test]
    fn each_word_of_the_reference_is_taken() {
        for table in TABLES {
            for key in table.keys.iter().filter(|key| !["kind", "tool"].contains(&key.name)) {
                let Some(Takes::Words(words)) = key.doc.as_ref().map(|doc| &doc.takes) else {
                    continue;
                };
                for word in *words {
                    read(&format!("{}{} = \"{word}\"\n", base(table, key.name), key.name));
                }
            }
        }
    }

    /// Keys that a kind needs are missing: that is another error.
    #[test]
    fn each_kind_of_the_reference_is_known() {
        for table in TABLES {
            let kind = table.keys.iter().find(|key| key.name == "kind");
            let Some(Takes::Words(kinds)) = kind.and_then(|key| key.doc.as_ref()).map(|d| &d.takes)
            else {
                continue;
            };
            for kind in kinds.iter().copied().chain(["unheard-of"]) {
                let text = format!("[[{}]]\nname = \"s\"\nkind = \"{kind}\"\n", table.name);
                let told = Config::parse("file", &text, &host());
                let told = told.err().map(|error| error.to_string()).unwrap_or_default();
                assert_eq!(told.contains("no kind of"), kind == "unheard-of", "{told}");
            }
        }
    }

    #[test]
    fn each_key_is_told_of() {
        for table in TABLES {
            for key in table.keys {
                let doc = key.doc.as_ref().unwrap_or_else(|| panic!("{} has none", key.name));
                assert!(!doc.about.is_empty() && !doc.about.ends_with('.'), "{}", key.name);
                assert!(!doc.about.contains("  "), "{}", doc.about);
            }
        }
    }
}
