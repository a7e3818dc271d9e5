//! Diagnoses: what limits a flow, how that is known, and the policy that would
//! help. The judgement is a pure function of what the instruments said meanwhile.

mod advice;
mod course;
mod finding;
mod limit;
mod mtu;
mod other_end;
mod receiver;
mod sender;
mod show;
mod target;
#[cfg(test)]
mod tests;
mod triage;

use std::{cmp::Reverse, collections::HashMap, net::SocketAddr, sync::Arc};

use schemars::JsonSchema;
use serde::Serialize;
use wad_instruments::{Flow, Owner, Reading, name};

use self::advice::{Advice, advise};
pub(crate) use self::{
    advice::BUFFER_GROWTH,
    finding::{Finding, Shares},
    sender::{min_rtt_seconds, percent, rtt_seconds},
    triage::triage,
};
pub use self::{
    course::{Course, Span},
    finding::Direction,
    limit::Limit,
    other_end::{LimitedThere, OtherEnd},
    show::{MOST_IN_FULL, Page},
    target::Target,
};

/// Fields of `tcp_sock` that are looked at beside the standard instruments.
pub const FIELDS: [&str; 4] =
    [sender::MAX_WINDOW, sender::MAX_PACING, sender::QUEUED, mtu::PATH_MTU];

/// Diagnoses of flows, the worst first.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Diagnoses {
    pub flows: Vec<Diagnosis>,
}

/// A diagnosis is what is said of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Diagnosis {
    pub cookie: u64,
    pub path: Arc<str>,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub congestion: Arc<str>,
    pub owner: Owner,
    #[serde(flatten)]
    pub finding: Finding,
    pub bits_per_second: Option<f64>,
    pub advice: Advice,
    /// Packets could be larger, or why that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<String>,
    /// The words of the other end's agent, where they are heard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_end: Option<OtherEnd>,
}

impl Diagnosis {
    #[must_use]
    pub fn new(course: &Course<'_>) -> Self {
        let flow = course.flow();
        let finding = triage(course);
        let counter = match finding.direction {
            Direction::Sending => name::HC_THRU_OCTETS_ACKED,
            Direction::Receiving => name::HC_THRU_OCTETS_RECEIVED,
        };
        Self {
            cookie: flow.cookie,
            path: Arc::clone(&flow.path),
            local: flow.local,
            remote: flow.remote,
            congestion: Arc::clone(&flow.congestion),
            owner: flow.owner.clone(),
            bits_per_second: course.rate(counter).map(|rate| rate * 8.0),
            advice: advise(finding.limit, course),
            finding,
            mtu: None,
            other_end: None,
        }
    }

    #[must_use]
    pub fn with_mtu(mut self, course: &Course<'_>) -> Self {
        self.mtu = match mtu::interface(course.flow()) {
            Ok(Some(interface)) => mtu::shortfall(course, &interface),
            Ok(None) => Some("its network namespace, or its route, is out of sight".to_owned()),
            Err(error) => Some(format!("its interface cannot be found: {error}")),
        };
        self
    }
}

/// Returns the limit in short, for many flows at a time.
#[must_use]
pub fn limit(course: &Course<'_>) -> Limit {
    triage(course).limit
}

/// Returns the courses of the flows that were there until the last look.
pub fn courses(readings: &[Reading], target: Option<Target>, span: Span) -> Vec<Course<'_>> {
    let mut samples: HashMap<u64, Vec<&Flow>> = HashMap::new();
    for flow in readings.iter().flat_map(|reading| &reading.flows) {
        if target.is_none_or(|target| target.is(flow)) {
            samples.entry(flow.cookie).or_default().push(flow);
        }
    }
    let last = readings.iter().next_back().map_or(&[][..], |reading| &reading.flows);
    let still_there = last.iter().filter_map(|flow| samples.remove(&flow.cookie));
    still_there.filter_map(|samples| Course::new(samples, span)).collect()
}

pub fn worst_first(diagnoses: &mut [Diagnosis]) {
    diagnoses.sort_by_key(|diagnosis| {
        let Finding { limit, share, .. } = &diagnosis.finding;
        let thousandths = (share.unwrap_or(0.0) * 1e3) as u32;
        (limit.urgency(), Reverse(thousandths), diagnosis.cookie)
    });
}
