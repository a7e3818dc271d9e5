//! The metrics that have a series for each path.

use prometheus_client::registry::Unit;
use wad_common::stats::PathStats;

use super::{
    super::ends::{GOODPUT_BYTES_PER_SECOND, RETRANSMITTED, RTT_SECONDS},
    Definition, PathMetric,
    PathValue::{About, Counter, Gauge, Histogram, Limited, Now, Reasons},
};

pub const PATH: &[PathMetric] = &[
    PathMetric {
        definition: Definition {
            name: "wad_connections_matched",
            unit: None,
            help: "Connections, made or accepted, that matched the path",
        },
        value: Counter(|stats| stats.matched),
    },
    PathMetric {
        definition: Definition {
            name: "wad_flows_opened",
            unit: None,
            help: "Matched connections that were established",
        },
        value: Counter(|stats| stats.opened),
    },
    PathMetric {
        definition: Definition {
            name: "wad_flows_closed",
            unit: None,
            help: "Established matched connections that closed, or left the path as it changed",
        },
        value: Counter(|stats| stats.closed),
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
        value: Counter(|stats| stats.drift),
    },
    PathMetric {
        definition: Definition {
            name: "wad_flows_closed_unseen",
            unit: None,
            help: "Closed connections whose end was not seen, as another program on the cgroup \
                   had taken the callback that tells of it: found gone, and counted late",
        },
        value: Counter(|stats| stats.unseen),
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
            name: "wad_resume_jumps",
            unit: None,
            help: "Jumps of flows to half of what was known of the path's capacity (RFC 9959), at \
                   their beginning or after a pause, that they made use of",
        },
        value: Counter(|stats| stats.jumps),
    },
    PathMetric {
        definition: Definition {
            name: "wad_resume_retreats",
            unit: None,
            help: "Jumps that were too far: packets of theirs were lost, and the flow went back \
                   below what had been acknowledged",
        },
        value: Counter(|stats| stats.retreats),
    },
    PathMetric {
        definition: Definition {
            name: "wad_sent",
            unit: Some(Unit::Bytes),
            help: "Octets that peers acknowledged",
        },
        value: Counter(|stats| stats.bytes_acked),
    },
    PathMetric {
        definition: Definition {
            name: "wad_received",
            unit: Some(Unit::Bytes),
            help: "Octets received in order",
        },
        value: Counter(|stats| stats.bytes_received),
    },
    PathMetric {
        definition: Definition {
            name: "wad_segments_sent",
            unit: None,
            help: "Segments sent with data",
        },
        value: Counter(|stats| stats.data_segs_out),
    },
    PathMetric {
        definition: Definition {
            name: "wad_segments_retransmitted",
            unit: None,
            help: "Segments retransmitted",
        },
        value: Counter(|stats| stats.segs_retrans),
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
