//! Peers say this of the paths between them and this host, as data. It comes over an
//! authenticated channel and is bounded by the certificate and the file before it gets
//! here, but its numbers are anybody's: any value has to be expected, and none may make a
//! flow faster than the own file allows.
//!
//! Directions are the speaker's: what a peer says of `sending` is of data that it sends to
//! this host.

mod counted;
mod follow;
mod hearing;
#[cfg(test)]
mod tests;

use std::{net::IpAddr, time::Duration};

use ipnet::IpNet;
use wad_toolbox::clock::Moment;

pub use self::{
    counted::{Counted, counted},
    follow::{NAME_PREFIX, add, follow, paths},
    hearing::Hearing,
};

/// Says whether an address is one of those that a peer may speak for. IPv4 within IPv6 is the
/// former.
#[must_use]
pub fn is_spoken_for(prefixes: &[IpNet], address: IpAddr) -> bool {
    let address = address.to_canonical();
    prefixes.iter().any(|prefix| prefix.contains(&address))
}

/// A peer has said this, and it holds until it ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Heard {
    /// The peer's name in the own file.
    pub peer: String,
    /// The prefixes that it may speak for: its certificate has them and, where the file says
    /// some, the file.
    pub prefixes: Vec<IpNet>,
    /// The rate of this host's interface towards it, in bit/s; None where that is not known.
    pub own_nic_bits_per_second: Option<f64>,
    /// The largest SO_RCVBUF that flows from it may get by its word, by the own file; None
    /// where that says nothing.
    pub grant_buffer_bytes: Option<u64>,
    pub said: Said,
    /// The time when it was said.
    pub heard_at: Moment,
    /// The time from which on nothing of it counts.
    pub ends_at: Moment,
}

/// All that is said at a time. None is what the speaker does not know, or does not say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// The name that the speaker gives itself.
    pub node: Option<String>,
    /// The rate of the interface towards the listener, in bit/s.
    pub nic_bits_per_second: Option<f64>,
    pub mtu_bytes: Option<u32>,
    pub mss_bytes: Option<u32>,
    /// The largest SO_RCVBUF that the listener's flows can get at the speaker's end.
    pub max_rcvbuf_bytes: Option<u64>,
    /// The largest SO_SNDBUF there.
    pub max_sndbuf_bytes: Option<u64>,
    /// Memory that TCP may still take there.
    pub free_tcp_memory_bytes: Option<u64>,
    pub ecn: Option<bool>,
    pub sending: Direction,
    pub receiving: Direction,
    /// The consent to flows of the listener towards the speaker.
    pub consent: Option<Consent>,
}

/// One direction of the flows between the two, as the speaker has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Direction {
    /// The congestion control in force, by its name in the kernel. Only a sender has one.
    pub law: Option<Value<String>>,
    /// The size that the other end's buffer is to have, as the argument of SO_RCVBUF where the
    /// speaker sends, of SO_SNDBUF where it receives.
    pub wanted_window_bytes: Option<Value<u64>>,
    pub bandwidth_bits_per_second: Option<Value<f64>>,
    pub min_rtt_seconds: Option<Value<f64>>,
    /// The best rate of a flow that no application held back.
    pub best_rate_bits_per_second: Option<Value<f64>>,
    /// Which parts of the time something held flows back, by its name, the largest first.
    pub limited_by: Vec<LimitedBy>,
}

/// So much of the time this held flows back.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitedBy {
    /// A name of `wad diagnose`, such as `peer_window`.
    pub limit: String,
    /// 0 to 1.
    pub part: f64,
}

/// A value, how old it was when it was said, and where the speaker has it from.
#[derive(Clone, Debug, PartialEq)]
pub struct Value<T> {
    pub value: T,
    pub age: Duration,
    pub source: Source,
}

/// Says where a speaker has a value from. Nothing that it has heard itself is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The speaker's file says so.
    File,
    /// A source of measurements.
    Measured,
    /// Its own flows.
    Passive,
}

impl Source {
    pub const ALL: [Self; 3] = [Self::File, Self::Measured, Self::Passive];

    /// Returns the word of the message, and of what is shown.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Measured => "measured",
            Self::Passive => "passive",
        }
    }
}

/// The owner of the network at the speaker's end lets the listener's flows take more than a
/// fair share there: `allow = "aggressive"` by the other end.
#[derive(Clone, Debug, PartialEq)]
pub struct Consent {
    /// The most that all flows of a path may take together, in bit/s; None for no bound.
    pub max_bits_per_second: Option<f64>,
    /// The prefixes of the speaker's that it is for; empty for all that it speaks for.
    pub prefixes: Vec<IpNet>,
    /// Time from when it was said to its end; None where it has no end of its own.
    pub ends_in: Option<Duration>,
}

impl Heard {
    /// Whether it still counts.
    #[must_use]
    pub fn holds(&self, now: Moment) -> bool {
        now < self.ends_at
    }

    /// Returns the time at which a consent in it ends, which is never after all else.
    #[must_use]
    pub fn consent_ends_at(&self) -> Option<Moment> {
        let consent = self.said.consent.as_ref()?;
        let own = consent.ends_in.and_then(|ends_in| self.heard_at.checked_add(ends_in));
        Some(own.map_or(self.ends_at, |own| own.min(self.ends_at)))
    }

    /// Returns the time of the next end of anything in it.
    #[must_use]
    pub fn next_end(&self, now: Moment) -> Option<Moment> {
        let consent = self.consent_ends_at().filter(|&at| at > now);
        consent.or(Some(self.ends_at)).filter(|&at| at > now)
    }
}
