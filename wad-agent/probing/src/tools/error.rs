//! Errors say why a run has no result.

use std::{io, net::IpAddr, num::NonZeroU16, time::Duration};

use wad_toolbox::{amounts::Bytes, causes::told};

use super::{helpers::HelperError, message::MessageError, pscheduler::PSchedulerError};
use crate::row::Ending;

#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    #[error(
        "a run can take {} and its task allows {} (max_bytes): take fewer or smaller packets",
        Bytes(*needed), Bytes(*max_bytes)
    )]
    Budget { needed: u64, max_bytes: u64 },
    #[error(
        "no group of this process is within net.ipv4.ping_group_range ({range}), so it cannot \
         send ICMP echoes: widen that, or take the echo of an answerer (udp)"
    )]
    PingForbidden { range: String },
    #[error("cannot set {option} of a socket to {address}")]
    Option { option: &'static str, address: IpAddr, source: io::Error },
    #[error("cannot open a socket to {address}")]
    Socket { address: IpAddr, source: io::Error },
    #[error("cannot send to {address}")]
    Send { address: IpAddr, source: io::Error },
    #[error("cannot connect to the answerer {address}, port {port}")]
    Connect { address: IpAddr, port: u16, source: io::Error },
    #[error("the connection to the answerer {address} broke off")]
    Broken { address: IpAddr, source: io::Error },
    #[error("{address} speaks another language than an answerer")]
    Language { address: IpAddr, source: MessageError },
    #[error("the answerer {address} refuses: {reason}")]
    Refused { address: IpAddr, reason: &'static str },
    #[error("{address} sent none of {count} echoes back")]
    Silent { address: IpAddr, count: NonZeroU16, source: Option<io::Error> },
    #[error("the transfer to {address} delivered nothing")]
    NothingDelivered { address: IpAddr },
    #[error("the path MTU is measured by icmp or udp: tcp takes packets apart itself")]
    NoMtuOverTcp,
    #[error(transparent)]
    PScheduler(#[from] PSchedulerError),
    #[error(transparent)]
    Helper(#[from] HelperError),
    #[error("no result within {} s (timeout)", deadline.as_secs_f64())]
    TimedOut { deadline: Duration },
}

impl ToolError {
    /// Returns how the run's period ended.
    #[must_use]
    pub fn ending(&self) -> Ending {
        match self {
            Self::Budget { .. }
            | Self::PingForbidden { .. }
            | Self::NoMtuOverTcp
            | Self::PScheduler(PSchedulerError::Refused { .. })
            | Self::Refused { .. } => Ending::Refused(told(self)),
            Self::Helper(HelperError::Refused { .. } | HelperError::Mark { .. }) => {
                Ending::Refused(told(self))
            }
            Self::Helper(HelperError::Flood { .. }) => Ending::Killed(told(self)),
            Self::TimedOut { .. } => Ending::TimedOut,
            _ => Ending::Failed(told(self)),
        }
    }
}
