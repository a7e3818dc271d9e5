//! The answer, as JSON has it.

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf};

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wad_policy::{
    config::{Settings, Value, route_rules::RouteMetrics},
    law::Law,
};
use wad_toolbox::refusals::RefusedFlows;

use super::query::Query;
use crate::{namespaces::Standing, readings::PathState, routes};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    pub remote: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<PathBuf>,
    /// The pod, as NAMESPACE/NAME.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    pub from: Basis,
    /// Null where no path is sure to match: the kernel's defaults.
    pub path: Option<PathAnswer>,
    /// The rules of other paths that come before that of the path, or all, and do not
    /// match, or only under a condition.
    pub tried: Vec<Tried>,
}

/// Says where the answer comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The running agent: this is in force.
    PolicySet(u64),
    /// The configuration would be in force: no agent runs.
    Configuration { file: PathBuf },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathAnswer {
    pub name: String,
    /// The prefix by which it matches.
    #[schemars(with = "String")]
    pub prefix: IpNet,
    /// Whether flows get the settings.
    pub state: PathState,
    /// The settings; what is left out is left to the kernel.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, Value>")]
    pub settings: Settings,
    /// Sentences.
    pub why: Vec<String>,
    /// The peers that have a say in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<String>,
    /// Settings that the kernel has refused flows of the path so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedFlows>,
}

/// A rule that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tried {
    pub path: String,
    #[schemars(with = "String")]
    pub prefix: IpNet,
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// A verdict is what a rule says of the flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Taken,
    /// The rule would be taken, were these so; the question leaves it open.
    OnlyIf(Vec<String>),
    /// The rule is not taken: it is for these.
    OnlyFor(Vec<String>),
}

impl Answer {
    /// Makes an answer of no path yet.
    #[must_use]
    pub fn new(query: &Query, from: Basis) -> Self {
        Self {
            remote: query.remote.address,
            remote_port: query.remote.port,
            local: query.local.map(|local| local.address),
            local_port: query.local.and_then(|local| local.port),
            user: query.user,
            cgroup: query.cgroup.clone(),
            pod: query.pod.as_ref().map(ToString::to_string),
            mark: query.mark,
            interface: query.interface.clone(),
            from,
            path: None,
            tried: Vec::new(),
        }
    }

    /// Returns the answer with what comes by routes, which the kernel side knows
    /// nothing of.
    #[must_use]
    pub fn with_means(mut self, routes: &routes::RoutesState) -> Self {
        if let Some(path) = self.path.as_mut().filter(|path| path.state == PathState::Tuned) {
            let settings = &path.settings;
            let reorder_segments = match settings.get("reorder_segments") {
                Some(Value::Whole(segments)) => *segments as u32,
                _ => 0,
            };
            let quickack = settings.get("delayed_ack") == Some(&Value::Flag(false));
            let ecn = settings.get("ecn").is_some();
            let metrics = RouteMetrics { reorder_segments, quickack, ecn };
            let undoes = match settings.get("congestion") {
                Some(Value::Text(congestion)) => Law::of_algorithm(congestion).is_some(),
                _ => false,
            };
            path.why.extend(routes::means(&path.name, metrics, undoes, routes));
        }
        self
    }

    /// Adds what is known of the peers by whose word its path is as it is.
    #[must_use]
    pub fn because(mut self, why: impl FnOnce(&[String]) -> Vec<String>) -> Self {
        if let Some(path) = &mut self.path {
            path.why.extend(why(&path.peers));
        }
        self
    }

    /// Adds where what no option of a socket gives holds beside the agent's own network
    /// namespace, and where it does not.
    #[must_use]
    pub fn in_namespaces(mut self, namespaces: &Standing) -> Self {
        if let Some(path) = self.path.as_mut().filter(|path| path.state == PathState::Tuned) {
            path.why.extend(namespaces.of(&path.name));
        }
        self
    }
}
