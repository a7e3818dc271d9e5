//! Reads one `[[probe.task]]`: what is measured, by which tool, and how often.

use std::{net::IpAddr, ops::RangeInclusive, time::Duration};

use toml::de::DeValue;

use super::{
    super::{
        access,
        fault::{Fault, Problems, Span, quoted},
        host_name, interface,
        keys::{
            Key,
            LeftOut::{Means, Refused, Value},
            Takes::{Integer, Size, Switch, Text, Time, Words},
            key,
        },
        quantity,
        source::read_time,
        table::{self, Located, Table},
    },
    locks::{self, ResourceLocks},
    settings,
    tool::ProbeTool,
};

pub const TABLE: &str = "probe.task";

pub const KEYS: &[Key] = &[
    key("name").takes(
        Text("1 to 63 letters, digits, `-` and `_`"),
        Refused,
        "shown in results, metrics and the log",
    ),
    key("tool").takes(
        Words(settings::WORDS),
        Refused,
        "what measures, see [the tools](../probe.md#tools)",
    ),
    key("path").takes(
        Text("the name of a path"),
        Means("results are of a host alone"),
        "the path that is measured",
    ),
    key("host").takes(
        Text("the name of a host, or an address"),
        Means("the path's `remote` or `remote_name`, if that is one host"),
        "the other end; a name is looked up for each run",
    ),
    key("family").takes(
        Words(&["ipv4", "ipv6"]),
        Means("the first address of the host"),
        "which of the host's addresses is measured: they may be of different paths",
    ),
    key("every").takes(Time(PERIODS), Refused, "a period, which has one run"),
    key("jitter").takes(
        Time(JITTERS),
        Means("a tenth of `every`"),
        "a run is due up to so much after its period begins, by chance",
    ),
    key("slip").takes(
        Time(SLIPS),
        Means("what `jitter` and `timeout` leave of `every`"),
        "a run may start so much later than it is due, where others are in its way",
    ),
    key("timeout").takes(
        Time(TIMEOUTS),
        Means("[what the tool needs](../probe.md#tools)"),
        "a run is ended after so long",
    ),
    key("max_bytes").takes(
        Size(BYTES),
        Means("[what the tool needs](../probe.md#tools)"),
        "most that a run sends and receives",
    ),
    key("interface").takes(
        Text("the name of an interface"),
        Means("as routes say"),
        "the interface that packets leave by",
    ),
    key("mark").takes(
        Integer(0..=u32::MAX as u64, "as a number"),
        Means("none"),
        "the mark that packets carry (`SO_MARK`), for routes and firewalls; it takes \
         CAP_NET_ADMIN",
    ),
    key("locks").takes(
        Text("a table of `host-cpu`, `interface`, `path`, `peer`, each `\"none\"`, `\"shared\"` or `\"exclusive\"`"),
        Means("those of [the tool](../probe.md#locks)"),
        "what a run has for itself, or together with others",
    ),
    key("peer").takes(
        Text("the name of a `[[peer]]`"),
        Means("nobody is asked"),
        "the other end, which has to [agree to each run](../probe.md#at-both-ends), and keeps its \
         own away from it",
    ),
    key("passive_first").takes(
        Switch,
        Value("true"),
        "a path is not measured where its own connections have shown the same within a period",
    ),
    settings::PORT_KEY,
    settings::ECHO_KEY,
    settings::COUNT_KEY,
    settings::INTERVAL_KEY,
    settings::SIZE_KEY,
    settings::MAX_PACKET_KEY,
    settings::TIME_KEY,
    settings::STREAMS_KEY,
    settings::REVERSE_KEY,
    settings::UDP_RATE_KEY,
    settings::CONGESTION_KEY,
    settings::COMMAND_KEY,
    settings::MEMORY_KEY,
    settings::URL_KEY,
    settings::TEST_KEY,
    access::TOKEN_FILE,
    access::USERNAME,
    access::PASSWORD_FILE,
    access::HEADERS,
    access::CA_FILE,
    access::CLIENT_CERTIFICATE,
    access::CLIENT_KEY,
    access::PROXY,
];

const DAY: Duration = Duration::from_secs(86_400);
const SECOND: Duration = Duration::from_secs(1);

const PERIODS: RangeInclusive<Duration> = Duration::from_secs(10)..=DAY.saturating_mul(7);
const JITTERS: RangeInclusive<Duration> = Duration::ZERO..=DAY.saturating_mul(7);
/// A host that is busy wakes up late.
const SLIPS: RangeInclusive<Duration> = SECOND..=DAY.saturating_mul(7);
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(100)..=DAY;
const BYTES: RangeInclusive<u64> = 64..=1 << 40;

/// A task that measures.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeTask {
    /// 1 to 63 letters, digits, - and _; unique.
    pub name: String,
    /// The name of a path.
    pub path: Option<String>,
    /// An address, or a name to look up.
    pub host: String,
    pub family: Option<Family>,
    pub tool: ProbeTool,
    pub every: Duration,
    pub jitter: Duration,
    pub slip: Duration,
    pub timeout: Duration,
    /// The last answer of the tool is waited for so long.
    pub wait: Duration,
    /// A run sends and receives no more.
    pub max_bytes: u64,
    pub interface: Option<String>,
    pub mark: Option<u32>,
    pub locks: ResourceLocks,
    /// The peer that agrees to each run.
    pub peer: Option<String>,
    /// No run where the path's own flows have shown the same within a period.
    pub passive_first: bool,
}

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Ipv4,
    Ipv6,
}

/// Where things stand of which only the whole file tells whether they are right.
pub struct Site {
    pub table: Span,
    pub name: Span,
    pub path: Option<Span>,
    pub host: Option<Span>,
    pub timeout: Option<Span>,
    pub max_bytes: Option<Span>,
    pub peer: Option<Span>,
}

/// Reads a task; None where it cannot be judged further. Its host may be empty, for the
/// path to say.
pub fn read(table: &Table<'_>, problems: &mut Problems) -> Option<(ProbeTask, Site)> {
    table.require("name", problems, "add name = \"tokyo-rtt\", or how it is to show");
    table.require("every", problems, "add every = \"5min\", or how often it is to run");
    if !table.has("path") && !table.has("host") {
        let fault = Fault::new("neither `path` nor `host`", "what is to be measured?");
        problems
            .push(fault.help("add path = \"tokyo\", or host = \"dtn.example.org\"").at(table.at));
    }
    let name = table.read("name", problems, |value| table::short_name(value, "task"));
    let path = table.read("path", problems, |value| Ok(table::text(value)?.to_owned()));
    let host = table.read("host", problems, |value| parse_host(table::text(value)?));
    let family = table.read("family", problems, |value| match table::text(value)? {
        "ipv4" => Ok(Family::Ipv4),
        "ipv6" => Ok(Family::Ipv6),
        other => Err(Fault::new(
            format!("{} is no family of addresses", quoted(other)),
            "it takes \"ipv4\" or \"ipv6\"",
        )),
    });
    let family = family.map(|family| family.value);
    if let Some(host) = &host {
        check_family(host, family, table, problems);
    }
    let tool = settings::read(table, problems);
    let every = read_time(table, "every", PERIODS, "10s to 7d", problems);
    let jitter = read_time(table, "jitter", JITTERS, "0s to 7d", problems);
    let slip = read_time(table, "slip", SLIPS, "1s to 7d", problems);
    let timeout = read_time(table, "timeout", TIMEOUTS, "100ms to 1d", problems);
    let max_bytes = table.read("max_bytes", problems, |value| quantity::size(value, BYTES));
    let interface = table.read("interface", problems, parse_interface);
    let mark = table.read("mark", problems, |value| {
        // In range, hence whole.
        table::integer(value, 0..=u64::from(u32::MAX), "").map(|mark| mark as u32)
    });
    let peer = table.read("peer", problems, |value| table::short_name(value, "peer"));
    let passive_first = table.read("passive_first", problems, table::boolean);
    let usual = tool.as_ref().map_or(ResourceLocks::LIGHT, ProbeTool::usual_locks);
    let locks = locks::read(table, usual, problems);
    let (name, tool, every) = (name?, tool?, every?);
    let site = Site {
        table: table.at,
        name: name.at,
        path: path.as_ref().map(|path| path.at),
        host: host.as_ref().map(|host| host.at),
        timeout: table.place("timeout"),
        max_bytes: table.place("max_bytes"),
        peer: peer.as_ref().map(|peer| peer.at),
    };
    let timeout = timeout.unwrap_or_else(|| tool.usual_timeout());
    let jitter = jitter.unwrap_or(every / 10);
    let left = every.saturating_sub(timeout).saturating_sub(jitter);
    let slip = slip.unwrap_or(left.max(SECOND));
    let task = ProbeTask {
        name: name.value,
        path: path.map(|path| path.value),
        host: host.map(|host| host.value).unwrap_or_default(),
        family,
        every,
        jitter,
        slip,
        timeout,
        wait: ProbeTool::wait(None),
        max_bytes: max_bytes.map_or_else(|| tool.usual_bytes(), |bytes| bytes.value),
        interface: interface.map(|interface| interface.value),
        mark: mark.map(|mark| mark.value),
        locks,
        peer: peer.map(|peer| peer.value),
        passive_first: passive_first.is_none_or(|first| first.value),
        tool,
    };
    check_period(&task, table, problems);
    Some((task, site))
}

/// Checks that a run is over before the next period begins, whatever holds it up.
fn check_period(task: &ProbeTask, table: &Table<'_>, problems: &mut Problems) {
    let ProbeTask { every, jitter, slip, timeout, .. } = task;
    let end = jitter.saturating_add(*slip).saturating_add(*timeout);
    let Some(at) = table.place("every").filter(|_| end > *every) else { return };
    let [every, jitter, slip, timeout] =
        [every, jitter, slip, timeout].map(|time| shown_seconds(*time));
    let label =
        format!("jitter {jitter}, slip {slip} and timeout {timeout} do not fit into {every}");
    let fault = Fault::new("a run could last into the next period", label);
    problems.push(fault.help("a longer `every`, or less of the others").at(at));
}

pub fn shown_seconds(time: Duration) -> String {
    format!("{} s", (time.as_secs_f64() * 1e3).round() / 1e3)
}

fn parse_host(text: &str) -> Result<String, Fault> {
    match text.parse::<IpAddr>() {
        Ok(address) => Ok(address.to_canonical().to_string()),
        Err(_) => host_name::parse(text),
    }
}

fn check_family(
    host: &Located<String>,
    family: Option<Family>,
    table: &Table<'_>,
    problems: &mut Problems,
) {
    let Ok(address) = host.value.parse::<IpAddr>() else { return };
    let is_v6 = family == Some(Family::Ipv6);
    if let Some(at) =
        table.place("family").filter(|_| family.is_some() && is_v6 != address.is_ipv6())
    {
        let fault = Fault::new("the host is an address of the other family", "leave this out");
        problems.push(fault.at(at).also(host.at, "the address"));
    }
}

fn parse_interface(value: &DeValue<'_>) -> Result<String, Fault> {
    let name = table::text(value)?;
    if interface::is_name(name) {
        return Ok(name.to_owned());
    }
    Err(Fault::new(format!("{} is no name of an interface", quoted(name)), "1 to 15 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each key that is read of a tool has its place in the table, and none is forgotten where
    /// those of others are refused.
    #[test]
    fn the_keys_of_tools_are_those_between_the_tasks_and_its_servers() {
        let names: Vec<_> = KEYS.iter().map(|key| key.name).collect();
        let place = |name| names.iter().position(|it| *it == name).unwrap();
        let of_tools = &names[place("passive_first") + 1..place(access::NAMES[0])];
        assert_eq!(of_tools, settings::ALL.map(|key| key.name));
    }
}
