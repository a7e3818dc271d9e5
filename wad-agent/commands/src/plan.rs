//! `wad plan`: what a path asks for, from its rate, RTT, loss rate and MTU
//! alone. Nothing is measured, and no agent need run.

pub mod arguments;
mod laws;
mod page;
mod path;
mod policy;
mod simulation;
mod streams;

#[cfg(test)]
mod datatag;
#[cfg(test)]
mod tests;

use anyhow::Result;
use schemars::JsonSchema;
use serde::Serialize;
use wad_common::law::highspeed;
use wad_policy::config::{MAX_BUFFER_BYTES, auto_buffer_bytes, decrease, increase_segments};

pub use self::arguments::Arguments;
use self::{
    laws::{LawPlan, compare},
    path::PathNumbers,
    policy::Policies,
    streams::StreamsPlan,
};
use crate::{error::CommandError, output};

/// The window that a flow gets from the kernel's default `tcp_rmem`: half of its
/// 6 MiB, the rest being what the kernel spends on structures.
const DEFAULT_WINDOW_BYTES: f64 = 3.0 * 1_048_576.0;

/// MTUs that are set beside the path's own.
const MTUS_BYTES: [u32; 2] = [1500, 9000];

/// Holds what was asked.
#[derive(Clone, Debug)]
struct Question {
    /// The rate as written.
    rate: String,
    bits_per_second: f64,
    /// The round trip time as written.
    rtt: String,
    rtt_seconds: f64,
    loss: Option<f64>,
    mtu_bytes: u32,
    /// Connections that send at a time.
    streams: u32,
}

impl Question {
    fn of(args: &Arguments) -> Self {
        Self {
            rate: args.rate.text.clone(),
            bits_per_second: args.rate.bits_per_second,
            rtt: args.rtt.text.clone(),
            rtt_seconds: args.rtt.seconds,
            loss: args.loss,
            mtu_bytes: args.mtu,
            streams: args.streams,
        }
    }

    const fn path(&self) -> PathNumbers {
        PathNumbers::new(self.bits_per_second, self.rtt_seconds, self.mtu_bytes)
    }

    fn auto_buffer_bytes(&self) -> u64 {
        auto_buffer_bytes(self.path().bdp_bytes())
    }
}

/// A plan is what comes of a question, as `--json` prints it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Plan {
    rate_bits_per_second: f64,
    rtt_seconds: f64,
    loss: Option<f64>,
    mtu_bytes: u32,
    mss_bytes: u32,
    bdp_bytes: f64,
    bdp_segments: u32,
    /// The size of each socket buffer, as `"auto"` has it, or the most there is; the
    /// kernel doubles it.
    buffer_bytes: u64,
    /// DataTAG's formula for the standard law.
    responsiveness_seconds: f64,
    laws: Vec<LawPlan>,
    /// Connections without which the path can't be full: a window is at most
    /// 1 GiB.
    least_streams: u64,
    /// Standard flows that fill the path with the kernel's default buffers.
    streams_with_default_buffers: u64,
    /// Standard flows where nothing but their buffers can be changed.
    streams: Vec<StreamsPlan>,
    mtus: Vec<MtuPlan>,
    /// RFC 3649's pair (b, a) for the path's window.
    rfc3649_decrease: f64,
    rfc3649_increase_segments: f64,
    /// The policies that are there to be pasted.
    policies: Policies,
}

/// The standard law on the path, with another MTU.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct MtuPlan {
    mtu_bytes: u32,
    bdp_segments: u32,
    standard: LawPlan,
}

impl Plan {
    fn of(question: &Question) -> Self {
        let path = question.path();
        let laws = compare(&path, question.loss);
        let pair = highspeed::response(path.bdp_segments());
        let by_buffers = (path.bdp_bytes() / DEFAULT_WINDOW_BYTES).ceil() as u64;
        let by_losses = laws[0].at_loss.map(|at| at.streams);
        Self {
            rate_bits_per_second: question.bits_per_second,
            rtt_seconds: question.rtt_seconds,
            loss: question.loss,
            mtu_bytes: question.mtu_bytes,
            mss_bytes: path.mss_bytes,
            bdp_bytes: path.bdp_bytes(),
            bdp_segments: path.bdp_segments(),
            buffer_bytes: question.auto_buffer_bytes().min(MAX_BUFFER_BYTES),
            responsiveness_seconds: path.responsiveness_seconds(),
            laws,
            least_streams: path.least_streams(),
            streams_with_default_buffers: by_buffers.max(by_losses.unwrap_or(0)).max(1),
            streams: streams::of(question, by_losses),
            mtus: mtus(question),
            rfc3649_decrease: decrease(pair),
            rfc3649_increase_segments: increase_segments(pair),
            policies: Policies::of(question),
        }
    }
}

/// The path's own MTU and those beside it, in their order.
fn mtus(question: &Question) -> Vec<MtuPlan> {
    let mut mtus = MTUS_BYTES.to_vec();
    mtus.push(question.mtu_bytes);
    mtus.sort_unstable();
    mtus.dedup();
    let plan = |mtu_bytes| {
        let path = Question { mtu_bytes, ..question.clone() }.path();
        let standard = laws::standard(&path, question.loss);
        MtuPlan { mtu_bytes, bdp_segments: path.bdp_segments(), standard }
    };
    mtus.into_iter().map(plan).collect()
}

/// Prints the plan.
pub fn run(args: &Arguments) -> Result<()> {
    let question = Question::of(args);
    let segments = question.path().bdp_bytes() / f64::from(question.path().mss_bytes);
    if segments > f64::from(u32::MAX) {
        return Err(CommandError::TooLarge { segments }.into());
    }
    let plan = Plan::of(&question);
    if args.json {
        return output::print_json(&plan);
    }
    output::print(page::Page { plan: &plan })
}
