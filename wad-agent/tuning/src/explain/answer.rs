//! The answer, as JSON has it.

use std::{net::IpAddr, path::PathBuf};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use wad_policy::{law::Law, route_rules::RouteMetrics};

use super::query::Query;
use wad_toolbox::refusals::RefusedFlows;

use crate::{readings::PathState, routes};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    pub remote: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_port: Option<u16>,
    pub from: Basis,
    /// Null where no path is sure to match: the kernel's defaults.
    pub path: Option<PathAnswer>,
    /// The rules that come before that of the path, or all, and do not match, or
    /// only under a condition.
    pub tried: Vec<Tried>,
}

/// Where the answer comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The running agent: this is in force.
    PolicySet(u64),
    /// No agent runs: it would be.
    Configuration { file: PathBuf },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathAnswer {
    pub name: String,
    /// By which it matches.
    pub prefix: IpNet,
    /// Whether flows get the settings.
    pub state: PathState,
    pub settings: Settings,
    /// Sentences.
    pub why: Vec<String>,
    /// What the kernel has refused flows of the path so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedFlows>,
}

/// What is left out is left to the kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Argument of SO_SNDBUF, which the kernel doubles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sndbuf_bytes: Option<u32>,
    /// Argument of SO_RCVBUF, which the kernel doubles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rcvbuf_bytes: Option<u32>,
    /// Whether both are for all flows of the path together.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub divide: bool,
    /// As it is registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additive_increase_segments: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decrease: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_ssthresh: Option<Window>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cwnd: Option<Window>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ssthresh_segments: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standing_queue_segments: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedicated_bytes_per_second: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window_segments: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_receive_window_segments: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pacing_bytes_per_second: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder_segments: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed_ack: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_flows: Option<u32>,
}

/// A size of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    Segments(u32),
    Bytes(u32),
}

/// A rule that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    pub path: String,
    pub prefix: IpNet,
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// What a rule says of the flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Taken,
    /// It would, were these so; the question leaves it open.
    OnlyIf(Vec<String>),
    /// It does not: it is for these.
    OnlyFor(Vec<String>),
}

impl Answer {
    /// Of no path yet.
    #[must_use]
    pub fn new(query: &Query, from: Basis) -> Self {
        Self {
            remote: query.remote.address,
            remote_port: query.remote.port,
            local: query.local.map(|local| local.address),
            local_port: query.local.and_then(|local| local.port),
            from,
            path: None,
            tried: Vec::new(),
        }
    }

    /// With what comes by routes, which the kernel side knows nothing of.
    #[must_use]
    pub fn with_means(mut self, routes: &routes::State) -> Self {
        if let Some(path) = self.path.as_mut().filter(|path| path.state == PathState::Tuned) {
            let metrics = RouteMetrics {
                reorder_segments: path.settings.reorder_segments.unwrap_or(0),
                quickack: path.settings.delayed_ack == Some(false),
            };
            let congestion = path.settings.congestion.as_deref();
            let undoes = congestion.and_then(Law::of_algorithm).is_some();
            path.why.extend(routes::means(&path.name, metrics, undoes, routes));
        }
        self
    }
}
