//! Rows hold what is shown of each flow and of each path: from two readings, one
//! after the other.

use std::collections::{BTreeMap, HashMap};

use wad_agent::status::Evidence;
use wad_instruments::{Flow, Reading, name};
use wad_observing::diagnose::{self, Course, Limit};

/// Rates are of bits per second; what is not known yet is None.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowRow {
    pub path: String,
    pub remote: String,
    pub local: String,
    pub congestion: String,
    pub cookie: u64,
    /// Whose it is, in short; "-" where that is not known.
    pub owner: String,
    pub sent: Option<f64>,
    pub received: Option<f64>,
    pub cwnd_bytes: Option<f64>,
    pub rtt_seconds: Option<f64>,
    /// Part of the data segments that was sent again.
    pub retransmitted: Option<f64>,
    pub limit: Limit,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PathRow {
    pub path: String,
    pub flows: usize,
    pub sent: f64,
    pub received: f64,
    /// The mean of its flows.
    pub rtt_seconds: Option<f64>,
    /// The mean of its flows that send.
    pub retransmitted: Option<f64>,
    /// The limit of most of those that are not idle.
    pub limit: Limit,
    /// A word for what a guard or an experiment does on it; "-" where there is none.
    pub evidence: String,
}

/// Returns the rows of flows, in the order of the later reading.
#[must_use]
pub fn flows(before: Option<&Reading>, after: &Reading) -> Vec<FlowRow> {
    let before = before.map_or(&[][..], |reading| &reading.flows);
    let before: HashMap<u64, &Flow> = before.iter().map(|flow| (flow.cookie, flow)).collect();
    after.flows.iter().map(|flow| row(before.get(&flow.cookie).copied(), flow)).collect()
}

fn row(before: Option<&Flow>, flow: &Flow) -> FlowRow {
    let course = before.and_then(|before| Course::between(before, flow));
    let rate = |counter| Some(course.as_ref()?.rate(counter)? * 8.0);
    let gauge = |name| flow.instruments.get(name);
    let grown = |counter| course.as_ref()?.grown(counter);
    let retransmitted = grown(name::SEGS_RETRANS).zip(grown(name::DATA_SEGS_OUT));
    FlowRow {
        path: if flow.path.is_empty() { "-".to_owned() } else { shown(&flow.path) },
        remote: flow.remote.to_string(),
        local: flow.local.to_string(),
        congestion: flow.congestion.to_string(),
        cookie: flow.cookie,
        owner: flow.owner.short().unwrap_or_else(|| "-".to_owned()),
        sent: rate(name::HC_THRU_OCTETS_ACKED),
        received: rate(name::HC_THRU_OCTETS_RECEIVED),
        cwnd_bytes: gauge(name::CUR_CWND),
        rtt_seconds: gauge(name::SMOOTHED_RTT).map(|us| us / 1e6),
        retransmitted: retransmitted.and_then(|(again, all)| (all > 0.0).then(|| again / all)),
        limit: course.as_ref().map_or(Limit::Unknown, diagnose::limit),
    }
}

/// A name may have anything in it, a terminal's control sequences too.
fn shown(name: &str) -> String {
    name.escape_debug().to_string()
}

/// Returns the rows of paths, by name.
#[must_use]
pub fn paths(flows: &[FlowRow], evidence: &Evidence) -> Vec<PathRow> {
    let mut paths: BTreeMap<&str, Vec<&FlowRow>> = BTreeMap::new();
    for flow in flows {
        paths.entry(&flow.path).or_default().push(flow);
    }
    let rows = paths.into_iter().map(|(path, flows)| PathRow {
        path: path.to_owned(),
        flows: flows.len(),
        sent: flows.iter().filter_map(|flow| flow.sent).sum(),
        received: flows.iter().filter_map(|flow| flow.received).sum(),
        rtt_seconds: mean(flows.iter().filter_map(|flow| flow.rtt_seconds)),
        retransmitted: mean(flows.iter().filter_map(|flow| flow.retransmitted)),
        limit: commonest(flows.iter().map(|flow| flow.limit)),
        evidence: says(evidence, path),
    });
    rows.collect()
}

/// Returns what is done on a path, in a word or two.
fn says(Evidence { experiments, guards }: &Evidence, path: &str) -> String {
    let guard = guards.iter().find(|guard| shown(&guard.path) == path);
    let experiment = experiments.iter().find(|experiment| shown(&experiment.path) == path);
    match (guard, experiment) {
        (Some(guard), _) if guard.is_away() => guard.state.words().to_owned(),
        (_, Some(it)) if !it.is_over => format!("{}/{} pairs", it.pairs, it.planned_pairs),
        (_, Some(it)) if it.verdict.is_some() => {
            it.verdict.map_or_else(String::new, |verdict| verdict.to_string())
        }
        (Some(_), _) => "guarded".to_owned(),
        (None, _) => "-".to_owned(),
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

fn commonest(limits: impl Iterator<Item = Limit>) -> Limit {
    let mut counts: HashMap<Limit, usize> = HashMap::new();
    for limit in limits {
        *counts.entry(limit).or_default() += 1;
    }
    let idle = |limit: Limit| matches!(limit, Limit::Idle | Limit::Unknown);
    let most =
        counts.into_iter().max_by_key(|&(limit, count)| (!idle(limit), count, limit.short()));
    most.map_or(Limit::Unknown, |(limit, _)| limit)
}
