//! Every metric of wad, once: name, unit and help. The name has neither the unit
//! nor the `_total` or `_info` that the formats append.

mod host;
mod parts;
mod path;

use std::time::{Duration, SystemTime};

use prometheus_client::registry::Unit;
use wad_common::stats::PathStats;
use wad_tuning::{
    attachment::{Attachment, Part},
    readings::ProgramRuns,
};

pub use self::{
    host::HOST,
    parts::{
        BUILD, DERIVED, EVENTS, EXPERIMENT_PAIRS, EXPERIMENT_THROWN, EXPERIMENT_TUNED,
        EXPERIMENT_VERDICT, GUARD_SHARE, GUARD_SUSPICION, GUARD_TRIPS, OTLP_EXPORTS, OTLP_REJECTED,
        OTLP_SUCCESS, PAGE_REFUSED, PEER_AGE, PEER_CERTIFICATE, PEER_FAILED, PEER_HEARD,
        PEER_REFUSED, PEER_UP, PEERS_CERTIFICATE, PEERS_FAILING, PEERS_FILE_ERRORS,
        PEERS_STRANGERS, PODS_ADOPTED, PODS_FAILING, PODS_FLOWS, PODS_KNOWN, SET_FAILING,
        SET_PREFIXES, SET_READ, SINK_LOST, SINK_REFUSED, SINK_SENT, SINK_SPOOLED, SOURCE_ERRORS,
        SOURCE_POLLS, SOURCE_REFUSED, SOURCE_SUCCESS, START, TRACE_FAILING, TRACE_LINES,
        TRACE_LOST, TRACE_MISSED, TRACE_WRITTEN,
    },
    path::PATH,
};
use super::{
    PathNow, Readings,
    ends::{self, Ended},
};

pub struct Definition {
    pub name: &'static str,
    pub unit: Option<Unit>,
    pub help: &'static str,
}

impl Definition {
    /// Returns the name with its unit, as samples have it.
    fn full_name(&self) -> String {
        let unit = self.unit.as_ref().map(|unit| format!("_{}", unit.as_str()));
        format!("{}{}", self.name, unit.unwrap_or_default())
    }
}

/// A metric with a series per path.
pub struct PathMetric {
    pub definition: Definition,
    pub value: PathValue,
}

pub enum PathValue {
    Counter(OfPath),
    Gauge(OfPath),
    /// Counters by the label `reason`.
    Reasons(&'static [(&'static str, OfPath)]),
    /// A histogram of the flows that ended: bounds of the buckets, and how many are in
    /// each.
    Histogram(&'static [f64], fn(&Ended) -> &ends::Histogram),
    /// A gauge that is left out where it is not known, and of the other paths.
    Now(fn(&PathNow) -> Option<f64>),
    /// Labels say what a path is, with the value 1; not of the other paths.
    About,
    /// Seconds by the label `factor`, what held the path's flows back ([`super::live::LIMITS`]).
    Limited,
}

pub type OfPath = fn(&PathStats) -> u64;

/// A metric of the host.
pub struct HostMetric {
    pub definition: Definition,
    pub value: HostValue,
}

pub type OfHost = fn(&Readings) -> u64;

pub enum HostValue {
    Counter(OfHost),
    Gauge(OfHost),
    /// A counter of seconds.
    Duration(fn(&Readings) -> Duration),
    /// Counters by the label `result`.
    Results(&'static [(&'static str, OfHost)]),
    /// A gauge by the label `part`.
    Parts(fn(&Attachment, Part) -> u64),
    /// A counter by the same label.
    CountedParts(fn(&Attachment, Part) -> u64),
    /// A counter by the label `of`.
    Shortages,
    /// Counters by the label `program`.
    Programs(fn(&ProgramRuns) -> u64),
    /// Counters of seconds by the same label.
    TimedPrograms(fn(&ProgramRuns) -> Duration),
    /// A histogram of seconds.
    Histogram(&'static [f64], fn(&Readings) -> &ends::Histogram),
    /// A gauge that is left out where the host does not tell it.
    Told(fn(&Readings) -> Option<u64>),
    /// A counter of seconds, in the same way.
    ToldDuration(fn(&Readings) -> Option<Duration>),
    /// Left out while it is not known.
    Time(fn(&Readings) -> Option<SystemTime>),
}

/// Returns the full names of what the kernel counts for one agent after the other; other
/// counts begin with the agent.
pub fn counted_by_the_kernel() -> impl Iterator<Item = String> {
    let is_of_path =
        |value: &PathValue| matches!(value, PathValue::Counter(_) | PathValue::Reasons(_));
    let is_of_host = |value: &HostValue| {
        use HostValue::{Counter, Programs, TimedPrograms};
        matches!(value, Counter(_) | Programs(_) | TimedPrograms(_))
    };
    let of_paths = PATH.iter().filter(move |metric| is_of_path(&metric.value));
    let of_host = HOST.iter().filter(move |metric| is_of_host(&metric.value));
    let of_host = of_host.map(|metric| &metric.definition);
    of_paths.map(|metric| &metric.definition).chain(of_host).map(Definition::full_name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn all() -> Vec<&'static Definition> {
        let path = PATH.iter().map(|metric| &metric.definition);
        let host = HOST.iter().map(|metric| &metric.definition);
        let sources = [&SOURCE_POLLS, &SOURCE_ERRORS, &SOURCE_REFUSED, &SOURCE_SUCCESS];
        let sinks = [&EVENTS, &SINK_SENT, &SINK_REFUSED, &SINK_LOST, &SINK_SPOOLED];
        let sets = [&SET_PREFIXES, &SET_FAILING, &SET_READ];
        let traces = [&TRACE_LINES, &TRACE_WRITTEN, &TRACE_LOST, &TRACE_MISSED, &TRACE_FAILING];
        let others = sources.into_iter().chain(sets).chain(sinks).chain(traces);
        let others = others.chain([&OTLP_EXPORTS, &OTLP_REJECTED, &OTLP_SUCCESS]);
        let others = others.chain([&PODS_KNOWN, &PODS_FAILING, &PODS_ADOPTED, &PODS_FLOWS]);
        let others = others.chain([&PEER_UP, &PEER_AGE, &PEER_HEARD, &PEER_FAILED, &PEER_REFUSED]);
        let others =
            others.chain([&PEER_CERTIFICATE, &PEERS_CERTIFICATE, &PEERS_STRANGERS, &PAGE_REFUSED]);
        let others = others.chain([&PEERS_FAILING, &PEERS_FILE_ERRORS]);
        let others = others.chain([&EXPERIMENT_TUNED, &EXPERIMENT_PAIRS]);
        let others = others.chain([&EXPERIMENT_THROWN, &EXPERIMENT_VERDICT]);
        let others = others.chain([&DERIVED, &BUILD, &START]);
        path.chain(host).chain(others).collect()
    }

    #[test]
    fn names_are_unique_and_without_suffix() {
        let names: BTreeSet<_> = all().iter().map(|definition| definition.name).collect();
        assert_eq!(names.len(), all().len());
        for name in names {
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
            for suffix in ["_total", "_info", "_bytes", "_seconds"] {
                assert!(!name.ends_with(suffix), "{name}");
            }
        }
    }

    /// The reference in the book is made of that scrape.
    #[test]
    fn the_golden_scrape_lacks_none() {
        let scrape = include_str!("testdata/text.txt");
        for definition in all() {
            let name = definition.full_name();
            let is_there = ["", "_total", "_info"]
                .iter()
                .any(|end| scrape.contains(&format!("# HELP {name}{end} {}\n", definition.help)));
            assert!(is_there, "{name}");
        }
    }

    /// The formats escape help texts in different ways, the encoder not at all.
    #[test]
    fn help_needs_no_escape() {
        for definition in all() {
            assert!(!definition.help.contains(['\n', '\\', '"']), "{}", definition.name);
            assert!(!definition.help.contains("  "), "{}", definition.name);
        }
    }
}
