//! A run of a tool finds this out about a path.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A measurement is what one run found out. What its tool cannot tell is None.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    pub rtt: Option<RoundTrips>,
    /// The packets that never came, of those sent.
    pub loss: Option<Share>,
    /// The packets that came after a later one, of those that came (RFC 4737, 3.3).
    pub reordering: Option<Share>,
    /// Bytes of the largest IP packet that gets through whole.
    pub path_mtu_bytes: Option<u32>,
    pub bandwidth: Option<Bandwidth>,
    /// All that the run sent and received, with headers where they are known.
    pub spent_bytes: u64,
}

/// Round trip times, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundTrips {
    pub samples: u32,
    pub min_seconds: f64,
    pub median_seconds: f64,
    pub max_seconds: f64,
}

impl RoundTrips {
    /// Returns those of samples in seconds; None where there is none.
    #[must_use]
    pub fn of(mut seconds: Vec<f64>) -> Option<Self> {
        seconds.sort_by(f64::total_cmp);
        let (first, last) = (*seconds.first()?, *seconds.last()?);
        Some(Self {
            samples: u32::try_from(seconds.len()).unwrap_or(u32::MAX),
            min_seconds: first,
            median_seconds: seconds[seconds.len() / 2],
            max_seconds: last,
        })
    }
}

/// A share of a count that says how far it can be trusted: 0 of 10 is not 0 of 10,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    pub part: u64,
    pub whole: u64,
}

/// A bandwidth is what a transfer got of a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bandwidth {
    pub bits_per_second: f64,
    pub confidence: Confidence,
    /// The round trip time while the transfer ran.
    pub loaded_rtt: Option<RoundTrips>,
    /// The bytes that were sent again.
    pub retransmitted_bytes: Option<u64>,
    /// The sender's congestion control, such as `bbr`.
    pub congestion: Option<String>,
    pub held_up: Option<HeldUp>,
}

/// The time that a sender was busy, and what held it up, in seconds (`tcp_info` since
/// Linux 4.10).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeldUp {
    /// It had something under way.
    pub busy_seconds: f64,
    /// The receiver's window let no more in.
    pub by_receiver_seconds: f64,
    /// The send buffer held no more.
    pub by_send_buffer_seconds: f64,
}

/// A confidence says what ended or held up a transfer, so what its rate is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// The estimate stands: it would not have changed by going on.
    Converged,
    /// A bound of bytes or time came first: the path carries this or more.
    Capped,
    /// The receiver's window was the limit.
    ReceiverLimited,
    /// The sender had not always something to send: its program, or its send buffer, was
    /// the limit.
    ApplicationLimited,
}

impl Share {
    /// Returns the share as a fraction; None of nothing.
    #[must_use]
    pub fn fraction(self) -> Option<f64> {
        (self.whole > 0).then(|| self.part as f64 / self.whole as f64)
    }
}

impl Bandwidth {
    /// Tells whether the path may carry more: something else than it was the limit.
    #[must_use]
    pub fn is_least(&self) -> bool {
        self.confidence != Confidence::Converged
    }
}

impl Confidence {
    pub const ALL: [Self; 4] =
        [Self::Converged, Self::Capped, Self::ReceiverLimited, Self::ApplicationLimited];

    /// The word for it in the archive, in answers and in metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Converged => "converged",
            Self::Capped => "capped",
            Self::ReceiverLimited => "receiver-limited",
            Self::ApplicationLimited => "application-limited",
        }
    }
}
