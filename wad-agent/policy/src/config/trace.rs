//! Reads one `[[trace]]`: which flows are traced, what of them, and to which file.

use std::{
    collections::HashSet,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use ipnet::IpNet;
use toml::de::DeValue;
use wad_common::process::COMMAND_BYTES;
use wad_instruments::STANDARD;
use wad_toolbox::{nearest::nearest, whole_file};

use super::{
    CgroupPattern, Host, Sink, SinkKind, cgroup,
    fault::{Fault, Problems, Span, quoted},
    keys::{
        Key,
        LeftOut::{Means, Refused, Value},
        Takes::{Integer, Size, Switch, Text, Time, Words},
        key,
    },
    prefix, quantity,
    table::{self, Located, Table},
    unread::Unread,
    user,
};
use crate::derived::Derived;

pub const TABLE: &str = "trace";

/// Most traces: each has metrics of its own, and threads.
pub const MAX_TRACES: usize = 8;

pub const KEYS: &[Key] = &[
    key("name").takes(
        Text("1 to 63 letters, digits, `-` and `_`"),
        Refused,
        "shown in metrics and the log",
    ),
    key("file").takes(
        Text("an absolute path"),
        Refused,
        "where lines are written; the trace before it becomes FILE.1",
    ),
    key("paths").takes(Text("names of paths"), Means("all"), "paths whose connections are traced"),
    key("remote").takes(
        Text("an address or a prefix, or a list of them"),
        Means("any"),
        "the other ends whose connections are traced",
    ),
    key("user").takes(
        Text("the name of a user, or its number"),
        Means("any"),
        "the user whose connections are traced",
    ),
    key("cgroup").takes(
        Text("the path of a cgroup, with `*` and `?` in names"),
        Means("any"),
        "the cgroups whose connections are traced, with those within",
    ),
    key("unit").takes(
        Text("the name of a unit, with `*` and `?`"),
        Means("any"),
        "the unit of systemd whose connections are traced",
    ),
    key("process").takes(
        Text("the name of a command, at most 15 octets, or a list of them"),
        Means("any"),
        "the processes whose connections are traced",
    ),
    key("container").takes(
        Text("the name of a container in its pod, its identifier or how that begins, or a list"),
        Means("any"),
        "the containers whose connections are traced",
    ),
    key("pod").takes(
        Text("the name of a pod, `NAMESPACE/NAME` or its UID, or a list of them"),
        Means("any"),
        "the pods whose connections are traced",
    ),
    key("namespace").takes(
        Text("the name of a namespace of Kubernetes, or a list of them"),
        Means("any"),
        "the namespaces of pods whose connections are traced",
    ),
    key("instruments").takes(
        Text("names of [instruments](instruments.md) and derived events"),
        Means("windows, RTT, octets and retransmissions"),
        "what is written of each connection",
    ),
    key("fields").takes(
        Text("members of the kernel's `struct tcp_sock`"),
        Means("none"),
        "what is written beside the instruments",
    ),
    key("interval").takes(Time(INTERVALS), Value("\"100ms\""), "between two readings"),
    key("format").takes(Words(&["json", "csv"]), Value("\"json\""), "how lines are written"),
    key("zstd").takes(Switch, Value("false"), "pack them with zstd"),
    key("max_bytes").takes(
        Size(MIN_FILE_BYTES..=i64::MAX as u64),
        Value("\"64MiB\""),
        "begin another file when this one would be larger",
    ),
    key("keep").takes(
        Integer(KEPT, "files"),
        Value("8"),
        "files that are kept: FILE, and the older FILE.1, FILE.2 and so on",
    ),
];

/// Between two readings.
pub const INTERVALS: RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(3600);
pub const INTERVALS_IN_WORDS: &str = "10ms to 1h";
const INTERVAL: Duration = Duration::from_millis(100);

/// A file has room for its first line and one more.
pub const MIN_FILE_BYTES: u64 = 64 << 10;
pub const MAX_FILE_BYTES: u64 = 64 << 20;
pub const KEPT: RangeInclusive<u64> = 1..=1000;
pub const KEEP: u32 = 8;

/// Flows that are traced, what is written of them, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// 1 to 63 letters, digits, - and _; unique.
    pub name: String,
    /// An absolute path; unique.
    pub file: PathBuf,
    /// The paths by name; none for all.
    pub paths: Vec<String>,
    /// The other ends; none for any.
    pub remote: Vec<IpNet>,
    pub user: Option<u32>,
    pub cgroup: Option<CgroupPattern>,
    /// The names of commands; none for any.
    pub processes: Vec<String>,
    /// The names of containers in their pods, identifiers, or how these begin.
    pub containers: Vec<String>,
    /// The names of pods, with the namespace before a slash or without, or their UIDs.
    pub pods: Vec<String>,
    /// The namespaces of Kubernetes.
    pub namespaces: Vec<String>,
    /// The names of instruments; none for the usual ones.
    pub instruments: Vec<String>,
    /// Members of `struct tcp_sock`.
    pub fields: Vec<String>,
    pub interval: Duration,
    pub format: TraceFormat,
    pub is_packed: bool,
    pub max_bytes: u64,
    /// Files, with the one that is written.
    pub keep: u32,
}

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    Json,
    Csv,
}

/// Where things stand of which only the whole file tells whether they are right.
pub struct Site {
    name: Span,
    file: Span,
    /// The places of the paths, in their order.
    paths: Vec<Span>,
    /// The places of the instruments, in their order.
    instruments: Vec<Span>,
}

/// Reads a trace; None without a name or a file.
pub fn read(table: &Table<'_>, host: &Host, problems: &mut Problems) -> Option<(Trace, Site)> {
    table.require("name", problems, "add name = \"tokyo\", or how it is to show in metrics");
    table.require("file", problems, "add file = \"/var/log/wad/tokyo.jsonl\"");
    let name = table.read("name", problems, |value| table::short_name(value, "trace"));
    let file = table.read("file", problems, |value| table::absolute(table::text(value)?));
    let (paths, path_places) = texts(table, "paths", problems, |text| Ok(text.to_owned()));
    let (remote, _) = texts(table, "remote", problems, prefix::parse);
    let (instruments, instrument_places) =
        texts(table, "instruments", problems, |text| Ok(text.to_owned()));
    let (fields, _) = texts(table, "fields", problems, parse_field);
    let interval = table.read("interval", problems, |value| {
        quantity::duration(table::text(value)?, INTERVALS, INTERVALS_IN_WORDS)
    });
    let format = table.read("format", problems, parse_format);
    let is_packed = table.read("zstd", problems, table::boolean);
    let sizes = MIN_FILE_BYTES..=i64::MAX as u64;
    let max_bytes = table.read("max_bytes", problems, |value| quantity::size(value, sizes));
    let keep = table.read("keep", problems, |value| table::integer(value, KEPT, "files"));
    let user = user::read(table, host, problems);
    let cgroup = cgroup::read_pattern(table, problems);
    let (processes, _) = texts(table, "process", problems, parse_process);
    let [(containers, _), (pods, _), (namespaces, _)] = ["container", "pod", "namespace"]
        .map(|key| texts(table, key, problems, |text| parse_name(key, text)));
    let (name, file) = (name?, file?);
    let site =
        Site { name: name.at, file: file.at, paths: path_places, instruments: instrument_places };
    let trace = Trace {
        name: name.value,
        file: file.value,
        paths,
        remote,
        user,
        cgroup,
        processes,
        containers,
        pods,
        namespaces,
        instruments,
        fields,
        interval: interval.map_or(INTERVAL, |interval| interval.value),
        format: format.map_or(TraceFormat::Json, |format| format.value),
        is_packed: is_packed.is_some_and(|is_packed| is_packed.value),
        max_bytes: max_bytes.map_or(MAX_FILE_BYTES, |bytes| bytes.value),
        // In range, hence whole.
        keep: keep.map_or(KEEP, |keep| keep.value as u32),
    };
    Some((trace, site))
}

/// Returns the values of a list of texts, and their places.
fn texts<T>(
    table: &Table<'_>,
    key: &str,
    problems: &mut Problems,
    parse: impl Fn(&str) -> Result<T, Fault>,
) -> (Vec<T>, Vec<Span>) {
    let values = table.read_list(key, problems, |value| parse(table::text(value)?));
    values.unwrap_or_default().into_iter().map(|Located { value, at }| (value, at)).unzip()
}

/// Holds what a trace is judged by beside itself.
pub struct Rest<'c> {
    pub sinks: &'c [Sink],
    pub derived: &'c Derived,
    /// The names of the paths.
    pub paths: HashSet<&'c str>,
    pub unread_paths: &'c Unread,
}

/// Checks what only shows once all of the file is read.
pub fn check(traces: &[Trace], sites: &[Site], rest: &Rest<'_>, problems: &mut Problems) {
    if let Some(site) = sites.get(MAX_TRACES) {
        let title = format!("{} traces", sites.len());
        problems.push(Fault::new(title, format!("at most {MAX_TRACES}")).at(site.name));
    }
    for (index, (trace, site)) in traces.iter().zip(sites).enumerate() {
        let (before, places) = (&traces[..index], &sites[..index]);
        if let Some(other) = before.iter().position(|other| other.name == trace.name) {
            let fault = Fault::new("two traces have the same name", "the second");
            let fault = fault.help("rename one of them").at(site.name);
            problems.push(fault.also(places[other].name, "the first"));
        }
        if let Some(other) = before.iter().position(|other| meet(other, trace)) {
            let title = "two traces write to the same file, or one to what the other one keeps";
            let fault = Fault::new(title, "the second");
            let fault = fault.help("give each a `file` of its own").at(site.file);
            problems.push(fault.also(places[other].file, "the first"));
        }
        let is_of_sink = |sink: &Sink| match &sink.kind {
            SinkKind::File(file) => file.path == trace.file,
            _ => false,
        };
        if let Some(sink) = rest.sinks.iter().find(|sink| is_of_sink(sink)) {
            let title = format!("the sink {} writes to this file, too", quoted(&sink.name));
            let fault = Fault::new(title, "holds events");
            problems.push(fault.help("give each a file of its own").at(site.file));
        }
        for (path, at) in trace.paths.iter().zip(&site.paths) {
            if !rest.paths.contains(path.as_str()) && !rest.unread_paths.may_have(path) {
                let title = format!("no path is called {}", quoted(path));
                let fault = Fault::new(title, "nothing to trace");
                problems.push(fault.help("write the `name` of a [[path]]").at(*at));
            }
        }
        for (name, at) in trace.instruments.iter().zip(&site.instruments) {
            if let Some(fault) = unknown(name, rest.derived) {
                problems.push(fault.at(*at));
            }
        }
    }
}

/// Whether one writes to a file of the other.
fn meet(one: &Trace, other: &Trace) -> bool {
    let has = |one: &Trace, file: &Path| {
        let is_older = |number| whole_file::beside(&one.file, &format!(".{number}")) == file;
        one.file == file || (1..one.keep).any(is_older)
    };
    has(one, &other.file) || has(other, &one.file)
}

/// Returns the fault of a name that no instrument has.
fn unknown(name: &str, derived: &Derived) -> Option<Fault> {
    let standard = STANDARD.iter().map(|instrument| instrument.name);
    let known = || standard.clone().chain(derived.0.iter().map(|known| known.name.as_str()));
    if known().any(|known| known == name) {
        return None;
    }
    let fault = Fault::new(format!("no instrument is called {}", quoted(name)), "not known here");
    Some(
        fault.help(match nearest(name, known()) {
            Some(known) => format!("did you mean `{known}`?"),
            None => {
                "`wad flows --instruments` lists them; a member of `struct tcp_sock` goes with \
                 `fields`"
                    .to_owned()
            }
        }),
    )
}

fn parse_format(value: &DeValue<'_>) -> Result<TraceFormat, Fault> {
    match table::text(value)? {
        "json" => Ok(TraceFormat::Json),
        "csv" => Ok(TraceFormat::Csv),
        other => Err(Fault::new(
            format!("{} is no format", quoted(other)),
            "it takes \"json\" or \"csv\"",
        )),
    }
}

/// Reads a name; which of them this kernel has, the agent finds out.
fn parse_field(name: &str) -> Result<String, Fault> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.[]".contains(c);
    if (1..=128).contains(&name.len()) && name.chars().all(fits) {
        return Ok(name.to_owned());
    }
    let title = format!("{} is no member of `struct tcp_sock`", quoted(name));
    Err(Fault::new(title, "no name").help("write it as \"snd_wl1\" or \"rtt_min.s[0].v\""))
}

/// The kernel keeps a final zero among them.
const MOST_OF_COMMAND: usize = COMMAND_BYTES - 1;

fn parse_process(name: &str) -> Result<String, Fault> {
    if name.len() <= MOST_OF_COMMAND {
        return parse_name("process", name);
    }
    let title = format!("{} is longer than the name of a command", quoted(name));
    let (kept, _) = name.split_at(name.floor_char_boundary(MOST_OF_COMMAND));
    let help = format!("the kernel keeps {MOST_OF_COMMAND} octets of it: write {}", quoted(kept));
    Err(Fault::new(title, "fits none").help(help))
}

fn parse_name(key: &str, name: &str) -> Result<String, Fault> {
    if !name.is_empty() {
        return Ok(name.to_owned());
    }
    let help = format!("without `{key}` the connections of any are traced");
    Err(Fault::new("no name is empty", "fits none").help(help))
}
