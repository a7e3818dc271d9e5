//! Every metric of wad, once: name, unit and help. The name has neither the unit
//! nor the `_total` or `_info` that the formats append.

use std::time::{Duration, SystemTime};

use prometheus_client::registry::Unit;
use wad_common::{counter::Counter, stats::PathStats};
use wad_tuning::{
    attachment::{Attachment, Part},
    readings::ProgramRuns,
};

use super::{
    PathNow, Readings,
    ends::{self, Ended, GOODPUT_BYTES_PER_SECOND, RETRANSMITTED, RTT_SECONDS},
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

use PathValue::{About, Counter as PerPath, Gauge, Histogram, Limited, Now, Reasons};

pub const PATH: &[PathMetric] = &[
    PathMetric {
        definition: Definition {
            name: "wad_connections_matched",
            unit: None,
            help: "Connections, made or accepted, that matched the path",
        },
        value: PerPath(|stats| stats.matched),
    },
    PathMetric {
        definition: Definition {
            name: "wad_flows_opened",
            unit: None,
            help: "Matched connections that were established",
        },
        value: PerPath(|stats| stats.opened),
    },
    PathMetric {
        definition: Definition {
            name: "wad_flows_closed",
            unit: None,
            help: "Established matched connections that closed, or left the path as it changed",
        },
        value: PerPath(|stats| stats.closed),
    },
    PathMetric {
        definition: Definition { name: "wad_flows_tuned", unit: None, help: "Tuned flows now" },
        value: Gauge(PathStats::tuned_now),
    },
    PathMetric {
        definition: Definition {
            name: "wad_flows_tuned_drift",
            unit: None,
            help: "Flows by which the count of tuned flows was found to differ from those that \
                   there are, and was put right; looked for twice a minute",
        },
        value: PerPath(|stats| stats.drift),
    },
    PathMetric {
        definition: Definition {
            name: "wad_flows_closed_unseen",
            unit: None,
            help: "Closed connections whose end was not seen, as another program on the cgroup \
                   had taken the callback that tells of it: found gone, and counted late",
        },
        value: PerPath(|stats| stats.unseen),
    },
    PathMetric {
        definition: Definition {
            name: "wad_flows_untuned",
            unit: None,
            help: "Matched flows not tuned as their policy says: left alone because of the path's \
                   max_flows (max_flows), or a setting was refused by the kernel (refused)",
        },
        value: Reasons(&[
            ("max_flows", |stats| stats.too_many),
            ("refused", |stats| stats.refused),
        ]),
    },
    PathMetric {
        definition: Definition {
            name: "wad_sent",
            unit: Some(Unit::Bytes),
            help: "Octets that peers acknowledged",
        },
        value: PerPath(|stats| stats.bytes_acked),
    },
    PathMetric {
        definition: Definition {
            name: "wad_received",
            unit: Some(Unit::Bytes),
            help: "Octets received in order",
        },
        value: PerPath(|stats| stats.bytes_received),
    },
    PathMetric {
        definition: Definition {
            name: "wad_segments_sent",
            unit: None,
            help: "Segments sent with data",
        },
        value: PerPath(|stats| stats.data_segs_out),
    },
    PathMetric {
        definition: Definition {
            name: "wad_segments_retransmitted",
            unit: None,
            help: "Segments retransmitted",
        },
        value: PerPath(|stats| stats.segs_retrans),
    },
    PathMetric {
        definition: Definition {
            name: "wad_path_rtt",
            unit: Some(Unit::Seconds),
            help: "Smoothed round-trip time of flows, when they ended",
        },
        value: Histogram(RTT_SECONDS, |ended| &ended.rtt),
    },
    PathMetric {
        definition: Definition {
            name: "wad_path_goodput_bytes_per_second",
            unit: None,
            help: "Octets per second that ended flows carried over their life, in the direction \
                   that carried more",
        },
        value: Histogram(GOODPUT_BYTES_PER_SECOND, |ended| &ended.goodput),
    },
    PathMetric {
        definition: Definition {
            name: "wad_path_retransmission_ratio",
            unit: None,
            help: "Segments that ended flows had to send again, of those with data",
        },
        value: Histogram(RETRANSMITTED, |ended| &ended.retransmitted),
    },
    PathMetric {
        definition: Definition {
            name: "wad_path_limited",
            unit: Some(Unit::Seconds),
            help: "Time that flows were held back by the congestion window or pacing (network), \
                   the window of the other end (receiver), their send buffer (send_buffer), or had \
                   nothing to send (application), as the flows that run have shown at scrapes",
        },
        value: Limited,
    },
    PathMetric {
        definition: Definition {
            name: "wad_path_measured_bandwidth_bytes_per_second",
            unit: None,
            help: "Bandwidth of the path as measured last, in octets per second",
        },
        value: Now(|now| now.measured_bytes_per_second),
    },
    PathMetric {
        definition: Definition {
            name: "wad_path_measured_rtt",
            unit: Some(Unit::Seconds),
            help: "Round-trip time of the path as measured last",
        },
        value: Now(|now| now.measured_rtt_seconds),
    },
    PathMetric {
        definition: Definition {
            name: "wad_path_measured_age",
            unit: Some(Unit::Seconds),
            help: "Age of the older of the two measurements",
        },
        value: Now(|now| now.measured_age_seconds),
    },
    PathMetric {
        definition: Definition {
            name: "wad_path_sndbuf",
            unit: Some(Unit::Bytes),
            help: "SO_SNDBUF that flows of the path get, or get at most where it grows",
        },
        value: Now(|now| now.sndbuf_bytes),
    },
    PathMetric {
        definition: Definition {
            name: "wad_path_rcvbuf",
            unit: Some(Unit::Bytes),
            help: "SO_RCVBUF that flows of the path get, or get at most where it grows",
        },
        value: Now(|now| now.rcvbuf_bytes),
    },
    PathMetric {
        definition: Definition {
            name: "wad_path",
            unit: None,
            help: "The path: the congestion control that its policy gives (empty for the kernel's \
                   default), and whether flows are tuned, observed, or left alone (disabled)",
        },
        value: About,
    },
];

pub const HOST: &[HostMetric] = &[
    HostMetric {
        definition: Definition {
            name: "wad_flows_without_storage",
            unit: None,
            help: "Matched connections left alone because the kernel had no socket storage",
        },
        value: HostValue::Counter(|readings| readings.counter(Counter::NoStorage)),
    },
    HostMetric {
        definition: Definition {
            name: "wad_events_lost",
            unit: None,
            help: "Events of flows that found the ring buffer full",
        },
        value: HostValue::Counter(|readings| readings.counter(Counter::EventsLost)),
    },
    HostMetric {
        definition: Definition {
            name: "wad_mptcp_subflows",
            unit: None,
            help: "Multipath TCP subflows, which are left alone",
        },
        value: HostValue::Counter(|readings| readings.counter(Counter::MptcpSubflows)),
    },
    HostMetric {
        definition: Definition {
            name: "wad_buffer_divisions",
            unit: None,
            help: "Flows that came to or left a path that divides its buffers",
        },
        value: HostValue::Counter(|readings| readings.counter(Counter::Divisions)),
    },
    HostMetric {
        definition: Definition {
            name: "wad_memory_held",
            unit: Some(Unit::Bytes),
            help: "Memory that all TCP sockets of the host hold, as the kernel counts it",
        },
        value: HostValue::Gauge(|readings| readings.memory.held_bytes),
    },
    HostMetric {
        definition: Definition {
            name: "wad_memory_limit",
            unit: Some(Unit::Bytes),
            help: "Memory that they are to hold at most (limits.max_memory): near it buffers of \
                   tuned flows grow no more, beyond it the largest shrink",
        },
        value: HostValue::Gauge(|readings| readings.memory.limit_bytes),
    },
    HostMetric {
        definition: Definition {
            name: "wad_memory_near_limit",
            unit: Some(Unit::Seconds),
            help: "Time in which buffers did not grow for want of memory",
        },
        value: HostValue::Duration(|readings| readings.memory.near_limit),
    },
    HostMetric {
        definition: Definition {
            name: "wad_memory_over_limit",
            unit: Some(Unit::Seconds),
            help: "Time in which the largest buffers shrank for want of memory",
        },
        value: HostValue::Duration(|readings| readings.memory.over_limit),
    },
    HostMetric {
        definition: Definition {
            name: "wad_namespaces_skipped",
            unit: None,
            help: "Network namespaces that passes over running flows left out, as they could not \
                   be entered (closed), or not be found by any process or mount (missing), or are \
                   those of processes that wad may not look at (unseen)",
        },
        value: HostValue::Results(&[
            ("closed", |readings| readings.skipped.closed),
            ("missing", |readings| readings.skipped.missing),
            ("unseen", |readings| readings.skipped.unseen),
        ]),
    },
    HostMetric {
        definition: Definition {
            name: "wad_attached",
            unit: None,
            help: "Whether a part of wad in the kernel is where it belongs: the program that tunes \
                   new flows, on its cgroup (tuner), that for override_setsockopt (options), wad's \
                   congestion controls (laws), and what keeps all of them when the agent ends (pins)",
        },
        value: HostValue::Parts(|attachment, part| attachment.has(part).into()),
    },
    HostMetric {
        definition: Definition {
            name: "wad_reattachments",
            unit: None,
            help: "Times that such a part was put back which others had taken off",
        },
        value: HostValue::CountedParts(Attachment::put_back),
    },
    HostMetric {
        definition: Definition {
            name: "wad_shortages",
            unit: None,
            help: "Times that something failed for want of descriptors, threads or memory; the log \
                   says what",
        },
        value: HostValue::Shortages,
    },
    HostMetric {
        definition: Definition {
            name: "wad_policy_generation",
            unit: None,
            help: "Number of the policy set in force; it rises with each reload",
        },
        value: HostValue::Gauge(|readings| readings.generation),
    },
    HostMetric {
        definition: Definition {
            name: "wad_paths_disabled",
            unit: None,
            help: "Paths whose flows are left alone until they are enabled again",
        },
        value: HostValue::Gauge(Readings::paths_disabled),
    },
    HostMetric {
        definition: Definition {
            name: "wad_config_reloads",
            unit: None,
            help: "Times that the configuration was read again: put in force (applied), wrong or in \
                   need of a restart (refused), or put back because this host would not have it \
                   (failed)",
        },
        value: HostValue::Results(&[
            ("applied", |readings| readings.reloads.applied),
            ("refused", |readings| readings.reloads.refused),
            ("failed", |readings| readings.reloads.failed),
        ]),
    },
    HostMetric {
        definition: Definition {
            name: "wad_config_last_reload_successful",
            unit: None,
            help: "Whether what is in force is what the configuration said when last read",
        },
        value: HostValue::Gauge(|readings| u64::from(!readings.reloads.is_behind)),
    },
    HostMetric {
        definition: Definition {
            name: "wad_config_loaded_timestamp",
            unit: Some(Unit::Seconds),
            help: "When the configuration in force was read, since the Unix epoch",
        },
        value: HostValue::Time(|readings| readings.reloads.loaded),
    },
    HostMetric {
        definition: Definition {
            name: "wad_paths_measured",
            unit: None,
            help: "Paths of mode measured whose bandwidth or RTT is measured and not too old",
        },
        value: HostValue::Gauge(|readings| readings.paths_measured.fresh),
    },
    HostMetric {
        definition: Definition {
            name: "wad_paths_not_measured",
            unit: None,
            help: "Paths of mode measured that have what the configuration says of them",
        },
        value: HostValue::Gauge(|readings| readings.paths_measured.stale),
    },
    HostMetric {
        definition: Definition {
            name: "wad_routes",
            unit: None,
            help: "Copies of routes, with metrics of paths ([host] routes)",
        },
        value: HostValue::Gauge(|readings| readings.routes.copies),
    },
    HostMetric {
        definition: Definition {
            name: "wad_routes_refused",
            unit: None,
            help: "Routes of paths with such metrics that are left alone; the log names the reasons",
        },
        value: HostValue::Gauge(|readings| readings.routes.refused),
    },
    HostMetric {
        definition: Definition {
            name: "wad_event_loop_delay",
            unit: Some(Unit::Seconds),
            help: "How late the agent came to what was due, looked at once a second: so long \
                   events, reloads and answers waited",
        },
        value: HostValue::Histogram(ends::DELAY_SECONDS, |readings| &readings.delays.of),
    },
    HostMetric {
        definition: Definition {
            name: "wad_bpf_program_run",
            unit: Some(Unit::Seconds),
            help: "Time that the kernel has spent in a program of wad while applications waited, or \
                   in all that a congestion control consists of; counted while the setting \
                   kernel.bpf_stats_enabled is 1, which wad never changes",
        },
        value: HostValue::TimedPrograms(|program| program.time),
    },
    HostMetric {
        definition: Definition {
            name: "wad_bpf_program_runs",
            unit: None,
            help: "Times that the kernel has run it, counted in the same way",
        },
        value: HostValue::Programs(|program| program.count),
    },
    // These are named as every Prometheus client does.
    HostMetric {
        definition: Definition {
            name: "process_cpu",
            unit: Some(Unit::Seconds),
            help: "Time of processors that the agent took, in user and system mode",
        },
        value: HostValue::ToldDuration(|readings| readings.process.cpu),
    },
    HostMetric {
        definition: Definition {
            name: "process_resident_memory",
            unit: Some(Unit::Bytes),
            help: "Memory of the agent that is resident; BPF maps are not in it",
        },
        value: HostValue::Told(|readings| readings.process.resident_bytes),
    },
    HostMetric {
        definition: Definition {
            name: "process_open_fds",
            unit: None,
            help: "Open file descriptors of the agent",
        },
        value: HostValue::Told(|readings| readings.process.open_descriptors),
    },
    HostMetric {
        definition: Definition {
            name: "process_max_fds",
            unit: None,
            help: "File descriptors that the agent may have (RLIMIT_NOFILE)",
        },
        value: HostValue::Told(|readings| readings.process.max_descriptors),
    },
];

/// Returns the full names of what the kernel counts for one agent after the other; other
/// counts begin with the agent.
pub fn counted_by_the_kernel() -> impl Iterator<Item = String> {
    let is_of_path = |value: &PathValue| matches!(value, PerPath(_) | Reasons(_));
    let is_of_host = |value: &HostValue| {
        use HostValue::{Counter, Programs, TimedPrograms};
        matches!(value, Counter(_) | Programs(_) | TimedPrograms(_))
    };
    let of_paths = PATH.iter().filter(move |metric| is_of_path(&metric.value));
    let of_host = HOST.iter().filter(move |metric| is_of_host(&metric.value));
    let of_host = of_host.map(|metric| &metric.definition);
    of_paths.map(|metric| &metric.definition).chain(of_host).map(Definition::full_name)
}

/// The metric has the label `source`.
pub const SOURCE_POLLS: Definition =
    Definition { name: "wad_source_polls", unit: None, help: "Polls of a source of path metrics" };

/// The metric has the labels `source` and `kind`.
pub const SOURCE_ERRORS: Definition = Definition {
    name: "wad_source_errors",
    unit: None,
    help: "What was wrong with a source of path metrics, or with a value of it, by kind",
};

/// The metric has the labels `source` and `reason`.
pub const SOURCE_REFUSED: Definition = Definition {
    name: "wad_source_refused_values",
    unit: None,
    help: "Values of a source that do not count: too far from the configuration's own (band), far \
           from the one that holds and not confirmed (jump), or dated ahead of now (future)",
};

/// The metric has the label `source`.
pub const SOURCE_SUCCESS: Definition = Definition {
    name: "wad_source_last_success_timestamp",
    unit: Some(Unit::Seconds),
    help: "When a source of path metrics last gave a value, since the Unix epoch",
};

/// The metric has the label `set`.
pub const SET_PREFIXES: Definition = Definition {
    name: "wad_set_prefixes",
    unit: None,
    help: "Prefixes of a set that are in force",
};

/// The metric has the label `set`.
pub const SET_FAILING: Definition = Definition {
    name: "wad_set_failing",
    unit: None,
    help: "1 where the list of a set cannot be read or is not taken, and the last good one holds",
};

/// The metric has the label `set`.
pub const SET_READ: Definition = Definition {
    name: "wad_set_read_timestamp",
    unit: Some(Unit::Seconds),
    help: "When the list that a set holds was read, since the Unix epoch; that of a file is read \
           when it has changed",
};

pub const PODS_KNOWN: Definition =
    Definition { name: "wad_pods", unit: None, help: "Pods of this node that the agent knows" };

pub const PODS_FAILING: Definition = Definition {
    name: "wad_pods_failing",
    unit: None,
    help: "1 where paths have `pods`, and neither the kubelet nor the API server says which pods \
           this node has: those hold that were known last",
};

pub const PODS_ADOPTED: Definition = Definition {
    name: "wad_pods_flows_adopted",
    unit: None,
    help: "Connections that came under their path while they ran, as the agent heard only then of \
           their pod or of its labels",
};

/// The metric has the label `namespace`.
pub const PODS_FLOWS: Definition = Definition {
    name: "wad_pods_flows",
    unit: None,
    help: "Connections on paths now, by the namespace of their pod; those of namespaces beyond the \
           first 100 that have any together as other",
};

/// The metric has the label `event`.
pub const EVENTS: Definition = Definition {
    name: "wad_events",
    unit: None,
    help: "Events of flows that sinks were told, by name",
};

/// The metric has the label `sink`.
pub const SINK_SENT: Definition = Definition {
    name: "wad_sink_sent",
    unit: None,
    help: "Events that a sink has taken, since the start of the agent",
};

/// The metric has the label `sink`.
pub const SINK_REFUSED: Definition = Definition {
    name: "wad_sink_refused",
    unit: None,
    help: "Events that a sink refuses for good (4xx), and that are set aside in the file \
           SINK.refused.jsonl beside its spool, since the start of the agent",
};

/// The metric has the labels `sink` and `reason`.
pub const SINK_LOST: Definition = Definition {
    name: "wad_sink_lost",
    unit: None,
    help: "Events that a sink never gets: they came too fast (queue), its spool was full (spool), \
           the disk did not take them (disk), they cannot be read any more (damaged), or it \
           refuses them for good and no more can be set aside (refused)",
};

/// The metric has the label `sink`.
pub const SINK_SPOOLED: Definition = Definition {
    name: "wad_sink_spooled",
    unit: Some(Unit::Bytes),
    help: "Events that a sink has still to take",
};

/// The metric has the label `trace`.
pub const TRACE_LINES: Definition =
    Definition { name: "wad_trace_lines", unit: None, help: "Lines that a trace has written" };

/// The metric has the label `trace`.
pub const TRACE_WRITTEN: Definition = Definition {
    name: "wad_trace_written",
    unit: Some(Unit::Bytes),
    help: "Size of the lines that a trace has written, packed if they are",
};

/// The metric has the label `trace`.
pub const TRACE_LOST: Definition = Definition {
    name: "wad_trace_lost_lines",
    unit: None,
    help: "Lines of a trace that could not be written",
};

/// The metric has the label `trace`.
pub const TRACE_MISSED: Definition = Definition {
    name: "wad_trace_missed_readings",
    unit: None,
    help: "Readings of a trace that should have been",
};

/// The metric has the label `trace`.
pub const TRACE_FAILING: Definition = Definition {
    name: "wad_trace_failing",
    unit: None,
    help: "1 where a trace cannot be written, or its flows cannot be read; it is tried again",
};

/// The metric has the label `result`.
pub const OTLP_EXPORTS: Definition = Definition {
    name: "wad_otlp_exports",
    unit: None,
    help: "Exports of the metrics by OTLP that the service has taken (sent), or that were given up \
           when it refused them or the next was due (failed)",
};

pub const OTLP_REJECTED: Definition = Definition {
    name: "wad_otlp_rejected_points",
    unit: None,
    help: "Data points that the service left out of exports which it has taken; the log says why",
};

pub const OTLP_SUCCESS: Definition = Definition {
    name: "wad_otlp_last_success_timestamp",
    unit: Some(Unit::Seconds),
    help: "When the service last took an export, since the Unix epoch",
};

/// The metric has the labels `path` and `name`.
pub const DERIVED: Definition = Definition {
    name: "wad_path_derived",
    unit: None,
    help: "Mean of a derived event over the flows of the path that run",
};

pub const BUILD: Definition =
    Definition { name: "wad_build", unit: None, help: "Version of the agent" };

/// Named as every Prometheus client does.
pub const START: Definition = Definition {
    name: "process_start_time",
    unit: Some(Unit::Seconds),
    help: "Start of the agent since the Unix epoch",
};

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
