//! Every metric of probes, once: name, unit, help and value.

use jiff::Timestamp;
use prometheus_client::registry::Unit;
use wad_observing::metrics::Definition;

use crate::{
    archive::{Latest, State},
    measurement::{Bandwidth, Measurement, Share},
    row::{Ending, Hindrance, Row},
    schedule::Reservations,
};

/// A gauge with a series per task, left out where it is not known. Its labels are `task`,
/// `path`, which is empty where the task names none, `host` and `tool`.
pub struct TaskMetric {
    pub definition: Definition,
    pub value: fn(&Latest) -> Option<f64>,
}

/// All that the service counts.
#[derive(Debug)]
pub struct Counts {
    pub archive: State,
    pub reservations: Reservations,
}

/// The value of a metric of the service.
pub enum Service {
    Counter(fn(&Counts) -> u64),
    Gauge(fn(&Counts) -> u64),
    /// Counters by a label.
    Counters(&'static str, fn(&Counts) -> Vec<(&'static str, u64)>),
    /// Gauges by a label.
    Gauges(&'static str, fn(&Counts) -> Vec<(&'static str, u64)>),
}

const fn task(
    name: &'static str,
    unit: Option<Unit>,
    help: &'static str,
    value: fn(&Latest) -> Option<f64>,
) -> TaskMetric {
    TaskMetric { definition: Definition { name, unit, help }, value }
}

pub const TASK: &[TaskMetric] = &[
    task(
        "wad_probe_up",
        None,
        "1 where the task's last period gave a measurement, 0 where it ended otherwise",
        |latest| Some(f64::from(matches!(latest.last.ending, Ending::Measured(_)))),
    ),
    task(
        "wad_probe_period_timestamp",
        Some(Unit::Seconds),
        "When the task's last period began that has ended, since the Unix epoch",
        |latest| Some(seconds(latest.last.period)),
    ),
    task(
        "wad_probe_measured_timestamp",
        Some(Unit::Seconds),
        "When the run ended that gave the last measurement, since the Unix epoch: the metrics \
         below are of that run",
        |latest| latest.measured.as_ref().map(ended_seconds),
    ),
    task(
        "wad_probe_took",
        Some(Unit::Seconds),
        "What the run of the last measurement took",
        |latest| Some(latest.measured.as_ref()?.took.as_secs_f64()),
    ),
    task(
        "wad_probe_spent",
        Some(Unit::Bytes),
        "What the run of the last measurement sent and received",
        |latest| Some(measurement(latest)?.spent_bytes as f64),
    ),
    task("wad_probe_rtt_min", Some(Unit::Seconds), "The least round trip time", |latest| {
        Some(measurement(latest)?.rtt?.min_seconds)
    }),
    task("wad_probe_rtt_median", Some(Unit::Seconds), "The median round trip time", |latest| {
        Some(measurement(latest)?.rtt?.median_seconds)
    }),
    task("wad_probe_rtt_max", Some(Unit::Seconds), "The greatest round trip time", |latest| {
        Some(measurement(latest)?.rtt?.max_seconds)
    }),
    task(
        "wad_probe_loss_ratio",
        None,
        "Of the packets sent, those that never came, as a fraction",
        |latest| measurement(latest)?.loss.and_then(Share::fraction),
    ),
    task(
        "wad_probe_reordering_ratio",
        None,
        "Of the packets that came, those that came after a later one, as a fraction",
        |latest| measurement(latest)?.reordering.and_then(Share::fraction),
    ),
    task(
        "wad_probe_path_mtu",
        Some(Unit::Bytes),
        "The largest IP packet that gets through whole",
        |latest| measurement(latest)?.path_mtu_bytes.map(f64::from),
    ),
    task(
        "wad_probe_bandwidth_bytes_per_second",
        None,
        "What a transfer got, in bytes per second",
        |latest| Some(bandwidth(latest)?.bits_per_second / 8.0),
    ),
    task(
        "wad_probe_bandwidth_converged",
        None,
        "1 where the bandwidth is what the path carries, 0 where the path may carry more, as \
         something else was the limit",
        |latest| Some(f64::from(!bandwidth(latest)?.is_least())),
    ),
    task(
        "wad_probe_loaded_rtt_median",
        Some(Unit::Seconds),
        "The median round trip time while the transfer ran",
        |latest| Some(bandwidth(latest)?.loaded_rtt?.median_seconds),
    ),
    task("wad_probe_retransmitted", Some(Unit::Bytes), "What the transfer sent again", |latest| {
        Some(bandwidth(latest)?.retransmitted_bytes? as f64)
    }),
];

pub const SERVICE: &[(Definition, Service)] = &[
    (
        Definition {
            name: "wad_probe_periods",
            unit: None,
            help: "Periods of tasks, by how they ended",
        },
        Service::Counters("ending", |counts| {
            Ending::WORDS.into_iter().zip(counts.archive.endings).collect()
        }),
    ),
    (
        Definition {
            name: "wad_probe_missed_periods",
            unit: None,
            help: "Periods in which no run started, by what kept it from that",
        },
        Service::Counters("reason", |counts| {
            Hindrance::WORDS.into_iter().zip(counts.archive.hindrances).collect()
        }),
    ),
    (
        Definition {
            name: "wad_probe_spent_on_measurements",
            unit: Some(Unit::Bytes),
            help: "What runs that gave a measurement sent and received",
        },
        Service::Counter(|counts| counts.archive.spent_bytes),
    ),
    (
        Definition {
            name: "wad_probe_reservations",
            unit: None,
            help: "Times that peers were asked to keep locks for a run, by what came of it",
        },
        Service::Counters("outcome", |counts| {
            let Reservations { granted, refused, unanswered, .. } = counts.reservations;
            vec![("granted", granted), ("refused", refused), ("unanswered", unanswered)]
        }),
    ),
    (
        Definition {
            name: "wad_probe_peer_reservations",
            unit: None,
            help: "Times that peers asked to keep locks for their runs, by what came of it; those \
                   that expired were granted, and never said to be over",
        },
        Service::Counters("outcome", |counts| {
            let Reservations { given, declined, expired, .. } = counts.reservations;
            vec![("granted", given), ("refused", declined), ("expired", expired)]
        }),
    ),
    (
        Definition {
            name: "wad_probe_peer_reservations_held",
            unit: None,
            help: "Runs of peers that locks are kept for now",
        },
        Service::Gauge(|counts| counts.reservations.held as u64),
    ),
    (
        Definition {
            name: "wad_probe_archive_written_rows",
            unit: None,
            help: "Results that were written to the archive",
        },
        Service::Counter(|counts| counts.archive.written),
    ),
    (
        Definition {
            name: "wad_probe_archive_lost_rows",
            unit: None,
            help: "Results that could not be written, and for which there was no room in memory",
        },
        Service::Counter(|counts| counts.archive.lost),
    ),
    (
        Definition {
            name: "wad_probe_archive_waiting_rows",
            unit: None,
            help: "Results that wait in memory, as the archive cannot be written to",
        },
        Service::Gauge(|counts| counts.archive.waiting as u64),
    ),
    (
        Definition {
            name: "wad_probe_archive_failing",
            unit: None,
            help: "1 where the archive could not be written to the last time",
        },
        Service::Gauge(|counts| u64::from(counts.archive.failing.is_some())),
    ),
    (
        Definition {
            name: "wad_probe_archive_set_aside_files",
            unit: None,
            help: "Archives that were damaged, or of a later version, and were set aside",
        },
        Service::Counter(|counts| counts.archive.set_aside.len() as u64),
    ),
    (
        Definition {
            name: "wad_probe_archive_size",
            unit: Some(Unit::Bytes),
            help: "The archive's size, by part: rows, free pages for more of them, and the log of \
                   what is not in the file yet",
        },
        Service::Gauges("part", |counts| {
            let rows = counts.archive.file_bytes.saturating_sub(counts.archive.free_bytes);
            vec![
                ("rows", rows),
                ("free", counts.archive.free_bytes),
                ("log", counts.archive.log_bytes),
            ]
        }),
    ),
];

fn measurement(latest: &Latest) -> Option<&Measurement> {
    match &latest.measured.as_ref()?.ending {
        Ending::Measured(measurement) => Some(measurement),
        _ => None,
    }
}

fn bandwidth(latest: &Latest) -> Option<&Bandwidth> {
    measurement(latest)?.bandwidth.as_ref()
}

fn ended_seconds(row: &Row) -> f64 {
    seconds(row.started.unwrap_or(row.period)) + row.took.as_secs_f64()
}

fn seconds(time: Timestamp) -> f64 {
    time.as_microsecond() as f64 / 1e6
}
