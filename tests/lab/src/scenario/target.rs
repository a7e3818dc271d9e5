//! A target says what a scenario is to show, as figures.

use serde::{Deserialize, Serialize};

use super::Variant;

/// A demand on one variant's figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    pub variant: String,
    /// The target is for this path of the grid only, given as what the variant's name
    /// ends with there.
    pub path: Option<String>,
    pub measure: Measure,
    /// The group of flows, where the measure is of one.
    pub flow: Option<String>,
    pub at_least: Option<f64>,
    pub at_most: Option<f64>,
    /// The bounds are multiples of this variant's figure, on the same path.
    pub of: Option<String>,
    /// The bounds are multiples of this group's figure.
    pub of_flow: Option<String>,
    /// Every single run has to meet it, not only the median.
    #[serde(default)]
    pub each: bool,
}

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Bits per second: all flows, or one group's.
    Goodput,
    /// The goodput in the 10 s after the first planned drop.
    GoodputAfterLoss,
    /// The rate that arrives until a burst of datagrams.
    GoodputBeforeBurst,
    /// The rate that arrives from a burst of datagrams to the end.
    GoodputAfterBurst,
    /// The seconds from a burst until the rate is back; infinite where it never is.
    SecondsAfterBurst,
    /// The part of the window that the first planned drop took.
    WindowTaken,
    /// The seconds until the window is as large again as before the first planned drop;
    /// infinite where it never is.
    SecondsUntilBack,
    /// The largest window that the receiver offered, in bytes.
    ReceiveWindow,
    /// The seconds that the first request takes.
    FirstRequest,
    /// The time of the slowest request but the first, over that of the first.
    LaterRequests,
    /// The goodput over what the path carries.
    OfPath,
    /// The goodput of one group over its fair share of the path.
    Share,
    /// Jain's fairness index over all flows, from 1/n to 1.
    Jain,
    /// Segments.
    Retransmits,
    /// Segments of those that the receiver had already, as it says.
    Duplicates,
    /// Episodes of fast recovery, and timeouts.
    CongestionEvents,
    /// Segments that the bottleneck dropped until slow start's had arrived.
    SlowStartDrops,
    /// Congestion window at the bottleneck's first drop, as a multiple of the
    /// path's bandwidth-delay product; infinite without a drop.
    FirstDropBdp,
    /// Packets that the sender's own queue dropped.
    LocalDrops,
    /// Times that the window was cut because of the local queue.
    LocalResponses,
    /// Times that the window was cut because of a drop in the network.
    DropResponses,
    /// Times that the window was cut because of a mark in the network.
    MarkResponses,
    /// The share of the processors' time in which there was nothing to do.
    Idle,
    /// The share of the flows' ends, at both hosts, that have a law of `wad`'s.
    Tuned,
    /// The most memory that TCP held on the host, over what an agent bounds by default.
    Memory,
    /// Segments sent again or dropped of connections whose receivers never read.
    UnreadLosses,
}

impl Measure {
    /// Tells whether it is a rate, in bits per second.
    #[must_use]
    pub const fn is_rate(self) -> bool {
        matches!(
            self,
            Self::Goodput
                | Self::GoodputAfterLoss
                | Self::GoodputBeforeBurst
                | Self::GoodputAfterBurst
        )
    }

    /// Returns the measure as a person says it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Goodput => "goodput",
            Self::GoodputAfterLoss => "goodput after the loss",
            Self::GoodputBeforeBurst => "goodput until the burst",
            Self::GoodputAfterBurst => "goodput after the burst",
            Self::SecondsAfterBurst => "seconds until it is back after the burst",
            Self::WindowTaken => "part of the window that the loss took",
            Self::SecondsUntilBack => "seconds until the window is back after the loss",
            Self::ReceiveWindow => "largest window of the receiver, in bytes",
            Self::FirstRequest => "seconds of the first request",
            Self::LaterRequests => "time of the slowest later request over the first one's",
            Self::OfPath => "part of the path",
            Self::Share => "share of its fair share",
            Self::Jain => "Jain's index",
            Self::Retransmits => "segments sent again",
            Self::Duplicates => "segments sent again without need",
            Self::CongestionEvents => "congestion events",
            Self::SlowStartDrops => "drops in slow start",
            Self::FirstDropBdp => "window at the first drop, in BDP",
            Self::LocalDrops => "drops of the local queue",
            Self::LocalResponses => "responses to the local queue",
            Self::DropResponses => "responses to drops in the network",
            Self::MarkResponses => "responses to marks",
            Self::Idle => "part of the processors' time left",
            Self::Tuned => "part of the flows' ends tuned",
            Self::Memory => "most memory of TCP over max_memory's default",
            Self::UnreadLosses => "segments lost where nobody reads",
        }
    }
}

impl Target {
    /// Tells whether the target is about a variant on its path.
    #[must_use]
    pub fn is_of(&self, variant: &Variant) -> bool {
        let is_here = self.path.as_deref().is_none_or(|path| path == variant.suffix());
        self.variant == variant.base && is_here
    }

    /// Returns why the target cannot be used, if so; `names` are those of the variants.
    #[must_use]
    pub fn fault(&self, names: &[&str]) -> Option<&'static str> {
        let unknown = |name: &String| !names.contains(&name.as_str());
        if unknown(&self.variant) || self.of.as_ref().is_some_and(unknown) {
            return Some("a target names a variant that is not there");
        }
        let bounded = self.at_least.is_some() || self.at_most.is_some();
        (!bounded).then_some("a target needs at_least or at_most")
    }
}
