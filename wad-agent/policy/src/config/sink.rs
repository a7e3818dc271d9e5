//! Reads one `[[sink]]`: where events of flows are told.

use std::{
    collections::HashSet,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use toml::de::DeValue;
use wad_toolbox::{access::Access, url::Url};

use super::{
    access,
    fault::{Fault, Problems, Span, quoted},
    keys::{
        Key,
        LeftOut::{Means, Refused, Value},
        Takes::{Integer, Size, Text, Time, Words},
        key,
    },
    quantity,
    source::check_use,
    table::{self, Table},
};
use crate::event_name::EventName;

pub const TABLE: &str = "sink";

/// Most sinks: each has metrics of its own, and a thread.
pub const MAX_SINKS: usize = 8;

pub const KEYS: &[Key] = &[
    key("name").takes(
        Text("1 to 63 letters, digits, `-` and `_`"),
        Refused,
        "shown in metrics and the log, and the folder of its spool",
    ),
    key("kind").takes(
        Words(&["stdout", "file", "syslog", "journald", "http"]),
        Refused,
        "what takes the events; `\"journald\"` by its native protocol, with `WAD_EVENT=`",
    ),
    key("events").takes(Text("[names of events](events.md)"), Means("all"), "those that it takes"),
    key("spool_max").takes(
        Size(FILE_BYTES),
        Value("\"64MiB\""),
        "most that waits for it on the disk",
    ),
    key("path").takes(
        Text("an absolute path"),
        Means("`/dev/log` of `\"syslog\"`, `/run/systemd/journal/socket` of `\"journald\"`"),
        "the file, which is required; of `\"syslog\"` and `\"journald\"` their socket",
    ),
    key("max_size").takes(
        Size(FILE_BYTES),
        Value("\"64MiB\""),
        "of a file: when it is renamed to `PATH.1`",
    ),
    key("keep").takes(
        Integer(KEPT, "files"),
        Value("5"),
        "of a file: how many of the renamed ones are kept",
    ),
    key("url").takes(
        Text("`http://` or `https://`"),
        Means("refused, of `\"http\"`"),
        "of `\"http\"`: where lines are sent by POST",
    ),
    access::TOKEN_FILE,
    access::USERNAME,
    access::PASSWORD_FILE,
    access::HEADERS,
    access::CA_FILE,
    access::CLIENT_CERTIFICATE,
    access::CLIENT_KEY,
    access::PROXY,
    key("timeout").takes(Time(TIMEOUTS), Value("\"10s\""), "of `\"http\"`: for a request"),
];

const MIB: u64 = 1 << 20;
/// Bytes that a sink may leave on the disk, as a file or in its spool.
const FILE_BYTES: RangeInclusive<u64> = MIB..=MIB << 16;
const KEPT: RangeInclusive<u64> = 1..=1000;
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(300);

const SPOOL_MAX_BYTES: u64 = 64 * MIB;
const MAX_FILE_BYTES: u64 = 64 * MIB;
const KEEP: u32 = 5;
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where syslog daemons listen (syslog(3)).
const SYSLOG_SOCKET: &str = "/dev/log";
/// The socket of the native protocol of systemd-journald.
const JOURNALD_SOCKET: &str = "/run/systemd/journal/socket";

#[derive(Clone, Debug, PartialEq)]
pub struct Sink {
    /// 1 to 63 letters, digits, - and _; unique.
    pub name: String,
    pub kind: SinkKind,
    /// Events that it takes; at least one.
    pub events: Vec<EventName>,
    /// Bytes that it may leave on the disk while it is away.
    pub spool_max_bytes: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SinkKind {
    Stdout,
    File(LogFile),
    Syslog { socket: PathBuf },
    Journald { socket: PathBuf },
    Http(Box<Collector>),
}

impl SinkKind {
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::File(_) => "file",
            Self::Syslog { .. } => "syslog",
            Self::Journald { .. } => "journald",
            Self::Http(_) => "http",
        }
    }
}

/// A file that is renamed when it is full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    pub path: PathBuf,
    pub max_bytes: u64,
    /// Full ones that are kept.
    pub keep: u32,
}

/// A service that takes JSON lines by POST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    pub url: Url,
    pub access: Access,
    /// Time for one request, from the name look-up to the last byte.
    pub timeout: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Stdout,
    File,
    Syslog,
    Journald,
    Http,
}

impl Asked {
    fn parse(value: &DeValue<'_>) -> Result<Self, Fault> {
        match table::text(value)? {
            "stdout" => Ok(Self::Stdout),
            "file" => Ok(Self::File),
            "syslog" => Ok(Self::Syslog),
            "journald" => Ok(Self::Journald),
            "http" => Ok(Self::Http),
            other => {
                let title = format!("{} is no kind of sink", quoted(other));
                let label = "it takes \"stdout\", \"file\", \"syslog\", \"journald\" or \"http\"";
                Err(Fault::new(title, label))
            }
        }
    }

    /// Returns the kind's name with its article, and the keys that others have.
    const fn others(self) -> (&'static str, &'static [&'static [&'static str]]) {
        const FILE: &[&str] = &["max_size", "keep"];
        const HTTP: &[&str] = &["url", "timeout"];
        const ACCESS: &[&str] = &access::NAMES;
        match self {
            Self::Stdout => ("a stdout sink", &[&["path"], FILE, HTTP, ACCESS]),
            Self::File => ("a file sink", &[HTTP, ACCESS]),
            Self::Syslog => ("a syslog sink", &[FILE, HTTP, ACCESS]),
            Self::Journald => ("a journald sink", &[FILE, HTTP, ACCESS]),
            Self::Http => ("an http sink", &[&["path"], FILE]),
        }
    }
}

/// Reads a sink, and where its name stands.
pub fn read(table: &Table<'_>, problems: &mut Problems) -> Option<(Sink, Span)> {
    table.require("name", problems, "add name = \"archive\", or how it is to show in metrics");
    let help = "add kind = \"stdout\", \"file\", \"syslog\", \"journald\" or \"http\"";
    table.require("kind", problems, help);
    // It is the name of a folder, too.
    let name = table.read("name", problems, |value| table::short_name(value, "sink"));
    let events = table.read_list("events", problems, parse_event);
    let events = events.map(|events| events.into_iter().map(|event| event.value).collect());
    let spool_max = table.read("spool_max", problems, |value| quantity::size(value, FILE_BYTES));
    let asked = table.read("kind", problems, Asked::parse)?.value;
    let (what, keys) = asked.others();
    check_use(table, what, keys, problems);
    let path = table.read_file("path", problems);
    let kind = match asked {
        Asked::Stdout => Some(SinkKind::Stdout),
        Asked::File => read_log_file(table, path, problems).map(SinkKind::File),
        Asked::Syslog => {
            let socket = path.unwrap_or_else(|| Path::new(SYSLOG_SOCKET).to_owned());
            Some(SinkKind::Syslog { socket })
        }
        Asked::Journald => {
            let socket = path.unwrap_or_else(|| Path::new(JOURNALD_SOCKET).to_owned());
            Some(SinkKind::Journald { socket })
        }
        Asked::Http => {
            read_collector(table, problems).map(|collector| SinkKind::Http(Box::new(collector)))
        }
    };
    let (kind, name) = (kind?, name?);
    let sink = Sink {
        name: name.value,
        kind,
        events: events.unwrap_or_else(|| EventName::ALL.to_vec()),
        spool_max_bytes: spool_max.map_or(SPOOL_MAX_BYTES, |size| size.value),
    };
    Some((sink, name.at))
}

/// Checks what only shows with all of them.
pub fn check(sinks: &[Sink], names: &[Span], problems: &mut Problems) {
    if let Some(at) = names.get(MAX_SINKS) {
        let title = format!("{} sinks", names.len());
        problems.push(Fault::new(title, format!("at most {MAX_SINKS}")).at(*at));
    }
    let (mut seen, mut files) = (HashSet::new(), HashSet::new());
    for (sink, at) in sinks.iter().zip(names) {
        if !seen.insert(sink.name.as_str()) {
            let fault = Fault::new("two sinks have the same name", "not for the first time");
            problems.push(fault.help("rename one of them").at(*at));
        }
        if let SinkKind::File(file) = &sink.kind
            && !files.insert(file.path.as_path())
        {
            let fault = Fault::new("two sinks write to the same file", "not for the first time");
            problems.push(fault.help("give each a `path` of its own").at(*at));
        }
    }
}

fn read_log_file(
    table: &Table<'_>,
    path: Option<PathBuf>,
    problems: &mut Problems,
) -> Option<LogFile> {
    table.require("path", problems, "add path = \"/var/log/wad/events.jsonl\"");
    let max_size = table.read("max_size", problems, |value| quantity::size(value, FILE_BYTES));
    let keep = table.read("keep", problems, |value| table::integer(value, KEPT, "files"));
    Some(LogFile {
        path: path?,
        max_bytes: max_size.map_or(MAX_FILE_BYTES, |size| size.value),
        // In range, hence whole.
        keep: keep.map_or(KEEP, |keep| keep.value as u32),
    })
}

fn read_collector(table: &Table<'_>, problems: &mut Problems) -> Option<Collector> {
    table.require("url", problems, "add url = \"https://HOST:PORT/PATH\"");
    let url = table.read("url", problems, |value| Ok(Url::parse(table::text(value)?)?));
    let timeout = table.read("timeout", problems, |value| {
        quantity::duration(table::text(value)?, TIMEOUTS, "100ms to 5min")
    });
    let access = access::read(table, url.as_ref(), problems);
    Some(Collector {
        url: url?.value,
        access,
        timeout: timeout.map_or(TIMEOUT, |timeout| timeout.value),
    })
}

fn parse_event(value: &DeValue<'_>) -> Result<EventName, Fault> {
    let text = table::text(value)?;
    EventName::ALL.into_iter().find(|event| event.label() == text).ok_or_else(|| {
        let known = EventName::ALL.map(EventName::label).join(", ");
        Fault::new(format!("{} is no event", quoted(text)), "none that is told")
            .help(format!("it takes {known}"))
    })
}
