//! The metrics of the host and of the agent.

use prometheus_client::registry::Unit;
use wad_common::counter::Counter;
use wad_tuning::attachment::Attachment;

use super::{
    super::{Readings, ends},
    Definition, HostMetric, HostValue,
};

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
