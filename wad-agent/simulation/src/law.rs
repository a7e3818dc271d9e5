//! A law does this for a flow, as the kernel asks it (`struct tcp_congestion_ops`).

mod cubic;
mod in_control;
mod loss_based;
mod parameters;

pub use self::{
    cubic::Cubic,
    in_control::{DedicatedLaw, DelayLaw, LeakyLaw},
    loss_based::{LossBasedLaw, Rule},
    parameters::Parameters,
};
use crate::tcp::{Ack, Tcp};

/// A law of a flow, and the law's state.
pub trait Law {
    /// The flow is established.
    fn begin(&mut self, tcp: &mut Tcp);

    /// Whether it has window and pacing rate to itself: the kernel reduces nothing, and the law
    /// hears of each ACK. Another one hears of those that tell of no congestion.
    fn is_in_control(&self) -> bool {
        false
    }

    /// An ACK has come.
    fn on_ack(&mut self, tcp: &mut Tcp, ack: &Ack);

    /// The kernel asks for a threshold, after a loss.
    fn ssthresh(&mut self, tcp: &Tcp) -> u32;

    /// A time-out has taken all that was on its way for lost.
    fn time_out(&mut self) {}

    /// Whether the flow is in rapid start, and paced for that.
    fn is_rapid(&self, _tcp: &Tcp) -> bool {
        false
    }

    /// The parameters of a flow under a law of ours, which has more set than the kernel's.
    fn ours(&self) -> Option<&Parameters> {
        None
    }
}
