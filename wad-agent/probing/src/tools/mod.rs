//! The tools that measure a path: ours, and real ones that run beside us.
//!
//! A tool is a plain struct of valid settings. It needs no privilege, sends no more than it
//! is let to, and is over when its future is dropped, with all that it began.

mod answerer;
mod datagrams;
mod echoes;
mod error;
mod estimate;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod headers;
mod helpers;
mod message;
mod path_mtu;
mod pscheduler;
mod ramp;
mod session;
mod socket;
mod tcp_info;
mod train;
mod transfer;

use std::{net::IpAddr, num::NonZeroU16, path::PathBuf, time::Duration};

use tokio::time::timeout;
use wad_policy::config::{Echo, Iperf3Settings, PSchedulerTest};
use wad_toolbox::{access::Access, url::Url};

#[cfg(feature = "fuzz")]
pub use self::pscheduler::fuzz as fuzz_pscheduler;
pub use self::{
    answerer::{Answerer, AnswererError, Terms},
    error::ToolError,
    helpers::{HelperError, command::Document},
    pscheduler::PSchedulerError,
};
use crate::measurement::Measurement;

/// A target is the other end of a path, and the bounds of a run.
#[derive(Clone, Debug)]
pub struct Target {
    /// As the task names it.
    pub host: String,
    pub address: IpAddr,
    /// The device that packets leave by; None for the route's.
    pub interface: Option<String>,
    /// Packets carry this mark (`SO_MARK`), which takes CAP_NET_ADMIN; None for none.
    pub mark: Option<u32>,
    /// A run is ended after so long.
    pub deadline: Duration,
    /// All that a run may send and receive.
    pub max_bytes: u64,
}

/// A tool, with its settings. Bytes of a user's own program are its own affair, which is
/// told its bound; those that a pScheduler sends do not pass this host.
#[derive(Clone, Debug, PartialEq)]
pub enum Tool {
    Rtt(Rtt),
    PathMtu(PathMtu),
    Bandwidth(Transfer),
    /// The ping of iputils.
    Ping(Ping),
    /// The client of iperf3, versions 3.12 and later. A run keeps to its bytes by a bound on
    /// the rate.
    Iperf3(Iperf3Settings),
    /// A program of the user's own.
    Command(Command),
    /// A server of perfSONAR, whose host measures.
    PScheduler(Box<PScheduler>),
}

/// Echoes: round trip times, losses, and what comes out of order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rtt {
    pub by: Echo,
    pub count: NonZeroU16,
    /// From one to the next.
    pub interval: Duration,
    /// Bytes of each behind its headers; those of our own message at least.
    pub payload_bytes: u16,
    /// The last one is waited for so long.
    pub wait: Duration,
}

/// A transfer to an [`Answerer`] that ends as soon as the kernel's BBR knows the bandwidth,
/// or at a bound: of bytes it is the target's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub port: u16,
    /// It takes no longer.
    pub time: Duration,
}

/// The largest packet that the path carries whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathMtu {
    /// TCP cannot tell.
    pub by: Echo,
    /// No larger packet is tried.
    pub most_bytes: u16,
    /// An answer is waited for so long at first.
    pub wait: Duration,
}

/// The settings of ping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ping {
    pub count: NonZeroU16,
    /// From one to the next.
    pub interval: Duration,
    /// Bytes of each behind its headers; with fewer than 16 there is no time.
    pub payload_bytes: u16,
    /// The last one is waited for so long.
    pub wait: Duration,
}

/// The settings of a user's own program. It finds its target in variables of its
/// environment (`WAD_PROBE_HOST`, `WAD_PROBE_ADDRESS`, `WAD_PROBE_SECONDS`,
/// `WAD_PROBE_MAX_BYTES`, and, where they are set, `WAD_PROBE_INTERFACE` and
/// `WAD_PROBE_MARK`), and prints a [`Document`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// Address space of each of its processes.
    pub memory_bytes: u64,
}

/// A task for a pScheduler server, from its host to the target, which it knows by the name
/// that the task has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PScheduler {
    /// Such as `https://ps.example.org/pscheduler`.
    pub url: Url,
    pub access: Access,
    pub test: PSchedulerTest,
}

impl Tool {
    /// Returns the most bytes that a run may send and receive, headers of IP included.
    #[must_use]
    pub fn most_bytes(&self, to: &Target) -> u64 {
        match self {
            Self::Rtt(rtt) => rtt.most_bytes(to.address.is_ipv6()),
            Self::Ping(ping) => ping.most_bytes(to.address.is_ipv6()),
            Self::PathMtu(path_mtu) => path_mtu.most_bytes(),
            Self::Bandwidth(_) | Self::Iperf3(_) | Self::Command(_) | Self::PScheduler(_) => {
                to.max_bytes
            }
        }
    }
}

/// Measures by a tool.
///
/// # Errors
/// When nothing was found out; what [`ToolError::ending`] tells of it is its row's.
pub async fn run(tool: &Tool, to: &Target) -> Result<Measurement, ToolError> {
    let most = tool.most_bytes(to);
    if most > to.max_bytes {
        return Err(ToolError::Budget { needed: most, max_bytes: to.max_bytes });
    }
    let measured = async {
        match tool {
            Tool::Rtt(rtt) => echoes::run(rtt, to).await,
            Tool::PathMtu(path_mtu) => path_mtu::run(path_mtu, to).await,
            Tool::Bandwidth(transfer) => transfer::run(transfer, to).await,
            Tool::Ping(ping) => Ok(helpers::ping::run(ping, to).await?),
            Tool::Iperf3(iperf3) => Ok(helpers::iperf3::run(iperf3, to).await?),
            Tool::Command(command) => Ok(helpers::command::run(command, to).await?),
            Tool::PScheduler(asked) => Ok(pscheduler::run(asked, to).await?),
        }
    };
    let late = |_| ToolError::TimedOut { deadline: to.deadline };
    timeout(to.deadline, measured).await.map_err(late)?
}
