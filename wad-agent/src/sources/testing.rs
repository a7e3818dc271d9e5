//! Sources' answers for tests.

use std::time::SystemTime;

use super::{Answer, Reading, Sample, Store};
use crate::config::Metric;

/// A value of the first measured path.
#[derive(Clone, Copy)]
pub struct Given {
    pub metric: Metric,
    pub value: f64,
    pub age_seconds: f64,
}

/// A source gives it.
pub fn record(store: &mut Store, source: usize, given: Given, now: SystemTime) {
    let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    let Given { metric, value, age_seconds } = given;
    let sample = Sample { value, measured_at_seconds: seconds - age_seconds };
    let readings = vec![Reading { target: 0, metric, sample }];
    store.record(source, Ok(Answer { readings, errors: Vec::new() }), now);
}
