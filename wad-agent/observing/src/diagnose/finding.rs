//! A finding says what is found of a flow: what limits it, and how that is known.

use schemars::JsonSchema;
use serde::Serialize;
use wad_instruments::name;

use super::{course::Course, limit::Limit};

/// Who sends the data that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// This end sends.
    Sending,
    /// The other end does.
    Receiving,
}

/// Says what limits a flow, and how that is known.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    pub direction: Direction,
    pub limit: Limit,
    /// Part of the time that it is so, where the kernel counts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Shares of this end as a sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
    /// Sentences.
    pub evidence: Vec<String>,
}

/// Parts of the time, by what the kernel says the flow waited for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Shares {
    pub peer_window: f64,
    pub send_buffer: f64,
    /// Nothing to send.
    pub application: f64,
    /// The congestion window, or pacing.
    pub congestion_window: f64,
}

impl Shares {
    /// Returns the shares; None where the timers are not there, or did not run.
    #[must_use]
    pub fn of(course: &Course<'_>) -> Option<Self> {
        let rwin = course.grown(name::SND_LIM_TIME_RWIN)?;
        let cwnd = course.grown(name::SND_LIM_TIME_CWND)?;
        let own = course.grown(name::SND_LIM_TIME_SND).or_else(|| course.rest_ms(rwin + cwnd))?;
        let sndbuf = course.grown(name::SND_LIM_TIME_SNDBUF)?.min(own);
        let all = rwin + cwnd + own;
        (all > 0.0).then(|| Self {
            peer_window: rwin / all,
            send_buffer: sndbuf / all,
            application: (own - sndbuf) / all,
            congestion_window: cwnd / all,
        })
    }
}
