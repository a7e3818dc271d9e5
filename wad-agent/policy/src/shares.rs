//! Shares are what a path's flows take beside CUBIC's, from the response function of their
//! law.
//!
//! The yardstick is a CUBIC flow of the same round trip time and with the same losses
//! (RFC 9438, its Reno-friendly region included). It is the Standards Track's congestion
//! control that nearly all hosts have, and RFC 9743, section 5.2, asks whether another one could do
//! more harm than those to flows that share a bottleneck with it. It asks for no equality
//! (section 5.2.1): where a law takes more, those who share the path decide.
//!
//! Losses on a path are not known in advance. One flow alone has as few as it takes to fill
//! the path; the more flows there are, the more losses. So a share is judged from one loss in
//! 1,000 ([`LOSSES`]) down to the loss rate at which the flow, or a CUBIC flow in its place,
//! fills the path, and the most of that counts. Where it is not known what the path carries,
//! the range ends at the last of [`LOSSES`].

use wad_common::control::Control;

pub use crate::response::ShareAt;
use crate::{
    capacity::{Capacity, PACKET_BYTES},
    law::{Answer, Law},
    response::{Response, is_more_than_fair},
};

/// Rates of losses (single, random segments) at which shares are shown: from
/// where HighSpeed TCP parts from the standard to one loss in 15 GB.
pub const LOSSES: [f64; 5] = [1e-3, 1e-4, 1e-5, 1e-6, 1e-7];

/// A path as flows share it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SharedPath {
    /// The number of packets that fill it; None where its rate or its round trip time is not
    /// known.
    pub packets: Option<f64>,
    /// The round trip time; None where it is not known. Then CUBIC counts with the window of
    /// its Reno-friendly region, the least that it has at any round trip time, and the share
    /// is the most that it can be.
    pub rtt_seconds: Option<f64>,
}

impl SharedPath {
    /// Returns the path of that capacity, in packets of so many bytes.
    pub fn in_packets(capacity: Capacity, packet_bytes: f64) -> Self {
        let packets = capacity.bdp_bytes().map(|bytes| bytes / packet_bytes);
        Self { packets, rtt_seconds: capacity.rtt_seconds }
    }
}

impl From<Capacity> for SharedPath {
    fn from(capacity: Capacity) -> Self {
        Self::in_packets(capacity, PACKET_BYTES)
    }
}

/// Rates over that of a CUBIC flow, at the same losses and the same RTT;
/// infinite where the flow takes what there is, and that is not known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// The shares at each of [`LOSSES`]; None where the mean window would exceed the
    /// path: the flow has more losses then, of its own making.
    pub at: [Option<f64>; LOSSES.len()],
    pub filling: Filling,
    /// The most that it comes to.
    pub most: ShareAt,
    /// Whether CUBIC's window is that at the path's RTT, not the least at any.
    pub is_rtt_known: bool,
}

/// Says what it takes to fill the path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Filling {
    /// The answer is open: what the path carries is not known.
    Unknown,
    /// A loss rate as low as this: there the law fills the path, or CUBIC if that has the
    /// larger window.
    At(ShareAt),
    /// The law's window does not depend on losses.
    Always,
}

impl Shares {
    /// Returns what flows under a law take on a path. None where losses and CUBIC's answer
    /// to them are no measure.
    pub fn of(law: Law, control: &Control, path: impl Into<SharedPath>) -> Option<Self> {
        let path = path.into();
        match law.entry().answer {
            Answer::Follows { response, .. } => {
                Some(Self::answering(response(control, path.rtt_seconds), path))
            }
            Answer::Fills => Some(Self::filling(path)),
            Answer::Yields => None,
        }
    }

    /// Returns the shares of a law whose window follows from the losses.
    fn answering(response: Response, path: SharedPath) -> Self {
        let SharedPath { packets, rtt_seconds } = path;
        let cubic = Response::cubic(rtt_seconds);
        let fills_at = packets.map(|packets| response.loss(packets).max(cubic.loss(packets)));
        let share = |loss: f64| response.share(&cubic, loss);
        let [first, .., last] = LOSSES;
        let least = fills_at.unwrap_or(last);
        Self {
            at: LOSSES.map(|loss| {
                let is_within = fills_at.is_none_or(|fills_at| loss >= fills_at);
                is_within.then(|| share(loss))
            }),
            filling: fills_at
                .map_or(Filling::Unknown, |loss| Filling::At(ShareAt { loss, share: share(loss) })),
            most: response.most_share(&cubic, least..=least.max(first)),
            is_rtt_known: rtt_seconds.is_some(),
        }
    }

    /// Returns the shares of a law that fills the path at any of the losses. CUBIC leaves it
    /// the most where losses are many.
    fn filling(path: SharedPath) -> Self {
        let SharedPath { packets, rtt_seconds } = path;
        let cubic = Response::cubic(rtt_seconds);
        let share = |loss: f64| {
            packets.map_or(f64::INFINITY, |path| (path / cubic.mean_window_segments(loss)).max(1.0))
        };
        let [loss, ..] = LOSSES;
        Self {
            at: LOSSES.map(|loss| Some(share(loss))),
            filling: Filling::Always,
            most: ShareAt { loss, share: share(loss) },
            is_rtt_known: rtt_seconds.is_some(),
        }
    }

    /// The most that it comes to.
    pub const fn most(&self) -> f64 {
        self.most.share
    }

    /// Returns whether it comes to more than a CUBIC flow's share.
    pub fn exceed_fair(&self) -> bool {
        is_more_than_fair(self.most())
    }

    /// Returns whether the most is taken where the flow fills the path.
    pub fn is_most_when_filling(&self) -> bool {
        self.filling == Filling::At(self.most)
    }
}

#[cfg(test)]
mod tests;
