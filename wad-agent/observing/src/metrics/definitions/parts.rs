//! The metrics of what a configuration may have several of, or none: sources, sets, sinks and so
//! on; and of the agent's version and start.

use prometheus_client::registry::Unit;

use super::Definition;

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

/// The metric has the label `path`, as the next three.
pub const EXPERIMENT_TUNED: Definition = Definition {
    name: "wad_experiment_tuned",
    unit: None,
    help: "1 where new connections of a path with an experiment get its policy, 0 where they are \
           left at the defaults for a block of it; left out once it is over",
};

pub const EXPERIMENT_PAIRS: Definition = Definition {
    name: "wad_experiment_pairs",
    unit: None,
    help: "Pairs of blocks of an experiment that count",
};

pub const EXPERIMENT_THROWN: Definition = Definition {
    name: "wad_experiment_blocks_thrown",
    unit: None,
    help: "Blocks of an experiment that do not count, as nobody watched them to their end or the \
           clock was set",
};

pub const EXPERIMENT_VERDICT: Definition = Definition {
    name: "wad_experiment_verdict",
    unit: None,
    help: "What an experiment says of goodput: 1 for better with the policy, 0 for equal, -1 for \
           worse; left out while there is no verdict",
};

/// The metric has the label `path`, as the next two.
pub const GUARD_SHARE: Definition = Definition {
    name: "wad_guard_share",
    unit: None,
    help: "The part of new connections of a guarded path that its policy is for: 0 while the guard \
           holds it back",
};

pub const GUARD_TRIPS: Definition = Definition {
    name: "wad_guard_trips",
    unit: None,
    help: "Times that a path's guard has found that its policy hurts; in a dry run nothing came of \
           it",
};

pub const GUARD_SUSPICION: Definition = Definition {
    name: "wad_guard_suspicion",
    unit: None,
    help: "How far the worst signal of a guarded path is towards the bound at which it trips, \
           which is 1",
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

/// The metric has the label `pod_namespace`.
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

/// The metric has the label `peer`, as have those below.
pub const PEER_UP: Definition = Definition {
    name: "wad_peer_up",
    unit: None,
    help: "1 where what the peer said last still counts",
};

pub const PEER_AGE: Definition = Definition {
    name: "wad_peer_age",
    unit: Some(Unit::Seconds),
    help: "Age of what the peer said last, as long as it counts",
};

pub const PEER_HEARD: Definition =
    Definition { name: "wad_peer_heard", unit: None, help: "Times that the peer was heard" };

pub const PEER_FAILED: Definition = Definition {
    name: "wad_peer_failed",
    unit: None,
    help: "Times that the peer could not be asked; `wad peer status` says why",
};

/// The metric has the label `reason`, too.
pub const PEER_REFUSED: Definition = Definition {
    name: "wad_peer_refused",
    unit: None,
    help: "Times that the peer was not heard, by why",
};

pub const PEER_CERTIFICATE: Definition = Definition {
    name: "wad_peer_certificate_end_timestamp",
    unit: Some(Unit::Seconds),
    help: "When the certificate ends that the peer showed last, since the Unix epoch",
};

/// The metric has the label `reason`.
pub const PEERS_STRANGERS: Definition = Definition {
    name: "wad_peers_strangers_refused",
    unit: None,
    help: "Connections of those that are no peer, or not known to be one, by why they were not \
           heard",
};

pub const PEERS_CERTIFICATE: Definition = Definition {
    name: "wad_peers_own_certificate_end_timestamp",
    unit: Some(Unit::Seconds),
    help: "When the certificate of this end ends, since the Unix epoch",
};

pub const PEERS_FAILING: Definition = Definition {
    name: "wad_peers_files_failing",
    unit: None,
    help: "1 where the key, the certificate or the authorities of [peers] cannot be used; those \
           before are, if there were any",
};

pub const PEERS_FILE_ERRORS: Definition = Definition {
    name: "wad_peers_file_errors",
    unit: None,
    help: "Times that the files of [peers] could not be used",
};

/// The metric has the label `reason`.
pub const PAGE_REFUSED: Definition = Definition {
    name: "wad_page_refused",
    unit: None,
    help: "Requests to the page that were not answered, and clients that were too slow, by why",
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
