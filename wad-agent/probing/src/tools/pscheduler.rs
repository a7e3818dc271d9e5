//! A task asked of a pScheduler server (API level 6): its host measures, not this one.
//!
//! The task is for one run, so that nothing of it comes later when nobody waits any more.

use std::time::Duration;

use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tokio::time::sleep;
use wad_http::{Client, HttpError, Terms};
use wad_policy::config::PSchedulerTest;
use wad_toolbox::url::Url;

use super::{PScheduler, Target};
use crate::{
    measurement::{Bandwidth, Confidence, Measurement, RoundTrips, Share},
    pscheduler::{Id, Run, RunOutcome, Test, number, seconds},
};

/// A request takes no longer.
const REQUEST: Duration = Duration::from_secs(20);
const MOST_RESPONSE_BYTES: usize = 8 << 20;
/// The server is asked for news so often.
const EACH: Duration = Duration::from_secs(1);
/// The run may begin so much later than at once: others may be under way.
const SLIP: &str = "PT5M";

#[derive(Debug, thiserror::Error)]
pub enum PSchedulerError {
    #[error("cannot ask {host}")]
    Http { host: String, source: Box<HttpError> },
    #[error("{host} does not take the task: {reason}")]
    Refused { host: String, reason: String },
    #[error("{host} sends what cannot be read")]
    Malformed { host: String, source: serde_json::Error },
    #[error("the run of {host} failed: {reason}")]
    Failed { host: String, reason: String },
    #[error("the result of {host} tells nothing of the path")]
    Empty { host: String },
}

const fn kind(test: &PSchedulerTest) -> Test {
    match test {
        PSchedulerTest::Throughput { .. } => Test::Throughput,
        PSchedulerTest::Rtt { .. } => Test::Rtt,
        PSchedulerTest::Latency { .. } => Test::Latency,
    }
}

/// Returns the task as the server takes it.
fn task(test: &PSchedulerTest, to: &Target) -> Value {
    let mut spec = json!({"schema": 1, "dest": to.host});
    match test {
        PSchedulerTest::Throughput { time } => {
            spec["duration"] = format!("PT{}S", time.as_secs().max(1)).into();
        }
        PSchedulerTest::Rtt { count } => spec["count"] = count.get().into(),
        PSchedulerTest::Latency { count } => spec["packet-count"] = count.get().into(),
    }
    json!({"schema": 1, "test": {"type": kind(test).name(), "spec": spec},
           "schedule": {"slip": SLIP}})
}

pub async fn run(asked: &PScheduler, to: &Target) -> Result<Measurement, PSchedulerError> {
    let host = || asked.url.host.clone();
    let http = |source| PSchedulerError::Http { host: host(), source: Box::new(source) };
    let malformed = |source| PSchedulerError::Malformed { host: host(), source };
    let timeout = REQUEST.min(to.deadline);
    let terms = Terms { access: &asked.access, timeout, max_response_bytes: MOST_RESPONSE_BYTES };
    let tasks = Url { path: format!("{}/tasks", asked.url.path), ..asked.url.clone() };
    let client = Client::new(terms, &tasks).map_err(http)?;
    let headers =
        HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    let task = task(&asked.test, to).to_string();
    let answer = client.post(headers, task.into()).await.map_err(|error| match error {
        // It says why in the answer.
        HttpError::Status { status: 400..=403 | 409, reason, body, .. } => {
            let said = wad_http::shown(&String::from_utf8_lossy(&body));
            let reason = if said.is_empty() { reason } else { said };
            PSchedulerError::Refused { host: host(), reason }
        }
        error => http(error),
    })?;
    let task: Id = serde_json::from_slice(&answer).map_err(malformed)?;
    loop {
        sleep(EACH).await;
        let runs = client.get(&format!("/{task}/runs")).await.map_err(http)?;
        let runs: Vec<Id> = serde_json::from_slice(&runs).map_err(malformed)?;
        let Some(run) = runs.last() else { continue };
        let run = client.get(&format!("/{task}/runs/{run}")).await.map_err(http)?;
        let run: Run = serde_json::from_slice(&run).map_err(malformed)?;
        match run.outcome() {
            RunOutcome::UnderWay => {}
            RunOutcome::Failure { reason } => {
                let reason = wad_http::shown(&reason);
                return Err(PSchedulerError::Failed { host: host(), reason });
            }
            RunOutcome::Result { result, .. } => {
                let found = read(kind(&asked.test), &result);
                return found.ok_or_else(|| PSchedulerError::Empty { host: host() });
            }
        }
    }
}

/// Reads a result; None where it tells nothing of a path.
fn read(test: Test, result: &Value) -> Option<Measurement> {
    let count = |pointer: &str| result.pointer(pointer).and_then(Value::as_u64);
    let share = |part, whole| {
        let (part, whole) = count(part).zip(count(whole))?;
        (part <= whole && whole > 0).then_some(Share { part, whole })
    };
    let mut found = Measurement::default();
    match test {
        Test::Throughput => {
            let summary = "/summary/summary";
            let bits = result.pointer(&format!("{summary}/throughput-bits")).and_then(number)?;
            found.bandwidth = Some(Bandwidth {
                bits_per_second: Some(bits).filter(|bits| *bits > 0.0)?,
                // Time is what ends it.
                confidence: Confidence::Capped,
                loaded_rtt: None,
                retransmitted_bytes: None,
                congestion: None,
                held_up: None,
            });
            found.spent_bytes = count(&format!("{summary}/throughput-bytes")).unwrap_or_default();
        }
        Test::Rtt => {
            let trips = result["roundtrips"].as_array()?.iter();
            let trips = trips.filter_map(|trip| seconds(&trip["rtt"])).filter(|time| *time > 0.0);
            found.rtt = Some(RoundTrips::of(trips.collect())?);
            found.loss = share("/lost", "/sent");
            found.reordering = share("/reorders", "/received");
        }
        Test::Latency | Test::LatencyBackground => {
            found.loss = Some(share("/packets-lost", "/packets-sent")?);
            found.reordering = share("/packets-reordered", "/packets-received");
        }
    }
    Some(found)
}

/// Reads a server's answers, for libFuzzer; see `tests/fuzz`.
#[cfg(feature = "fuzz")]
pub fn fuzz(bytes: &[u8]) {
    let Ok(result) = serde_json::from_slice(bytes) else { return };
    for found in Test::ALL.into_iter().filter_map(|test| read(test, &result)) {
        super::fuzz::hold(&found);
    }
}

#[cfg(test)]
mod tests;
