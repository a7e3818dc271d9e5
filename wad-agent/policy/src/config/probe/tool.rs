//! Says what a tool is set to, and what follows from that: locks, time and bytes.

use std::{num::NonZeroU8, num::NonZeroU16, path::PathBuf, time::Duration};

use wad_toolbox::{access::Access, url::Url};

use super::locks::ResourceLocks;

/// A tool, with its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum ProbeTool {
    /// Round trip time, loss and reordering, by echoes.
    Rtt { echo: Echo, echoes: Echoes },
    /// The largest packet that the path carries whole, up to so many bytes.
    PathMtu { echo: Echo, most_bytes: u16 },
    /// The bandwidth, by a transfer to the peer's port that ends when that is known.
    Bandwidth { port: u16 },
    /// The ping of iputils.
    Ping { echoes: Echoes },
    /// The client of iperf3.
    Iperf3(Iperf3Settings),
    /// A program of the user's own, with its arguments.
    Command { program: PathBuf, arguments: Vec<String>, memory_bytes: u64 },
    /// A server of perfSONAR, which measures from its host.
    PScheduler { url: Url, access: Box<Access>, test: PSchedulerTest },
}

/// How many echoes are sent, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echoes {
    pub count: NonZeroU16,
    /// From one to the next.
    pub interval: Duration,
    /// Bytes of each, behind its headers.
    pub payload_bytes: u16,
}

/// Says who sends echoes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// The other host's kernel.
    Icmp,
    /// `wad` there, over UDP.
    Udp { port: u16 },
    /// `wad` there, over TCP.
    Tcp { port: u16 },
}

/// The settings of iperf3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Iperf3Settings {
    pub port: u16,
    /// In whole seconds; what is over counts for one.
    pub time: Duration,
    pub streams: NonZeroU8,
    /// The server sends.
    pub is_reverse: bool,
    /// Datagrams at this rate for each stream; None for TCP.
    pub udp_bits_per_second: Option<u64>,
    /// The congestion control; None for the host's.
    pub congestion: Option<String>,
}

/// A test of pScheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PSchedulerTest {
    Throughput {
        time: Duration,
    },
    Rtt {
        count: NonZeroU16,
    },
    /// Losses and reordering one way.
    Latency {
        count: NonZeroU16,
    },
}

/// Headers of IPv6 and TCP with its options, which are larger than those of IPv4 and UDP.
const HEADER_BYTES: u64 = 40 + 60;
/// A transfer that is to converge gets out of its start, which takes a round trip time for
/// each doubling, and goes on for ten more.
const ROUND_TRIPS: u32 = 30;
/// The most round trip times that a path takes where nobody says: to a satellite and back.
const WAIT: Duration = Duration::from_secs(2);
/// Time for what is around a measurement: names, connections, programs that start.
const AROUND: Duration = Duration::from_secs(3);
/// Packets that a search for the path MTU sends at most, there and back.
const MTU_PACKETS: u64 = 150;

impl ProbeTool {
    /// Returns the word of the file.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Rtt { .. } => "rtt",
            Self::PathMtu { .. } => "path-mtu",
            Self::Bandwidth { .. } => "bandwidth",
            Self::Ping { .. } => "ping",
            Self::Iperf3(_) => "iperf3",
            Self::Command { .. } => "command",
            Self::PScheduler { .. } => "pscheduler",
        }
    }

    /// Returns the locks that it takes where the file does not say. What a command does,
    /// nobody knows.
    pub const fn usual_locks(&self) -> ResourceLocks {
        match self {
            Self::Rtt { .. }
            | Self::PathMtu { .. }
            | Self::Ping { .. }
            | Self::PScheduler {
                test: PSchedulerTest::Rtt { .. } | PSchedulerTest::Latency { .. },
                ..
            } => ResourceLocks::LIGHT,
            Self::Bandwidth { .. }
            | Self::Iperf3(_)
            | Self::Command { .. }
            | Self::PScheduler { test: PSchedulerTest::Throughput { .. }, .. } => {
                ResourceLocks::FILLING
            }
        }
    }

    /// Returns the time within which it is over, as long as nothing is wrong.
    pub fn usual_timeout(&self) -> Duration {
        match self {
            Self::Rtt { .. } | Self::Ping { .. } => self.least_time(WAIT) + AROUND,
            Self::Bandwidth { .. } | Self::PathMtu { .. } => Duration::from_secs(30),
            Self::Iperf3(settings) => settings.time + Duration::from_secs(15),
            Self::Command { .. } => Duration::from_secs(60),
            // It finds a time for the test, and runs it.
            Self::PScheduler { .. } => self.least_time(WAIT) + Duration::from_secs(120),
        }
    }

    /// Returns the most bytes that it takes where the file does not say.
    pub fn usual_bytes(&self) -> u64 {
        match self {
            Self::Rtt { .. } | Self::Ping { .. } | Self::PathMtu { .. } => self.least_bytes(None),
            Self::Bandwidth { .. } => 256 << 20,
            Self::Iperf3(_) | Self::Command { .. } => 1 << 30,
            // Its bytes do not pass this host; what it is asked by does.
            Self::PScheduler { .. } => 1 << 20,
        }
    }

    /// Returns the time that it needs on a path of this round trip time.
    pub fn least_time(&self, rtt: Duration) -> Duration {
        match self {
            Self::Rtt { echoes, .. } | Self::Ping { echoes } => {
                echoes.interval * u32::from(echoes.count.get() - 1) + rtt * 2
            }
            Self::PathMtu { .. } | Self::Bandwidth { .. } => rtt * ROUND_TRIPS,
            Self::Iperf3(settings) => settings.time + rtt * 4,
            Self::Command { .. } => rtt,
            Self::PScheduler { test, .. } => match test {
                PSchedulerTest::Throughput { time } => *time,
                PSchedulerTest::Rtt { count } => Duration::from_secs(count.get().into()),
                PSchedulerTest::Latency { count } => Duration::from_secs(count.get().into()) / 10,
            },
        }
    }

    /// Returns the bytes that it needs on a path that carries so much in a round trip time.
    pub fn least_bytes(&self, bdp_bytes: Option<f64>) -> u64 {
        match self {
            // There, back, and what acknowledges either.
            Self::Rtt { echoes, .. } | Self::Ping { echoes } => {
                let each = 2 * (u64::from(echoes.payload_bytes) + 2 * HEADER_BYTES);
                (u64::from(echoes.count.get()) + 4) * each
            }
            Self::PathMtu { most_bytes, .. } => MTU_PACKETS * u64::from(*most_bytes),
            // Ten round trip times at the full rate. Saturates.
            Self::Bandwidth { .. } => bdp_bytes.map_or(0, |bdp| (10.0 * bdp) as u64),
            Self::Iperf3(_) | Self::Command { .. } | Self::PScheduler { .. } => 0,
        }
    }

    /// Says whether another program does the work here.
    pub const fn is_helper(&self) -> bool {
        matches!(self, Self::Ping { .. } | Self::Iperf3(_) | Self::Command { .. })
    }

    /// Returns the time that the last answer is waited for.
    pub fn wait(rtt: Option<Duration>) -> Duration {
        rtt.map_or(WAIT, |rtt| WAIT.max(rtt * 3))
    }
}
