//! Reads `[probe]`, and in it each `[[probe.task]]`: paths are measured by this host itself.

mod check;
mod locks;
mod settings;
mod task;
mod tool;

use std::{net::SocketAddr, ops::RangeInclusive, time::Duration};

use ipnet::IpNet;

pub use self::{
    check::{check, check_peers},
    locks::{Hold, LONGEST_RESERVED_RUN, Resource, ResourceLocks},
    task::{Family, KEYS as TASK_KEYS, ProbeTask, Site, TABLE as TASK_TABLE, read as read_task},
    tool::{Echo, Echoes, Iperf3Settings, PSchedulerTest, ProbeTool},
};
use super::{
    fault::{Fault, Problems},
    keys::{
        Key,
        LeftOut::{Means, Value},
        Takes::{Integer, Size, Text, Time},
        key,
    },
    listen, prefix, quantity,
    source::read_time,
    table::{self, Table},
};

pub const TABLE: &str = "probe";

pub const KEYS: &[Key] = &[
    key("keep").takes(Time(AGES), Value("\"90d\""), "results that are older are removed"),
    key("max_archive").takes(
        Size(ARCHIVE_BYTES),
        Value("\"64MiB\""),
        "most bytes of the archive of results: beyond it, the oldest are removed",
    ),
    key("max_bytes_per_day").takes(
        Size(1..=i64::MAX as u64),
        Means("no bound"),
        "most bytes that all tasks together may send and receive in a day: tasks that could take \
         more are refused",
    ),
    key("listen").takes(
        Text("an address and a port"),
        Means("the Unix socket only"),
        "where results may be asked for over HTTP, as metrics and as JSON",
    ),
    key("answer").takes(
        Text("an address and a port"),
        Means("nobody is answered"),
        "where echoes and transfers of other hosts are answered, over UDP and TCP",
    ),
    key("answer_to").takes(
        Text("an address or a prefix, or a list of them"),
        Means("refused beside `answer`"),
        "the hosts that are answered",
    ),
    key("answer_transfers").takes(
        Integer(TRANSFERS, "transfers"),
        Value("1"),
        "most transfers of others at a time: a further one is refused",
    ),
    key("answer_max_bytes").takes(
        Size(TRANSFER_BYTES),
        Value("\"4GiB\""),
        "most bytes that such a transfer may send",
    ),
    key("answer_timeout").takes(Time(TRANSFER_TIMES), Value("\"1min\""), "it may take so long"),
    key("task").takes(
        Text("tables"),
        Means("nothing is measured"),
        "what is measured, each in a table `[[probe.task]]`",
    ),
];

const DAY: Duration = Duration::from_secs(86_400);

const AGES: RangeInclusive<Duration> = Duration::from_secs(3_600)..=DAY.saturating_mul(3_650);
const ARCHIVE_BYTES: RangeInclusive<u64> = 1 << 20..=64 << 30;
const TRANSFERS: RangeInclusive<u64> = 1..=64;
const TRANSFER_BYTES: RangeInclusive<u64> = 1 << 16..=1 << 40;
const TRANSFER_TIMES: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(3_600);

/// Paths that this host measures, and what it keeps of that.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// Results that are older are removed.
    pub keep: Duration,
    pub max_archive_bytes: u64,
    /// All tasks together may take so much; None for any.
    pub max_bytes_per_day: Option<u64>,
    /// Where results are served over HTTP; None where they are not.
    pub listen: Option<SocketAddr>,
    /// Other hosts are answered so; None where none is.
    pub answer: Option<Answering>,
    pub tasks: Vec<ProbeTask>,
}

/// The hosts that are answered, and what they may take.
#[derive(Clone, Debug, PartialEq)]
pub struct Answering {
    pub address: SocketAddr,
    pub to: Vec<IpNet>,
    /// Transfers at a time.
    pub transfers: usize,
    /// The most of one transfer.
    pub max_bytes: u64,
    pub timeout: Duration,
}

impl Default for Probe {
    fn default() -> Self {
        Self {
            keep: DAY * 90,
            max_archive_bytes: 64 << 20,
            max_bytes_per_day: None,
            listen: None,
            answer: None,
            tasks: Vec::new(),
        }
    }
}

impl Probe {
    /// Returns the most bytes that all tasks together take in a day.
    pub fn bytes_per_day(&self) -> u64 {
        self.tasks.iter().fold(0, |sum, task| sum.saturating_add(task.bytes_per_day()))
    }
}

impl ProbeTask {
    /// Returns the most bytes that the task takes in a day.
    pub fn bytes_per_day(&self) -> u64 {
        let runs = DAY.as_nanos().div_ceil(self.every.as_nanos());
        u64::try_from(u128::from(self.max_bytes).saturating_mul(runs)).unwrap_or(u64::MAX)
    }
}

/// Reads the table, but for its tasks.
pub fn read(table: &Table<'_>, problems: &mut Problems) -> Probe {
    let usual = Probe::default();
    let keep = read_time(table, "keep", AGES, "1h to 3650d", problems);
    let size = |key, range, problems: &mut Problems| {
        let size = table.read(key, problems, |value| quantity::size(value, range));
        size.map(|size| size.value)
    };
    let max_archive_bytes = size("max_archive", ARCHIVE_BYTES, problems);
    let max_bytes_per_day = size("max_bytes_per_day", 1..=i64::MAX as u64, problems);
    let listen = table.read("listen", problems, |value| listen::listen(table::text(value)?, 9466));
    Probe {
        keep: keep.unwrap_or(usual.keep),
        max_archive_bytes: max_archive_bytes.unwrap_or(usual.max_archive_bytes),
        max_bytes_per_day,
        listen: listen.map(|listen| listen.value),
        answer: read_answering(table, problems),
        tasks: Vec::new(),
    }
}

/// Says whether the table has more than tasks.
pub fn has_own_keys(table: &Table<'_>) -> bool {
    KEYS.iter().any(|key| key.name != "task" && table.has(key.name))
}

fn read_answering(table: &Table<'_>, problems: &mut Problems) -> Option<Answering> {
    let address = table.read("answer", problems, |value| listen::listen(table::text(value)?, 4824));
    if table.has("answer") {
        let help = "add answer_to = [\"192.0.2.0/24\"], the hosts that may ask";
        table.require("answer_to", problems, help);
    }
    let to = table.read_list("answer_to", problems, |value| prefix::parse(table::text(value)?));
    let transfers = table
        .read("answer_transfers", problems, |value| table::integer(value, TRANSFERS, "transfers"));
    let max_bytes =
        table.read("answer_max_bytes", problems, |value| quantity::size(value, TRANSFER_BYTES));
    let timeout = read_time(table, "answer_timeout", TRANSFER_TIMES, "1s to 1h", problems);
    if !table.has("answer") {
        for key in ["answer_to", "answer_transfers", "answer_max_bytes", "answer_timeout"] {
            if let Some(at) = table.place(key) {
                let fault = Fault::new(format!("`{key}` without `answer`"), "nobody is answered");
                problems.push(fault.help("add answer = \"[::]:4824\", or leave it out").at(at));
            }
        }
    }
    Some(Answering {
        address: address?.value,
        to: to?.into_iter().map(|to| to.value).collect(),
        // In range, hence whole.
        transfers: transfers.map_or(1, |transfers| transfers.value as usize),
        max_bytes: max_bytes.map_or(4 << 30, |bytes| bytes.value),
        timeout: timeout.unwrap_or(Duration::from_secs(60)),
    })
}
