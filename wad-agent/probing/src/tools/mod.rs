//! The tools that measure a path: ours, and real ones that run beside us.
//!
//! A tool is a plain struct of valid settings. It needs no privilege, sends no more than it
//! is let to, and is over when its future is dropped, with all that it began.

mod answerer;
mod datagrams;
mod echoes;
mod error;
mod estimate;
mod message;
mod session;
mod socket;
mod tcp_info;
mod train;
mod transfer;

use std::{net::IpAddr, num::NonZeroU16, time::Duration};

use tokio::time::timeout;

pub use self::{
    answerer::{Answerer, AnswererError, Terms},
    error::ToolError,
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

/// A tool, with its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum Tool {
    Rtt(Rtt),
    Bandwidth(Transfer),
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

/// Who sends echoes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// The other host's kernel (RFC 792, RFC 4443).
    Icmp,
    /// An [`Answerer`] at this port, over UDP.
    Udp { port: u16 },
    /// An [`Answerer`] at this port, over TCP, which hides what is lost and out of order.
    Tcp { port: u16 },
}

/// A transfer to an [`Answerer`] that ends as soon as the kernel's BBR knows the bandwidth,
/// or at a bound: of bytes it is the target's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub port: u16,
    /// It takes no longer.
    pub time: Duration,
}

impl Tool {
    /// Returns the most bytes that a run may send and receive, headers of IP included.
    #[must_use]
    pub fn most_bytes(&self, to: &Target) -> u64 {
        match self {
            Self::Rtt(rtt) => rtt.most_bytes(to.address.is_ipv6()),
            Self::Bandwidth(_) => to.max_bytes,
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
            Tool::Bandwidth(transfer) => transfer::run(transfer, to).await,
        }
    };
    let late = |_| ToolError::TimedOut { deadline: to.deadline };
    timeout(to.deadline, measured).await.map_err(late)?
}
