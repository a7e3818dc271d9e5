//! Limits are what can limit a flow.

use schemars::JsonSchema;
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The other end's receive window, though its application reads.
    PeerWindow,
    /// This end's receive window, though its application reads.
    OwnWindow,
    SendBuffer,
    /// Writes less than could be sent.
    SendingApplication,
    /// Does not read what has come.
    ReceivingApplication,
    /// The rate that the narrowest place on the way carries.
    PathRate,
    Loss,
    /// A pacing rate that was set.
    Pacing,
    SlowStart,
    /// The congestion window, which still grows.
    WindowGrowth,
    /// The congestion window, which is held where it is.
    WindowCap,
    /// Something that only the other end can tell.
    OtherEnd,
    /// Nobody has anything to send.
    Idle,
    /// The instruments do not tell.
    Unknown,
}

impl Limit {
    pub const ALL: [Self; 14] = [
        Self::PeerWindow,
        Self::OwnWindow,
        Self::SendBuffer,
        Self::SendingApplication,
        Self::ReceivingApplication,
        Self::PathRate,
        Self::Loss,
        Self::Pacing,
        Self::SlowStart,
        Self::WindowGrowth,
        Self::WindowCap,
        Self::OtherEnd,
        Self::Idle,
        Self::Unknown,
    ];

    /// Returns the name that JSON has, and peers say.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::PeerWindow => "peer_window",
            Self::OwnWindow => "own_window",
            Self::SendBuffer => "send_buffer",
            Self::SendingApplication => "sending_application",
            Self::ReceivingApplication => "receiving_application",
            Self::PathRate => "path_rate",
            Self::Loss => "loss",
            Self::Pacing => "pacing",
            Self::SlowStart => "slow_start",
            Self::WindowGrowth => "window_growth",
            Self::WindowCap => "window_cap",
            Self::OtherEnd => "other_end",
            Self::Idle => "idle",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the limit of that name, if there is one.
    #[must_use]
    pub fn of_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|limit| limit.key() == key)
    }

    /// Completes "limited by".
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::PeerWindow => "the peer's receive window",
            Self::OwnWindow => "this end's receive window",
            Self::SendBuffer => "the send buffer",
            Self::SendingApplication => "the sending application",
            Self::ReceivingApplication => "the receiving application",
            Self::PathRate => "the path's rate",
            Self::Loss => "loss",
            Self::Pacing => "its pacing rate",
            Self::SlowStart => "slow start",
            Self::WindowGrowth => "a congestion window that still grows",
            Self::WindowCap => "a congestion window that is held",
            Self::OtherEnd => "something at the other end",
            Self::Idle => "nothing: neither end sends",
            Self::Unknown => "something that cannot be told",
        }
    }

    /// Returns the words for a narrow column.
    #[must_use]
    pub const fn short(self) -> &'static str {
        match self {
            Self::PeerWindow => "peer window",
            Self::OwnWindow => "own window",
            Self::SendBuffer => "send buffer",
            Self::SendingApplication => "sender app",
            Self::ReceivingApplication => "reader app",
            Self::PathRate => "path rate",
            Self::Loss => "loss",
            Self::Pacing => "pacing",
            Self::SlowStart => "slow start",
            Self::WindowGrowth => "growing",
            Self::WindowCap => "held",
            Self::OtherEnd => "other end",
            Self::Idle => "idle",
            Self::Unknown => "-",
        }
    }

    /// Returns the urgency: those that a person could do something about come first.
    #[must_use]
    pub const fn urgency(self) -> u8 {
        match self {
            Self::PeerWindow | Self::OwnWindow | Self::SendBuffer | Self::Loss => 0,
            Self::Pacing | Self::WindowCap | Self::WindowGrowth => 1,
            Self::ReceivingApplication | Self::PathRate | Self::SlowStart => 2,
            Self::OtherEnd | Self::SendingApplication => 3,
            Self::Idle | Self::Unknown => 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_json() {
        for limit in Limit::ALL {
            let json = serde_json::to_value(limit).expect("a word");
            assert_eq!(json.as_str(), Some(limit.key()));
            assert_eq!(Limit::of_key(limit.key()), Some(limit));
        }
        assert_eq!(Limit::of_key("weather"), None);
    }
}
