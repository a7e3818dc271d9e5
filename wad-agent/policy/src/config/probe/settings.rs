//! Reads which tool a task runs, and its settings.

use std::{
    num::{NonZeroU8, NonZeroU16},
    ops::RangeInclusive,
    path::PathBuf,
    time::Duration,
};

use toml::de::DeValue;
use wad_toolbox::url::Url;

use super::{
    super::{
        access,
        fault::{Fault, Problems, quoted},
        keys::{
            Key,
            LeftOut::{Means, Value},
            Takes::{Integer, Size, Switch, Text, Time, Words},
            key,
        },
        quantity,
        source::{check_use, read_time},
        table::{self, Table},
    },
    tool::{Echo, Echoes, Iperf3Settings, PSchedulerTest, ProbeTool},
};

/// The words of `tool`.
pub const WORDS: &[&str] =
    &["rtt", "path-mtu", "bandwidth", "ping", "iperf3", "command", "pscheduler"];
const ECHOES: &[&str] = &["icmp", "udp", "tcp"];
const TESTS: &[&str] = &["throughput", "rtt", "latency"];

/// The port that `answer` has in all examples, and that of iperf3.
const PORT: u16 = 4824;
const IPERF3_PORT: u16 = 5201;
const PORTS: RangeInclusive<u64> = 1..=65_535;
const COUNTS: RangeInclusive<u64> = 1..=10_000;
const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);
/// An echo has a message of its own, and is no larger than a jumbo frame takes.
const PAYLOADS: RangeInclusive<u64> = 64..=8_900;
const PACKETS: RangeInclusive<u64> = 1_280..=65_535;
const TIMES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(600);
const STREAMS: RangeInclusive<u64> = 1..=128;
const MEMORY_BYTES: RangeInclusive<u64> = 16 << 20..=16 << 30;

pub const PORT_KEY: Key = key("port").takes(
    Integer(PORTS, ""),
    Means("`4824`, which `answer` has in examples; of `\"iperf3\"` `5201`"),
    "where `answer` of the other end is, or iperf3; not of echoes by ICMP",
);
pub const ECHO_KEY: Key = key("echo").takes(
    Words(ECHOES),
    Value("\"icmp\""),
    "of `\"rtt\"` and `\"path-mtu\"`: who sends echoes back, the other end's kernel or its `wad`; \
     over TCP there is no path MTU",
);
pub const COUNT_KEY: Key = key("count").takes(
    Integer(COUNTS, "echoes"),
    Value("20"),
    "of `\"rtt\"`, `\"ping\"`, and `\"rtt\"` and `\"latency\"` of a pScheduler: echoes of a run",
);
pub const INTERVAL_KEY: Key = key("interval").takes(
    Time(INTERVALS),
    Value("\"100ms\""),
    "of `\"rtt\"` and `\"ping\"`: from one echo to the next",
);
pub const SIZE_KEY: Key = key("size").takes(
    Size(PAYLOADS),
    Value("64"),
    "of `\"rtt\"` and `\"ping\"`: bytes of an echo, without headers",
);
pub const MAX_PACKET_KEY: Key = key("max_packet").takes(
    Size(PACKETS),
    Value("9000"),
    "of `\"path-mtu\"`: no larger packet is tried",
);
pub const TIME_KEY: Key = key("time").takes(
    Time(TIMES),
    Value("\"10s\""),
    "of `\"iperf3\"`, and `\"throughput\"` of a pScheduler: the length of a transfer",
);
pub const STREAMS_KEY: Key = key("streams").takes(
    Integer(STREAMS, "connections"),
    Value("1"),
    "of `\"iperf3\"`: connections side by side",
);
pub const REVERSE_KEY: Key =
    key("reverse").takes(Switch, Value("false"), "of `\"iperf3\"`: the server sends");
pub const UDP_RATE_KEY: Key = key("udp_rate").takes(
    Text("a rate, as `\"100Mbit\"`"),
    Means("TCP"),
    "of `\"iperf3\"`: datagrams at this rate for each stream",
);
pub const CONGESTION_KEY: Key = key("congestion").takes(
    Text("the name of an algorithm"),
    Means("the host's"),
    "of `\"iperf3\"`: the congestion control of its connections",
);
pub const COMMAND_KEY: Key = key("command").takes(
    Text("a list: the absolute path of a program, and its arguments"),
    Means("refused with `\"command\"`"),
    "of `\"command\"`: what measures, and prints [JSON](../probe.md#a-command)",
);
pub const MEMORY_KEY: Key = key("memory").takes(
    Size(MEMORY_BYTES),
    Value("\"256MiB\""),
    "of `\"command\"`: most address space of each of its processes",
);
pub const URL_KEY: Key = key("url").takes(
    Text("`http://` or `https://`"),
    Means("refused with `\"pscheduler\"`"),
    "of `\"pscheduler\"`: the server, as `\"https://ps.example.org/pscheduler\"`; keys from \
     `token_file` on are for it",
);
pub const TEST_KEY: Key = key("test").takes(
    Words(TESTS),
    Value("\"throughput\""),
    "of `\"pscheduler\"`: what its host measures",
);

/// The keys of all tools.
pub const ALL: [Key; 15] = [
    PORT_KEY,
    ECHO_KEY,
    COUNT_KEY,
    INTERVAL_KEY,
    SIZE_KEY,
    MAX_PACKET_KEY,
    TIME_KEY,
    STREAMS_KEY,
    REVERSE_KEY,
    UDP_RATE_KEY,
    CONGESTION_KEY,
    COMMAND_KEY,
    MEMORY_KEY,
    URL_KEY,
    TEST_KEY,
];

/// Reports the keys that are of other tools.
fn check_keys(table: &Table<'_>, tool: &str, own: &[&str], problems: &mut Problems) {
    let others = ALL.into_iter().map(|key| key.name).filter(|name| !own.contains(name));
    check_use(table, tool, &[&others.collect::<Vec<_>>()], problems);
    if !own.contains(&"url") {
        check_use(table, tool, &[&access::NAMES], problems);
    }
}

/// Reads the tool; None where it is missing or wrong.
pub fn read(table: &Table<'_>, problems: &mut Problems) -> Option<ProbeTool> {
    table.require("tool", problems, "add tool = \"rtt\", or another one");
    let word = table.read("tool", problems, |value| {
        let word = table::text(value)?;
        WORDS.iter().copied().find(|known| *known == word).ok_or_else(|| {
            let known: Vec<_> = WORDS.iter().map(|word| format!("\"{word}\"")).collect();
            let label = format!("it takes {}", known.join(", "));
            Fault::new(format!("{} is no tool", quoted(word)), label)
        })
    });
    match word?.value {
        "rtt" => {
            check_keys(table, "rtt", &["port", "echo", "count", "interval", "size"], problems);
            let echo = read_echo(table, problems);
            Some(ProbeTool::Rtt { echo, echoes: read_echoes(table, problems) })
        }
        "path-mtu" => {
            check_keys(table, "path-mtu", &["port", "echo", "max_packet"], problems);
            let echo = read_echo(table, problems);
            if let (Echo::Tcp { .. }, Some(at)) = (echo, table.place("echo")) {
                let fault = Fault::new("TCP does not show the path MTU", "it makes packets itself");
                problems.push(fault.help("write \"icmp\" or \"udp\"").at(at));
            }
            let most = table.read("max_packet", problems, |value| quantity::size(value, PACKETS));
            // In range, hence whole.
            let most_bytes = most.map_or(9_000, |most| most.value as u16);
            Some(ProbeTool::PathMtu { echo, most_bytes })
        }
        "bandwidth" => {
            check_keys(table, "bandwidth", &["port"], problems);
            Some(ProbeTool::Bandwidth { port: read_port(table, PORT, problems) })
        }
        "ping" => {
            check_keys(table, "ping", &["count", "interval", "size"], problems);
            Some(ProbeTool::Ping { echoes: read_echoes(table, problems) })
        }
        "iperf3" => Some(ProbeTool::Iperf3(read_iperf3(table, problems))),
        "command" => read_command(table, problems),
        _ => read_pscheduler(table, problems),
    }
}

fn read_echo(table: &Table<'_>, problems: &mut Problems) -> Echo {
    let port = read_port(table, PORT, problems);
    let echo = table.read("echo", problems, |value| match table::text(value)? {
        "icmp" => Ok(Echo::Icmp),
        "udp" => Ok(Echo::Udp { port }),
        "tcp" => Ok(Echo::Tcp { port }),
        other => {
            let title = format!("nobody sends {} back", quoted(other));
            Err(Fault::new(title, "it takes \"icmp\", \"udp\" or \"tcp\""))
        }
    });
    let echo = echo.map_or(Echo::Icmp, |echo| echo.value);
    if echo == Echo::Icmp {
        check_use(table, "an echo by ICMP", &[&["port"]], problems);
    }
    echo
}

fn read_echoes(table: &Table<'_>, problems: &mut Problems) -> Echoes {
    let interval = read_time(table, "interval", INTERVALS, "10ms to 1min", problems);
    let size = table.read("size", problems, |value| quantity::size(value, PAYLOADS));
    Echoes {
        count: read_count(table, problems),
        interval: interval.unwrap_or(Duration::from_millis(100)),
        // In range, hence whole.
        payload_bytes: size.map_or(64, |size| size.value as u16),
    }
}

fn read_count(table: &Table<'_>, problems: &mut Problems) -> NonZeroU16 {
    const USUAL: NonZeroU16 = NonZeroU16::new(20).expect("it is not 0");
    let count = table.read("count", problems, |value| table::integer(value, COUNTS, "echoes"));
    // In range, hence whole, and not 0.
    count.and_then(|count| NonZeroU16::new(count.value as u16)).unwrap_or(USUAL)
}

fn read_port(table: &Table<'_>, usual: u16, problems: &mut Problems) -> u16 {
    let parse = |value: &DeValue<'_>| table::integer(value, PORTS, "");
    // In range, hence whole.
    table.read("port", problems, parse).map_or(usual, |port| port.value as u16)
}

fn read_transfer_time(table: &Table<'_>, problems: &mut Problems) -> Duration {
    let time = read_time(table, "time", TIMES, "1s to 10min", problems);
    time.unwrap_or(Duration::from_secs(10))
}

fn read_iperf3(table: &Table<'_>, problems: &mut Problems) -> Iperf3Settings {
    let own = ["port", "time", "streams", "reverse", "udp_rate", "congestion"];
    check_keys(table, "iperf3", &own, problems);
    let streams =
        table.read("streams", problems, |value| table::integer(value, STREAMS, "connections"));
    let reverse = table.read("reverse", problems, table::boolean);
    let udp_rate = table.read("udp_rate", problems, |value| {
        // Saturates.
        quantity::bits_per_second(table::text(value)?).map(|rate| (rate as u64).max(1))
    });
    let congestion = table.read("congestion", problems, parse_algorithm);
    if let (Some(_), Some(congestion)) = (&udp_rate, &congestion) {
        let fault = Fault::new("`congestion` has no effect beside `udp_rate`", "UDP has none");
        problems.push(fault.help("leave one out").at(congestion.at));
    }
    Iperf3Settings {
        port: read_port(table, IPERF3_PORT, problems),
        time: read_transfer_time(table, problems),
        // In range, hence whole, and not 0.
        streams: streams
            .and_then(|streams| NonZeroU8::new(streams.value as u8))
            .unwrap_or(NonZeroU8::MIN),
        is_reverse: reverse.is_some_and(|reverse| reverse.value),
        udp_bits_per_second: udp_rate.map(|rate| rate.value),
        congestion: congestion.map(|congestion| congestion.value),
    }
}

/// Reads a name; which the host has, iperf3 finds out.
fn parse_algorithm(value: &DeValue<'_>) -> Result<String, Fault> {
    let name = table::text(value)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if (1..=15).contains(&name.len()) && name.chars().all(fits) {
        return Ok(name.to_owned());
    }
    Err(Fault::new(format!("{} is no algorithm", quoted(name)), "as `cubic` or `bbr`"))
}

fn read_command(table: &Table<'_>, problems: &mut Problems) -> Option<ProbeTool> {
    check_keys(table, "a command", &["command", "memory"], problems);
    table.require("command", problems, "add command = [\"/PATH/OF/PROGRAM\", \"ARGUMENT\"]");
    let words = table.read_list("command", problems, |value| {
        let word = table::text(value)?;
        if word.contains('\0') {
            return Err(Fault::new("a word of a command ends at a zero", "has one within"));
        }
        Ok(word.to_owned())
    });
    let memory = table.read("memory", problems, |value| quantity::size(value, MEMORY_BYTES));
    let mut words = words?.into_iter();
    let first = words.next()?;
    let program: PathBuf = match table::absolute(&first.value) {
        Ok(program) => program,
        Err(fault) => {
            problems.push(fault.help("no PATH is searched").at(first.at));
            return None;
        }
    };
    Some(ProbeTool::Command {
        program,
        arguments: words.map(|word| word.value).collect(),
        memory_bytes: memory.map_or(256 << 20, |memory| memory.value),
    })
}

fn read_pscheduler(table: &Table<'_>, problems: &mut Problems) -> Option<ProbeTool> {
    check_keys(table, "pscheduler", &["url", "test", "time", "count"], problems);
    table.require("url", problems, "add url = \"https://HOST/pscheduler\"");
    let url = table.read("url", problems, |value| Ok(Url::parse(table::text(value)?)?));
    let access = Box::new(access::read(table, url.as_ref(), problems));
    let time = read_transfer_time(table, problems);
    let count = read_count(table, problems);
    let test = table.read("test", problems, |value| match table::text(value)? {
        "throughput" => Ok(PSchedulerTest::Throughput { time }),
        "rtt" => Ok(PSchedulerTest::Rtt { count }),
        "latency" => Ok(PSchedulerTest::Latency { count }),
        other => {
            let title = format!("{} is no test", quoted(other));
            Err(Fault::new(title, "it takes \"throughput\", \"rtt\" or \"latency\""))
        }
    });
    let test = test.map_or(PSchedulerTest::Throughput { time }, |test| test.value);
    let idle = if matches!(test, PSchedulerTest::Throughput { .. }) { "count" } else { "time" };
    check_use(table, "this test", &[&[idle]], problems);
    Some(ProbeTool::PScheduler { url: url?.value, access, test })
}
