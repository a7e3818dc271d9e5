//! Who sends: under which law, with what of a path's policy.

use wad_common::{
    control::{Control, IIAD},
    law::{Aimd, Binomial, highspeed, scalable},
    policy::{DIVIDES, NAME_BYTES, Policy},
};

use crate::law::{Cubic, DedicatedLaw, DelayLaw, Law, LeakyLaw, LossBasedLaw, Parameters, Rule};

/// The largest window of RFC 7323: 65,535 scaled by 2^14.
pub const MOST_WINDOW_BYTES: u64 = 65_535 << 14;

/// An algorithm decides about a flow's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Linux's `reno`: RFC 5681.
    Reno,
    /// Linux's `cubic`.
    KernelCubic,
    /// Linux's `highspeed`, without what a law of ours does beside.
    KernelHighSpeed,
    /// Linux's `scalable`, likewise.
    KernelScalable,
    /// `wad_cubic`.
    Cubic,
    /// `wad_aimd`.
    Aimd,
    /// `wad_highspeed`.
    HighSpeed,
    /// `wad_scalable`.
    Scalable,
    /// `wad_binomial`.
    Binomial,
    /// `wad_leaky`.
    Leaky,
    /// `wad_delay`.
    Delay,
    /// `wad_dedicated`.
    Dedicated,
}

/// A sender, of one flow or of several that are alike.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    pub algorithm: Algorithm,
    /// The path's policy, as the kernel side has it.
    pub policy: Policy,
    /// The most bytes that buffers at both ends let a flow have on its way.
    pub most_window_bytes: u64,
}

impl Sender {
    /// A sender whose path's policy has these parameters, and nothing else.
    #[must_use]
    pub const fn new(algorithm: Algorithm, control: Control) -> Self {
        let policy = Policy { control, flags: 0, ..Policy::observing([0; NAME_BYTES]) };
        Self { algorithm, policy, most_window_bytes: MOST_WINDOW_BYTES }
    }

    /// The most bytes that one of so many flows has on its way.
    pub(crate) fn window_bytes(&self, flows: u32) -> u64 {
        let flows = if self.policy.flags & DIVIDES == 0 { 1 } else { flows };
        self.most_window_bytes / u64::from(flows.max(1))
    }

    /// The law of one of so many flows.
    pub(crate) fn law(&self, flows: u32, mss_bytes: u32) -> Box<dyn Law> {
        let parameters = Parameters::of(&self.policy, flows, mss_bytes);
        let pair: fn(&Parameters, u32) -> Aimd = match self.algorithm {
            Algorithm::Reno => |_, _| Aimd::STANDARD,
            Algorithm::Aimd => |parameters, _| parameters.control.aimd,
            Algorithm::HighSpeed | Algorithm::KernelHighSpeed => {
                |_, segments| highspeed::response(segments)
            }
            Algorithm::Scalable | Algorithm::KernelScalable => {
                |_, segments| scalable::response(segments)
            }
            Algorithm::Binomial => |parameters, segments| {
                Binomial::of(parameters.control.flags & IIAD != 0).response(segments)
            },
            Algorithm::KernelCubic => return Box::new(Cubic::new(parameters)),
            Algorithm::Cubic => {
                return Box::new(LossBasedLaw::new(Rule::CUBIC, parameters, true));
            }
            Algorithm::Leaky => return Box::new(LeakyLaw::new(parameters)),
            Algorithm::Delay => return Box::new(DelayLaw::new(parameters)),
            Algorithm::Dedicated => return Box::new(DedicatedLaw::new(parameters)),
        };
        let is_kernels = matches!(
            self.algorithm,
            Algorithm::Reno | Algorithm::KernelHighSpeed | Algorithm::KernelScalable
        );
        Box::new(LossBasedLaw::new(Rule::Pair(pair), parameters, !is_kernels))
    }
}
