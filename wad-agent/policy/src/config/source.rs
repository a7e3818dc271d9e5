//! Reads one `[[source]]`: a service that knows what paths carry, and how it is
//! asked; or the flows themselves.

mod check;
mod prometheus;

use std::{collections::HashSet, net::IpAddr, ops::RangeInclusive, time::Duration};

use toml::de::DeValue;
use wad_toolbox::{access::Access, url::Url};

pub use self::{
    check::check,
    prometheus::{Metric, Prometheus, Query},
};
use super::{
    access,
    fault::{Fault, Problems, Span, quoted},
    keys::{
        Key,
        LeftOut::{Means, Refused, Value},
        Takes::{Size, Text, Time, Words},
        key,
    },
    path::parse_name,
    quantity,
    table::{self, Located, Table},
};

pub const TABLE: &str = "source";

pub const KEYS: &[Key] = &[
    key("name").takes(Text("1 to 63 bytes"), Refused, "shown in logs and metrics"),
    key("kind").takes(
        Words(&["prometheus", "perfsonar", "http", "passive", "probe"]),
        Refused,
        "`\"prometheus\"`, or what speaks its query API; the others are told of in \
         [measured paths](../measured-paths.md)",
    ),
    key("url").takes(
        Text("`http://` or `https://`"),
        Means(
            "refused, but of `\"passive\"`, which has none, and of `\"probe\"`: the service of \
               `[probe]` in this agent",
        ),
        "where it is asked; it may have a path",
    ),
    access::TOKEN_FILE,
    access::USERNAME,
    access::PASSWORD_FILE,
    access::HEADERS,
    access::CA_FILE,
    access::CLIENT_CERTIFICATE,
    access::CLIENT_KEY,
    access::PROXY,
    key("interval").takes(
        Time(INTERVALS),
        Value("\"30s\""),
        "between two polls, less up to a tenth; after failures doubled up to 5 minutes; of \
         `\"passive\"`, between two looks at the flows that run",
    ),
    key("timeout").takes(Time(TIMEOUTS), Value("\"10s\""), "for a request, to its last byte"),
    key("stale_after").takes(
        Time(AGES),
        Means("`\"5min\"`, or 3 intervals; of `\"probe\"` `\"1d\"`, of `\"passive\"` `\"8d\"`"),
        "a measurement older than this counts no more",
    ),
    key("max_response").takes(Size(RESPONSE_BYTES), Value("\"4MiB\""), "most bytes of an answer"),
    key("from").takes(
        Text("addresses"),
        Means("all"),
        "of `\"perfsonar\"`: hosts that measure for this one",
    ),
    key("label").takes(
        Text("a name"),
        Value("\"path\""),
        "of `\"prometheus\"`: the label of the series that says which path it is of",
    ),
    key("bandwidth").takes(
        Text("PromQL"),
        Means("not asked for; one of `bandwidth` and `rtt` is needed"),
        "of `\"prometheus\"`: what the path carries",
    ),
    key("bandwidth_unit").takes(
        Text("`\"bit/s\"`, `\"Mbit/s\"`, `\"B/s\"` and so on"),
        Means("refused beside `bandwidth`"),
        "what `bandwidth` counts in",
    ),
    key("rtt").takes(
        Text("PromQL"),
        Means("not asked for"),
        "of `\"prometheus\"`: the round trip time",
    ),
    key("rtt_unit").takes(Words(&["s", "ms", "us"]), Value("\"s\""), "what `rtt` counts in"),
    key("loss").takes(
        Text("PromQL"),
        Means("not asked for"),
        "of `\"prometheus\"`: a fraction of packets, which is shown; nothing follows from it, \
         but from [the connections](../measured-paths.md#what-connections-show-of-packets)",
    ),
    key("reordering").takes(Text("PromQL"), Means("not asked for"), "the same, of reordering"),
    key("measured_at").takes(
        Text("PromQL"),
        Means("when Prometheus took the sample"),
        "seconds since 1970: for exporters that go on showing an old measurement",
    ),
];

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

const INTERVALS: RangeInclusive<Duration> = Duration::from_secs(1)..=DAY;
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(100)..=DAY;
const AGES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(90 * 86_400);
const RESPONSE_BYTES: RangeInclusive<u64> = 1 << 10..=64 << 20;

const INTERVAL: Duration = Duration::from_secs(30);
const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_RESPONSE_BYTES: usize = 4 << 20;
/// Transfers may be a week apart, and what one got is known for the next.
const PASSIVE_STALE_AFTER: Duration = DAY.saturating_mul(8);
/// Probes spare the path: some are hours apart, and their values have the age of the run.
const PROBE_STALE_AFTER: Duration = DAY;

/// Says how a source is asked, whatever its kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// 1 to 63 bytes, printable, unique.
    pub name: String,
    pub kind: SourceKind,
    /// The URL; None where there is nobody to ask.
    pub url: Option<Url>,
    pub access: Access,
    pub interval: Duration,
    /// Time for one request, from the name look-up to the last byte.
    pub timeout: Duration,
    /// A measurement older than this counts no more.
    pub stale_after: Duration,
    pub max_response_bytes: usize,
}

/// A kind is what answers there.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceKind {
    Prometheus(Prometheus),
    PerfSonar(PerfSonar),
    /// A JSON document of a schema of ours.
    Http,
    /// The measurements of the kernel on the flows themselves.
    Passive,
    /// The probe service of another host, or of this agent where there is no URL.
    Probe,
}

impl SourceKind {
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Prometheus(_) => "prometheus",
            Self::PerfSonar(_) => "perfsonar",
            Self::Http => "http",
            Self::Passive => "passive",
            Self::Probe => "probe",
        }
    }
}

/// A service of perfSONAR, and what of it is about this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerfSonar {
    pub service: Service,
    /// The hosts that measure for this one; empty for all.
    pub from: HashSet<IpAddr>,
}

/// Told apart by where they are, which is the same on all hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Where measurements are run.
    PScheduler,
    /// Where they are kept: as esmond did, and elmond does.
    Archive,
}

impl Service {
    fn at(url: &Url) -> Option<Self> {
        match url.path.rsplit_once('/')?.1 {
            "pscheduler" => Some(Self::PScheduler),
            "archive" => Some(Self::Archive),
            _ => None,
        }
    }
}

#[derive(Clone, Copy)]
enum Asked {
    Prometheus,
    PerfSonar,
    Http,
    Passive,
    Probe,
}

/// Keys of what is asked over the network.
const SERVICE_KEYS: [&str; 3] = ["url", "timeout", "max_response"];

impl Source {
    /// Returns the source that measured paths have where the file names no source.
    pub fn passive() -> Self {
        Self {
            name: "flows".to_owned(),
            kind: SourceKind::Passive,
            url: None,
            access: Access::default(),
            interval: INTERVAL,
            timeout: TIMEOUT,
            stale_after: PASSIVE_STALE_AFTER,
            max_response_bytes: MAX_RESPONSE_BYTES,
        }
    }
}

/// Reads a source, and where its name stands.
pub fn read(table: &Table<'_>, problems: &mut Problems) -> Option<(Source, Span)> {
    table.require("name", problems, "add name = \"monitor\", or how it is to show in logs");
    let help = "add kind = \"prometheus\", \"perfsonar\", \"http\", \"probe\" or \"passive\"";
    table.require("kind", problems, help);
    let name = table.read("name", problems, |value| parse_name(table::text(value)?));
    let kind = table.read("kind", problems, |value| match table::text(value)? {
        "prometheus" => Ok(Asked::Prometheus),
        "perfsonar" => Ok(Asked::PerfSonar),
        "http" => Ok(Asked::Http),
        "passive" => Ok(Asked::Passive),
        "probe" => Ok(Asked::Probe),
        other => {
            let title = format!("{} is no kind of source", quoted(other));
            let label =
                "it takes \"prometheus\", \"perfsonar\", \"http\", \"probe\" or \"passive\"";
            Err(Fault::new(title, label))
        }
    });
    let asked = kind.as_ref().map(|kind| kind.value);
    if !matches!(asked, Some(Asked::Passive | Asked::Probe)) {
        table.require("url", problems, "add url = \"https://HOST:PORT\"");
    }
    let url = table.read("url", problems, |value| Ok(Url::parse(table::text(value)?)?));
    let interval = read_time(table, "interval", INTERVALS, "1s to 1d", problems);
    let interval = interval.unwrap_or(INTERVAL);
    let timeout = read_time(table, "timeout", TIMEOUTS, "100ms to 1d", problems);
    let stale_after = read_time(table, "stale_after", AGES, "1s to 90d", problems);
    let usual = match asked {
        Some(Asked::Passive) => PASSIVE_STALE_AFTER,
        Some(Asked::Probe) => PROBE_STALE_AFTER,
        _ => Duration::from_secs(300),
    };
    let stale_after = stale_after.unwrap_or(usual.max(interval * 3));
    if let Some(at) = table.place("stale_after").filter(|_| stale_after < interval) {
        let fault = Fault::new("`stale_after` is shorter than `interval`", "always stale");
        problems.push(fault.help("polls are `interval` apart: 30s if it is left out").at(at));
    }
    let max_response =
        table.read("max_response", problems, |value| quantity::size(value, RESPONSE_BYTES));
    let access = access::read(table, url.as_ref(), problems);
    let kind = match kind.map(|kind| kind.value) {
        Some(Asked::Http) => {
            check_use(table, "an http source", &[&prometheus::KEYS, &["from"]], problems);
            Some(SourceKind::Http)
        }
        Some(Asked::Passive) => {
            let others: [&[&str]; 4] =
                [&SERVICE_KEYS, &access::NAMES, &prometheus::KEYS, &["from"]];
            check_use(table, "a passive source", &others, problems);
            Some(SourceKind::Passive)
        }
        Some(Asked::Probe) => {
            check_use(table, "a probe source", &[&prometheus::KEYS, &["from"]], problems);
            if !table.has("url") {
                let others: [&[&str]; 2] = [&SERVICE_KEYS, &access::NAMES];
                check_use(table, "the probe service of this agent", &others, problems);
            }
            Some(SourceKind::Probe)
        }
        Some(Asked::PerfSonar) => {
            check_use(table, "a perfsonar source", &[&prometheus::KEYS], problems);
            let from = table.read_list("from", problems, parse_address);
            let from = from.unwrap_or_default().into_iter().map(|from| from.value).collect();
            let service = url.as_ref().and_then(|url| read_service(url, problems));
            service.map(|service| SourceKind::PerfSonar(PerfSonar { service, from }))
        }
        Some(Asked::Prometheus) => {
            check_use(table, "a prometheus source", &[&["from"]], problems);
            Some(SourceKind::Prometheus(prometheus::read(table, problems)))
        }
        None => None,
    };
    let kind = kind?;
    let url = match kind {
        SourceKind::Passive => None,
        // A URL that is wrong was said.
        SourceKind::Probe if !table.has("url") => None,
        _ => Some(url?),
    };
    let name = name?;
    let source = Source {
        name: name.value,
        kind,
        url: url.map(|url| url.value),
        access,
        interval,
        timeout: timeout.unwrap_or(TIMEOUT),
        stale_after,
        // In range, hence whole.
        max_response_bytes: max_response.map_or(MAX_RESPONSE_BYTES, |size| size.value as usize),
    };
    Some((source, name.at))
}

pub fn read_time(
    table: &Table<'_>,
    key: &str,
    range: RangeInclusive<Duration>,
    range_text: &str,
    problems: &mut Problems,
) -> Option<Duration> {
    let parse = |value: &DeValue<'_>| quantity::duration(table::text(value)?, range, range_text);
    table.read(key, problems, parse).map(|time| time.value)
}

/// Keys of other kinds.
pub fn check_use(table: &Table<'_>, kind: &str, keys: &[&[&str]], problems: &mut Problems) {
    for (key, at) in keys.iter().copied().flatten().filter_map(|key| Some((key, table.place(key)?)))
    {
        let fault = Fault::new(format!("`{key}` has no effect on {kind}"), "not asked for");
        problems.push(fault.help("leave it out").at(at));
    }
}

fn parse_address(value: &DeValue<'_>) -> Result<IpAddr, Fault> {
    let text = table::text(value)?;
    text.parse().map_err(|_| {
        let title = format!("{} is no address", quoted(text));
        Fault::new(title, "of the host that measures").help("names are not taken")
    })
}

fn read_service(url: &Located<Url>, problems: &mut Problems) -> Option<Service> {
    let service = Service::at(&url.value);
    if service.is_none() {
        let fault = Fault::new("no service of perfSONAR is there", "which one is meant?");
        let help = "let it end with /pscheduler, or with /esmond/perfsonar/archive";
        problems.push(fault.help(help).at(url.at));
    }
    service
}
