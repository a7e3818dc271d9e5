//! Shares are what a path's flows take beside standard ones, from the response
//! function of their law.

use wad_common::control::Control;

use crate::{
    law::{Answer, Law},
    response::{Response, is_more_than_fair},
};

/// Rates of losses (single, random segments) at which shares are told: from
/// where HighSpeed TCP parts from the standard to one loss in 15 GB.
pub const LOSSES: [f64; 5] = [1e-3, 1e-4, 1e-5, 1e-6, 1e-7];

/// Size of a packet of the path's bandwidth-delay product, a segment and its headers.
pub const PACKET_BYTES: f64 = 1_500.0;

/// Rates over that of a standard flow, at the same losses and the same RTT;
/// infinite where the flow takes what there is, and that is not known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// The shares at each of [`LOSSES`]; None where the mean window would exceed the
    /// path: the flow has more losses then, of its own making.
    pub at: [Option<f64>; LOSSES.len()],
    pub filling: Filling,
}

/// Says what it takes to fill the path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Filling {
    /// The answer is open: what the path carries is not known.
    Unknown,
    /// A loss rate as low as this; the share there, which is the most.
    At { loss: f64, share: f64 },
    /// The law's window does not depend on losses.
    Always,
}

/// An algorithm of the kernel's that goes by its own model of the path, so that no
/// response to losses says what it takes: the lab does.
pub struct Modelled {
    pub name: &'static str,
    /// It left so much to a CUBIC flow beside it, of that one's fair share.
    pub left_to_cubic: &'static str,
}

/// The algorithms that the lab has seen beside CUBIC, each first and last: the scenario
/// `shared`, on a path of 200 Mbit/s, at 20 and 120 ms, with queues of 0.1, 0.5 and 1 times what
/// that carries in a round trip.
pub const MODELLED: &[Modelled] = &[Modelled { name: "bbr", left_to_cubic: "0.02 to 0.28" }];

impl Shares {
    /// Returns what flows under a law take on a path that carries so much, as far as
    /// that is known. None where losses and a standard flow's answer are no measure.
    pub fn of(law: Law, control: &Control, bdp_bytes: Option<u64>) -> Option<Self> {
        let path_segments = bdp_bytes.map(|bytes| bytes as f64 / PACKET_BYTES);
        match law.entry().answer {
            Answer::Follows { response, .. } => {
                Some(Self::answering(response(control), path_segments))
            }
            Answer::Fills => Some(Self::filling(path_segments)),
            Answer::Yields => None,
        }
    }

    /// Returns the shares of a law whose window follows from the losses.
    fn answering(response: Response, path_segments: Option<f64>) -> Self {
        let Some(path_segments) = path_segments else {
            let at = LOSSES.map(|loss| Some(response.share(loss)));
            return Self { at, filling: Filling::Unknown };
        };
        let fills_at = response.loss(path_segments);
        let share = |loss: f64| (loss >= fills_at).then(|| response.share(loss));
        let filling = Filling::At { loss: fills_at, share: response.share(fills_at) };
        Self { at: LOSSES.map(share), filling }
    }

    /// Returns the shares of a law that fills the path at any of the losses.
    fn filling(path_segments: Option<f64>) -> Self {
        let share = |loss: f64| match path_segments {
            Some(path) => (path / Response::standard().mean_window_segments(loss)).max(1.0),
            None => f64::INFINITY,
        };
        Self { at: LOSSES.map(|loss| Some(share(loss))), filling: Filling::Always }
    }

    /// The most that it comes to; as far as told, where the path is not known.
    pub fn most(&self) -> f64 {
        match self.filling {
            Filling::At { share, .. } => share,
            Filling::Unknown | Filling::Always => self.at.into_iter().flatten().fold(0.0, f64::max),
        }
    }

    pub fn exceed_fair(&self) -> bool {
        is_more_than_fair(self.most())
    }
}

#[cfg(test)]
mod tests {
    use wad_common::law::Aimd;

    use super::*;

    fn shares(law: Law, bdp_bytes: Option<u64>) -> Shares {
        Shares::of(law, &Control::STANDARD, bdp_bytes).unwrap()
    }

    #[test]
    fn a_standard_flow_takes_one_share_at_any_loss() {
        let standard = shares(Law::Aimd, None);
        assert_eq!(standard.at, [Some(1.0); 5]);
        assert!(!standard.exceed_fair());
    }

    #[test]
    fn an_aimd_takes_its_share_at_any_loss() {
        let aimd = Aimd { increase_q16: 6 << 16, keep_q16: 45_876 };
        let control = Control { aimd, ..Control::STANDARD };
        let most = Shares::of(Law::Aimd, &control, None).unwrap().most();
        assert!((most - 3.367).abs() < 0.001, "{most}");
    }

    /// RFC 3649 section 4: standard up to 38 segments.
    #[test]
    fn highspeed_is_aggressive_only_where_the_path_has_room_for_it() {
        assert!(!shares(Law::HighSpeed, Some(38 * 1_500)).exceed_fair());
        assert!(shares(Law::HighSpeed, Some(1_000 * 1_500)).exceed_fair());
        // 622 Mbit/s, 70 ms: 0.12 / p^0.835 is 3628 segments at 4.3e-6.
        let datatag = shares(Law::HighSpeed, Some(5_442_500));
        assert!(datatag.at[2].is_some() && datatag.at[3].is_none());
        let Filling::At { loss, share } = datatag.filling else { panic!("{datatag:?}") };
        assert!((loss / 4.32e-6 - 1.0).abs() < 0.01, "{loss}");
        assert!((share - 6.16).abs() < 0.05, "{share}");
    }

    #[test]
    fn a_window_that_losses_leave_alone_takes_the_path() {
        // 1/sqrt(p) times sqrt(1.5) are 122 of 3628 segments.
        let leaky = shares(Law::Leaky, Some(5_442_500));
        assert!((leaky.at[1].unwrap() - 29.6).abs() < 0.1);
        assert_eq!(shares(Law::Leaky, None).most(), f64::INFINITY);
        assert!(!shares(Law::Leaky, Some(30 * 1_500)).exceed_fair());
    }
}
