//! The laws that a plan compares: how fast each recovers on a path, and what it
//! carries there at a rate of losses.

use schemars::JsonSchema;
use serde::Serialize;
use wad_common::law::Aimd;
use wad_policy::{
    config::{decrease, increase_segments},
    law::{Answer, Entry, Law},
    response::Response,
};

use super::{path::PathNumbers, simulation};

/// A law on a path.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LawPlan {
    pub law: &'static str,
    /// `a`, segments for each RTT, at the window that fills the path; not for
    /// `cubic`, which goes by time.
    pub increase_segments: Option<f64>,
    /// `b`, the fraction of that window that a loss takes.
    pub decrease: f64,
    /// Time from one loss at a full path without a queue until it is full again.
    pub recovery_seconds: f64,
    /// Loss rate at which the mean window just fills the path.
    pub filling_loss: f64,
    /// Window, share and rate of one flow at the path's loss rate.
    pub at_loss: Option<AtLoss>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AtLoss {
    /// The mean window, no more than a connection can have; it may be more than the
    /// path takes.
    pub mean_window_segments: f64,
    /// The law itself, simulated with a loss of one segment in so many; not for
    /// `cubic`.
    pub simulated_window_segments: Option<f64>,
    /// Over the rate of a CUBIC flow beside it (RFC 9438).
    pub share: f64,
    pub rate_bits_per_second: f64,
    /// Flows of it that fill the path.
    pub streams: u64,
}

/// The standard law, today's default, and those of ours that the table compares.
pub fn compare(path: &PathNumbers, loss: Option<f64>) -> Vec<LawPlan> {
    let ours = Law::ALL.iter().filter_map(|law| ours(*law, path, loss));
    [standard(path, loss), cubic(path, loss)].into_iter().chain(ours).collect()
}

fn ours(law: Law, path: &PathNumbers, loss: Option<f64>) -> Option<LawPlan> {
    let Entry { name, answer: Answer::Follows { pair, response }, plan: Some(parameters), .. } =
        law.entry()
    else {
        return None;
    };
    let control = parameters(path.bdp_segments());
    let response = response(&control, Some(path.rtt_seconds));
    Some(simulated(name, path, loss, &|cwnd| pair(&control, cwnd), response))
}

/// RFC 5681.
pub fn standard(path: &PathNumbers, loss: Option<f64>) -> LawPlan {
    simulated("standard", path, loss, &|_| Aimd::STANDARD, Response::standard())
}

fn simulated(
    name: &'static str,
    path: &PathNumbers,
    loss: Option<f64>,
    law: &dyn Fn(u32) -> Aimd,
    response: Response,
) -> LawPlan {
    let bdp_segments = path.bdp_segments();
    let pair = law(bdp_segments);
    LawPlan {
        law: name,
        increase_segments: Some(increase_segments(pair)),
        decrease: decrease(pair),
        recovery_seconds: simulation::recovery_rtts(law, bdp_segments) as f64 * path.rtt_seconds,
        filling_loss: response.loss(f64::from(bdp_segments)),
        at_loss: loss.map(|loss| at_loss(path, loss, response, Some(law))),
    }
}

/// The kernel's, by RFC 9438: back at the window of the loss after
/// K = (W b / C)^(1/3) seconds (equation 2), or as fast as the standard law
/// would be with the same share (section 4.3), if that is sooner.
fn cubic(path: &PathNumbers, loss: Option<f64>) -> LawPlan {
    const DECREASE: f64 = 0.3;
    const C: f64 = 0.4;
    let window = f64::from(path.bdp_segments());
    let friendly = 3.0 * DECREASE / (2.0 - DECREASE);
    let cubic_seconds = (window * DECREASE / C).cbrt();
    let friendly_seconds = window * DECREASE / friendly * path.rtt_seconds;
    let response = Response::cubic(Some(path.rtt_seconds));
    LawPlan {
        law: "cubic",
        increase_segments: None,
        decrease: DECREASE,
        recovery_seconds: cubic_seconds.min(friendly_seconds),
        filling_loss: response.loss(window),
        at_loss: loss.map(|loss| at_loss(path, loss, response, None)),
    }
}

fn at_loss(
    path: &PathNumbers,
    loss: f64,
    response: Response,
    law: Option<&dyn Fn(u32) -> Aimd>,
) -> AtLoss {
    let most = path.max_window_segments();
    let function = response.mean_window_segments(loss);
    let mean_window_segments = function.min(most);
    AtLoss {
        mean_window_segments,
        simulated_window_segments: law
            .map(|law| simulation::mean_window_segments(law, loss, function).min(most)),
        share: response.share(&Response::cubic(Some(path.rtt_seconds)), loss),
        rate_bits_per_second: path.rate_bits_per_second(mean_window_segments),
        streams: (f64::from(path.bdp_segments()) / mean_window_segments).ceil() as u64,
    }
}
