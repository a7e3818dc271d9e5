//! Readings for tests.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use wad_common::{
    senders::Senders,
    stats::{PathStats, Walk},
};
use wad_evidence::{plan::Arm, verdict::Verdict};
use wad_linux::{netns::Skipped, own_process::Usage};
use wad_tuning::{
    attachment::{Attachment, Part},
    journal::Change,
    readings::{PathReading, PathState, ProgramRuns},
    routes,
};

use super::{
    Delays, DerivedMeans, Ended, ExperimentReading, GuardReading, Memory, OtlpReading, PageReading,
    PathNow, PathsMeasured, PeerReading, PeersReading, PodsReading, Readings, Reloads, SetReading,
    SinkReading, SourceReading, TraceReading, ends::Histogram,
};

pub fn path(name: &str, stats: PathStats) -> PathReading {
    PathReading {
        name: name.into(),
        state: PathState::Tuned,
        max_flows: 1000,
        stats,
        refused: vec![],
    }
}

/// Two paths, of which one has seen flows, and numbers that are all different.
pub fn example() -> Readings {
    let stats = PathStats {
        matched: 14,
        opened: 13,
        closed: 12,
        admitted: 16,
        released: 15,
        too_many: 3,
        refused: 4,
        bytes_acked: 10_737_418_240,
        bytes_received: 1_048_577,
        data_segs_out: 7_415_345,
        segs_retrans: 380,
        srtt_us: 75_125,
        senders: Senders::default(),
        drift: 32,
        unseen: 33,
        jumps: 37,
        retreats: 36,
        walk: Walk::default(),
    };
    Readings {
        paths: vec![path("bob", stats), path("a \"quoted\\\nname", PathStats::default())],
        counters: [5, 6, 12, 7, 8],
        generation: 3,
        memory: Memory {
            held_bytes: 16_777_216,
            limit_bytes: 2_147_483_648,
            near_limit: Duration::from_secs(31),
            over_limit: Duration::from_millis(29_250),
        },
        skipped: Skipped { closed: 34, missing: 35, unseen: 36 },
        changes: vec![Change::Sysctl {
            namespace: None,
            key: "net.core.rmem_max".to_owned(),
            before: "212992".to_owned(),
            after: "6571899".to_owned(),
        }],
        refusals: Vec::new(),
        too_low: Vec::new(),
        reloads: Reloads {
            applied: 8,
            refused: 9,
            failed: 11,
            is_behind: false,
            loaded: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_001_500)),
        },
        all_disabled: false,
        sources: vec![SourceReading {
            name: "monitor".to_owned(),
            polls: 21,
            errors: vec![("tls", 8), ("empty", 9)],
            refused: vec![("band", 29), ("jump", 30)],
            last_success: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1_500)),
        }],
        sets: vec![SetReading {
            name: "aws".to_owned(),
            prefixes: 36,
            read_at: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(2_500)),
            failing: None,
        }],
        experiments: vec![ExperimentReading {
            path: "bob".to_owned(),
            is_over: false,
            ends: Timestamp::UNIX_EPOCH,
            arm: Some(Arm::Tuned),
            pairs: 106,
            blocks: 5_040,
            thrown: 107,
            verdict: Some(Verdict::Better),
        }],
        guards: vec![GuardReading {
            path: "bob".to_owned(),
            share: 0.25,
            trips: 108,
            suspicion: 0.5,
        }],
        pods: Some(PodsReading {
            known: 47,
            origin: Some("kubelet"),
            lacking: None,
            is_failing: false,
            adopted: 48,
            flows: [("default".into(), 49), ("transfer".into(), 50)].into(),
        }),
        events: vec![("open", 23), ("closed", 24)],
        sinks: vec![SinkReading {
            name: "archive".to_owned(),
            kind: "http",
            sent: 25,
            refused: 29,
            lost: vec![("queue", 26), ("spool", 27)],
            spooled_bytes: 28,
            failing: None,
        }],
        traces: vec![TraceReading {
            name: "tokyo".to_owned(),
            file: "/var/log/wad/tokyo.jsonl".into(),
            lines: 40,
            bytes: 41,
            lost_lines: 42,
            missed_readings: 43,
            failing: None,
        }],
        otlp: Some(OtlpReading {
            url: "http://collector:4318/v1/metrics".to_owned(),
            sent: 44,
            failed: 45,
            rejected_points: 46,
            last_success: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(3_500)),
            failing: None,
        }),
        peers: Some(PeersReading {
            certificate_ends: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)),
            files_failing: None,
            file_errors: 51,
            strangers: vec![("untrusted", 52), ("crowded", 53)],
            peers: vec![PeerReading {
                name: "tokyo".to_owned(),
                age_seconds: Some(4.5),
                silent_seconds: None,
                heard: 54,
                failed: 55,
                refused: vec![("busy", 56), ("out-of-range", 57)],
                failing: None,
                certificate_ends: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_001)),
            }],
        }),
        page: Some(PageReading {
            address: "http://127.0.0.1:9467/".to_owned(),
            refused: vec![("method", 58), ("host", 59), ("origin", 60), ("slow", 61)],
        }),
        counting_since: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1_600_000_000_750)),
        paths_measured: PathsMeasured { fresh: 10, stale: 11 },
        routes: routes::Counts { copies: 22, refused: 2 },
        shortages: [32, 33, 34],
        attachment: {
            let mut attachment = Attachment::default();
            attachment.count(Part::Laws);
            attachment
        },
        now: HashMap::from([(
            "bob".into(),
            PathNow {
                measured_bytes_per_second: Some(1.25e8),
                measured_rtt_seconds: Some(0.075),
                measured_age_seconds: Some(12.5),
                sndbuf_bytes: Some(7_502_478.0),
                rcvbuf_bytes: Some(13_143_798.0),
                congestion: "wad_aimd".to_owned(),
            },
        )]),
        ended: HashMap::from([(
            "bob".into(),
            Ended {
                rtt: Histogram { buckets: [1, 2, 8, 1], sum: 1.25 },
                goodput: Histogram { buckets: [9, 2, 0, 1], sum: 2.5e8 },
                retransmitted: Histogram { buckets: [5, 4, 3, 0], sum: 0.0625 },
            },
        )]),
        limited: HashMap::from([("bob".to_owned(), [1.5, 2.25, 0.0, 3.0])]),
        derived: DerivedMeans {
            names: vec!["AveBW".to_owned(), "Loss".to_owned()],
            means: HashMap::from([("bob".to_owned(), vec![Some(2.5e9), None])]),
        },
        process: Usage {
            cpu: Some(Duration::from_millis(37_500)),
            resident_bytes: Some(41_943_040),
            open_descriptors: Some(38),
            max_descriptors: Some(524_288),
        },
        delays: Delays { of: Histogram { buckets: [39, 3, 2, 1], sum: 4.5 } },
        programs: vec![
            ProgramRuns {
                name: "tuner".to_owned(),
                time: Duration::from_millis(1_250),
                count: 1_000_001,
            },
            ProgramRuns {
                name: "wad_aimd".to_owned(),
                time: Duration::from_millis(2_750),
                count: 20_000_002,
            },
        ],
    }
}
