//! Rows of days are folded into buckets of time, which is as much as a plot can show.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    measurement::{Measurement, Share},
    row::{Ending, Row},
};

/// A bucket is what the runs of one stretch of time found out together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bucket {
    /// A multiple of its length since 1970.
    pub start: Timestamp,
    /// The periods that began in it, with those after one that began while there was no service.
    pub periods: u64,
    /// So many of them gave a measurement.
    pub measured: u64,
    /// Seconds: the least of all, the mean of the runs' medians, the greatest of all.
    pub rtt_seconds: Option<Spread>,
    /// All packets of all runs.
    pub loss: Option<Share>,
    pub reordering: Option<Share>,
    /// The least of all.
    pub path_mtu_bytes: Option<u32>,
    pub bandwidth_bits_per_second: Option<Spread>,
    /// The runs whose bandwidth is no more than a lower bound, as something else than the
    /// path was the limit.
    pub least: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    pub min: f64,
    pub mean: f64,
    pub max: f64,
}

/// Rows that are folded, the oldest first.
pub struct Folding {
    bucket_us: i64,
    most: usize,
    sums: BTreeMap<i64, Sums>,
}

#[derive(Default)]
struct Sums {
    periods: u64,
    measured: u64,
    rtt_seconds: Range,
    loss: Option<Share>,
    reordering: Option<Share>,
    path_mtu_bytes: Option<u32>,
    bandwidth_bits_per_second: Range,
    least: u64,
}

/// A spread before its mean is taken.
#[derive(Default)]
struct Range {
    runs: u32,
    min: f64,
    sum: f64,
    max: f64,
}

impl Folding {
    /// Begins with buckets of this length, 1 ms at least, of which the newest so many are
    /// kept.
    pub fn new(bucket: Duration, most: usize) -> Self {
        let bucket_us = i64::try_from(bucket.as_micros()).unwrap_or(i64::MAX).max(1_000);
        Self { bucket_us, most, sums: BTreeMap::new() }
    }

    pub fn add(&mut self, row: &Row) {
        let place = row.period.as_microsecond().div_euclid(self.bucket_us);
        self.sums.entry(place).or_default().add(row);
        if self.sums.len() > self.most {
            self.sums.pop_first();
        }
    }

    pub fn finish(self) -> Vec<Bucket> {
        let start = |place: i64| Timestamp::from_microsecond(place * self.bucket_us);
        self.sums
            .into_iter()
            // The first one may begin before all times that there are.
            .map(|(place, sums)| sums.finish(start(place).unwrap_or(Timestamp::MIN)))
            .collect()
    }
}

impl Sums {
    fn add(&mut self, row: &Row) {
        self.periods = self.periods.saturating_add(row.periods());
        let Ending::Measured(measurement) = &row.ending else { return };
        self.measured += 1;
        let Measurement { rtt, loss, reordering, path_mtu_bytes, bandwidth, .. } = measurement;
        if let Some(rtt) = rtt {
            self.rtt_seconds.add(rtt.min_seconds, rtt.median_seconds, rtt.max_seconds);
        }
        add_share(&mut self.loss, *loss);
        add_share(&mut self.reordering, *reordering);
        self.path_mtu_bytes = match (self.path_mtu_bytes, *path_mtu_bytes) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        if let Some(bandwidth) = bandwidth {
            let rate = bandwidth.bits_per_second;
            self.bandwidth_bits_per_second.add(rate, rate, rate);
            self.least += u64::from(bandwidth.is_least());
        }
    }

    fn finish(self, start: Timestamp) -> Bucket {
        Bucket {
            start,
            periods: self.periods,
            measured: self.measured,
            rtt_seconds: self.rtt_seconds.finish(),
            loss: self.loss,
            reordering: self.reordering,
            path_mtu_bytes: self.path_mtu_bytes,
            bandwidth_bits_per_second: self.bandwidth_bits_per_second.finish(),
            least: self.least,
        }
    }
}

impl Range {
    fn add(&mut self, min: f64, typical: f64, max: f64) {
        if self.runs == 0 {
            (self.min, self.max) = (min, max);
        }
        self.runs = self.runs.saturating_add(1);
        self.min = self.min.min(min);
        self.max = self.max.max(max);
        self.sum += typical;
    }

    fn finish(self) -> Option<Spread> {
        let Self { runs, min, sum, max } = self;
        (runs > 0).then(|| Spread { min, mean: sum / f64::from(runs), max })
    }
}

fn add_share(sum: &mut Option<Share>, share: Option<Share>) {
    if let Some(share) = share {
        let sum = sum.get_or_insert(Share { part: 0, whole: 0 });
        sum.part = sum.part.saturating_add(share.part);
        sum.whole = sum.whole.saturating_add(share.whole);
    }
}
