//! Answers as JSON. A value carries its age, not the time at which it was measured: whoever
//! asks may have another clock.

use std::net::IpAddr;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    archive::{Bucket, Latest},
    measurement::{Bandwidth, Confidence, Measurement, Share},
    row::{Ending, Hindrance, Row},
};

/// How periods of tasks ended, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Runs {
    pub runs: Vec<Run>,
}

/// How one period of one task ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    pub task: String,
    /// The path of the configuration that it measures.
    pub path: Option<String>,
    /// The other end, as the task names it.
    pub host: String,
    /// The address that the name had.
    pub address: Option<IpAddr>,
    pub tool: String,
    /// When the period began, or the first of several.
    pub period: Timestamp,
    /// More than 1 for those that passed while there was no service.
    #[serde(default = "one")]
    pub periods: u64,
    /// When the run started; null where it did not.
    pub started: Option<Timestamp>,
    pub took_seconds: f64,
    /// `measured`, `missed`, `refused`, `failed`, `timed-out` or `killed`.
    pub ending: String,
    /// Why it was missed, refused or ended, or failed.
    pub reason: Option<String>,
    /// The lock that another task held.
    pub lock: Option<String>,
    /// The task that held it.
    pub holder: Option<String>,
    pub measured: Option<Measurement>,
}

/// The latest of each task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tasks {
    pub tasks: Vec<Task>,
}

/// The latest that is known of one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// How its last period ended.
    pub last: Run,
    /// The last run that gave a measurement.
    pub measured: Option<Run>,
    pub measured_age_seconds: Option<f64>,
}

/// A `[[source]]` of kind `probe` asks for this: the paths that are known by probes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Paths {
    pub paths: Vec<PathResults>,
}

/// The last value of each kind that a path's tasks gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathResults {
    /// The path of the prober's configuration, if its tasks name one.
    pub path: Option<String>,
    /// The other end, as the tasks name it.
    pub host: String,
    pub address: Option<IpAddr>,
    pub bandwidth: Option<Rate>,
    /// The least round trip time of a run, which queues have the smallest part in.
    pub rtt: Option<Time>,
    pub loss: Option<Fraction>,
    pub reordering: Option<Fraction>,
    pub path_mtu: Option<Mtu>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rate {
    pub bits_per_second: f64,
    /// Only with `converged` is it the path's rate; else something else was the limit, and
    /// the path carries this or more.
    pub confidence: Confidence,
    pub age_seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Time {
    pub seconds: f64,
    pub age_seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fraction {
    pub fraction: f64,
    /// The packets that it is a fraction of.
    pub packets: u64,
    pub age_seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mtu {
    pub bytes: u32,
    pub age_seconds: f64,
}

/// Results of days, folded, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    pub bucket_seconds: f64,
    pub buckets: Vec<Bucket>,
}

/// A service of before told of each by itself.
const fn one() -> u64 {
    1
}

impl From<Row> for Run {
    fn from(row: Row) -> Self {
        let periods = row.periods();
        let Row { task, path, host, address, tool, period, started, took, ending } = row;
        let word = ending.word().to_owned();
        let (mut reason, mut lock, mut holder, mut measured) = (None, None, None, None);
        match ending {
            Ending::Measured(measurement) => measured = Some(measurement),
            Ending::Missed(hindrance) => {
                reason = Some(hindrance.word().to_owned());
                if let Hindrance::Lock { lock: held, holder: by } = hindrance {
                    (lock, holder) = (Some(held), Some(by));
                }
            }
            Ending::Refused(why) | Ending::Failed(why) | Ending::Killed(why) => reason = Some(why),
            Ending::TimedOut => {}
        }
        let (ending, took_seconds) = (word, took.as_secs_f64());
        Self {
            task,
            path,
            host,
            address,
            tool,
            period,
            periods,
            started,
            took_seconds,
            ending,
            reason,
            lock,
            holder,
            measured,
        }
    }
}

impl Task {
    pub fn new(latest: Latest, now: Timestamp) -> Self {
        let age = latest.measured.as_ref().map(|row| age_seconds(row, now));
        let Latest { last, measured } = latest;
        Self { last: last.into(), measured: measured.map(Run::from), measured_age_seconds: age }
    }
}

impl Paths {
    /// Puts together what the tasks of each path, or of each host without one, know.
    pub fn new(latest: Vec<Latest>, now: Timestamp) -> Self {
        let mut rows: Vec<Row> = latest.into_iter().filter_map(|it| it.measured).collect();
        // Of two that measure the same, the later one's value is taken last.
        rows.sort_by_key(|row| row.period);
        let mut paths: Vec<PathResults> = Vec::new();
        for row in rows {
            let is_same = |known: &&mut PathResults| match (&known.path, &row.path) {
                (Some(one), Some(other)) => one == other,
                (None, None) => known.host == row.host,
                _ => false,
            };
            match paths.iter_mut().find(is_same) {
                Some(known) => known.take(&row, now),
                None => {
                    let (path, host) = (row.path.clone(), row.host.clone());
                    let mut results = PathResults { path, host, ..PathResults::default() };
                    results.take(&row, now);
                    paths.push(results);
                }
            }
        }
        paths.sort_by(|one, other| (&one.path, &one.host).cmp(&(&other.path, &other.host)));
        Self { paths }
    }
}

impl PathResults {
    fn take(&mut self, row: &Row, now: Timestamp) {
        let Ending::Measured(measurement) = &row.ending else { return };
        self.host.clone_from(&row.host);
        self.address = row.address.or(self.address);
        let age_seconds = age_seconds(row, now);
        let Measurement { rtt, loss, reordering, path_mtu_bytes, bandwidth, .. } = measurement;
        if let Some(&Bandwidth { bits_per_second, confidence, .. }) = bandwidth.as_ref() {
            self.bandwidth = Some(Rate { bits_per_second, confidence, age_seconds });
        }
        if let Some(rtt) = rtt {
            self.rtt = Some(Time { seconds: rtt.min_seconds, age_seconds });
        }
        let fraction = |share: Share| {
            let fraction = share.fraction()?;
            Some(Fraction { fraction, packets: share.whole, age_seconds })
        };
        self.loss = loss.and_then(fraction).or(self.loss);
        self.reordering = reordering.and_then(fraction).or(self.reordering);
        if let Some(bytes) = *path_mtu_bytes {
            self.path_mtu = Some(Mtu { bytes, age_seconds });
        }
    }
}

/// Returns the time since a run ended; none where the clock says that it is yet to come.
fn age_seconds(row: &Row, now: Timestamp) -> f64 {
    let started = row.started.unwrap_or(row.period);
    (now.duration_since(started).as_secs_f64() - row.took.as_secs_f64()).max(0.0)
}
