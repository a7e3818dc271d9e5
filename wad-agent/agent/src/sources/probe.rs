//! The probe service: of another host, which is asked over HTTP, or of this agent. Each of
//! its values says how old it is; a bandwidth that something else than the path held up is
//! the least that the path carries, as that which flows have got.

use std::{collections::HashMap, sync::Arc, time::SystemTime};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use wad_http::{Client, shown};
use wad_policy::config::Metric;
use wad_probing::{
    answers::{self, PathResults, Results},
    measurement::Confidence,
};

use super::{
    Answer, Reading, Sample, SourceError, Targets, error::is_possible, store::seconds_since_1970,
};

/// Ages of the same measurement make times that differ by no more than this from one poll to
/// the next: by the way of the answer, and by the clocks' drift.
const SAME_SECONDS: f64 = 10.0;

/// The last poll gave this, by the place of the path and the metric. A measurement that is
/// told twice must keep its time: a jump waits for another one.
#[derive(Debug, Default)]
pub struct Told(HashMap<(usize, Metric), Sample>);

#[derive(Deserialize)]
struct Document<'b> {
    #[serde(borrow)]
    paths: Vec<&'b RawValue>,
}

/// Asks the service of another host.
pub async fn poll(
    client: &Client<'_>,
    targets: &Targets,
    told: &mut Told,
) -> Result<Answer, SourceError> {
    let body = client.get(answers::PATHS).await?;
    read(&body, targets, told, SystemTime::now())
}

/// Asks the service of this agent.
pub async fn poll_own(
    results: Option<Arc<Results>>,
    targets: &Targets,
    told: &mut Told,
) -> Result<Answer, SourceError> {
    let results = results.ok_or(SourceError::NoService)?;
    let paths = tokio::task::spawn_blocking(move || results.paths(Timestamp::now())).await;
    let paths = paths.map_err(std::io::Error::from).map_err(SourceError::own)?;
    let paths = paths.map_err(SourceError::own)?.paths;
    Ok(take_all(paths, Answer::default(), targets, (told, SystemTime::now())))
}

fn read(
    body: &[u8],
    targets: &Targets,
    told: &mut Told,
    now: SystemTime,
) -> Result<Answer, SourceError> {
    let document: Document<'_> =
        serde_json::from_slice(body).map_err(|source| SourceError::Malformed { source })?;
    let mut answer = Answer::default();
    let mut paths = Vec::new();
    // What is wrong with one leaves the others.
    for path in document.paths {
        match serde_json::from_str(path.get()) {
            Ok(path) => paths.push(path),
            Err(source) => answer.errors.push(SourceError::Malformed { source }),
        }
    }
    Ok(take_all(paths, answer, targets, (told, now)))
}

/// For libFuzzer, see `tests/fuzz`.
#[cfg(feature = "fuzz")]
pub fn fuzz(body: &[u8]) {
    let (_, targets) = super::fuzz::configured();
    let now = SystemTime::UNIX_EPOCH;
    super::fuzz::hold(read(body, targets, &mut Told::default(), now));
}

fn take_all(
    paths: Vec<PathResults>,
    mut answer: Answer,
    targets: &Targets,
    (told, now): (&mut Told, SystemTime),
) -> Answer {
    if paths.is_empty() && answer.errors.is_empty() {
        answer.errors.push(SourceError::Empty { query: "paths" });
        return answer;
    }
    let mut found = HashMap::new();
    let mut is_matched = false;
    for path in &paths {
        for target in find(path, targets) {
            is_matched = true;
            take(path, target, seconds_since_1970(now), (&mut found, &mut answer.errors, targets));
        }
    }
    if !is_matched && answer.errors.is_empty() {
        let label = "path, address or host".to_owned();
        answer.errors.push(SourceError::Unmatched { query: "paths", label });
    }
    for (key, sample) in &mut found {
        if let Some(before) = told.0.get(key) {
            let apart_seconds = (sample.measured_at_seconds - before.measured_at_seconds).abs();
            let is_same = sample.value == before.value && sample.is_least == before.is_least;
            if is_same && apart_seconds <= SAME_SECONDS {
                *sample = *before;
            }
        }
    }
    let reading = |(&(target, metric), &sample)| Reading { target, metric, sample };
    answer.readings = found.iter().map(reading).collect();
    answer.readings.sort_by_key(|reading| (reading.target, reading.metric));
    told.0 = found;
    answer
}

/// Returns the paths that results are of: of the path's name, as both hosts may call it, else
/// around the address, else around the host, which may be an address.
fn find(path: &PathResults, targets: &Targets) -> Vec<usize> {
    let labels =
        [path.path.clone(), path.address.map(|it| it.to_string()), Some(path.host.clone())];
    let found = labels.into_iter().flatten().map(|label| targets.find(&label));
    found.into_iter().find(|targets| !targets.is_empty()).unwrap_or_default()
}

/// Takes what is possible, and of two values the later.
fn take(
    path: &PathResults,
    target: usize,
    now_seconds: f64,
    (found, errors, targets): (
        &mut HashMap<(usize, Metric), Sample>,
        &mut Vec<SourceError>,
        &Targets,
    ),
) {
    let bandwidth = path.bandwidth.map(|rate| {
        let is_least = rate.confidence != Confidence::Converged;
        (rate.bits_per_second, rate.age_seconds, is_least)
    });
    let values = [
        (Metric::Bandwidth, bandwidth),
        (Metric::Rtt, path.rtt.map(|rtt| (rtt.seconds, rtt.age_seconds, false))),
        (Metric::Loss, path.loss.map(|loss| (loss.fraction, loss.age_seconds, false))),
        (Metric::Reordering, path.reordering.map(|it| (it.fraction, it.age_seconds, false))),
    ];
    for (metric, value) in values {
        let Some((value, age_seconds, is_least)) = value else { continue };
        let has_age = (0.0..f64::INFINITY).contains(&age_seconds);
        if !(is_possible(metric, value) && has_age) {
            let path = targets.names()[target].to_string();
            let value = shown(&format!("{value} of {age_seconds} s ago"));
            errors.push(SourceError::Value { query: metric.key(), value, path });
            continue;
        }
        let measured_at_seconds = now_seconds - age_seconds;
        let sample = Sample { value, measured_at_seconds, is_least };
        let held = found.entry((target, metric)).or_insert(sample);
        if held.measured_at_seconds < measured_at_seconds {
            *held = sample;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::sources::testing::two_paths;

    /// Target, metric, value, age, and whether it is the least.
    type Taken = (usize, Metric, f64, f64, bool);

    fn at(seconds: f64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds)
    }

    fn answer(body: &str) -> (Vec<Taken>, Vec<&'static str>) {
        let read = read(body.as_bytes(), &two_paths(), &mut Told::default(), at(10_000.0));
        match read {
            Ok(Answer { readings, errors }) => {
                let reading = |Reading { target, metric, sample }| {
                    let Sample { value, measured_at_seconds, is_least } = sample;
                    (target, metric, value, 10_000.0 - measured_at_seconds, is_least)
                };
                let readings = readings.into_iter().map(reading).collect();
                (readings, errors.iter().map(|error| error.kind().label()).collect())
            }
            Err(error) => (Vec::new(), vec![error.kind().label()]),
        }
    }

    fn path(name: &str, rest: &str) -> String {
        format!(r#"{{"path": {name}, "host": "dtn.example", "address": null, {rest}}}"#)
    }

    const RATE: &str = r#""bandwidth": {"bits_per_second": 1e9, "confidence": "capped",
        "age_seconds": 60}"#;
    const RTT: &str = r#""rtt": {"seconds": 0.18, "age_seconds": 5}"#;

    #[test]
    fn values_have_the_age_that_they_say_and_what_was_held_up_is_the_least() {
        let converged = RATE.replace("capped", "converged");
        let body = format!(
            r#"{{"schema": 1, "paths": [{}, {}, {}]}}"#,
            path("\"a\"", &format!("{RATE}, {RTT}")),
            path("null", &converged).replace("s\": null", "s\": \"2001:db8::7\""),
            path("\"elsewhere\"", RTT),
        );
        let expected = vec![
            (0, Metric::Bandwidth, 1e9, 60.0, true),
            (0, Metric::Rtt, 0.18, 5.0, false),
            (1, Metric::Bandwidth, 1e9, 60.0, false),
        ];
        assert_eq!(answer(&body), (expected, vec![]));
    }

    #[test]
    fn of_two_values_the_later_counts() {
        let earlier = RTT.replace("0.18", "0.5").replace('5', "7");
        for both in [
            [path("\"a\"", RTT), path("\"a\"", &earlier)],
            [path("\"a\"", &earlier), path("\"a\"", RTT)],
        ] {
            let body = format!(r#"{{"paths": [{}]}}"#, both.join(","));
            assert_eq!(answer(&body).0, [(0, Metric::Rtt, 0.18, 5.0, false)]);
        }
    }

    #[test]
    fn a_measurement_that_is_told_again_keeps_its_time() {
        let body = format!(r#"{{"paths": [{}]}}"#, path("\"a\"", RTT));
        let later = body.replace("\"age_seconds\": 5", "\"age_seconds\": 35.3");
        let (targets, mut told) = (two_paths(), Told::default());
        let mut sample = |body: &str, now| {
            read(body.as_bytes(), &targets, &mut told, at(now)).unwrap().readings[0].sample
        };
        let first = sample(&body, 10_000.0);
        assert_eq!(sample(&later, 10_030.0), first);
        assert_ne!(sample(&body, 10_060.0), first, "it was measured anew");
    }

    #[test]
    fn what_is_wrong_is_named_and_leaves_the_rest() {
        for (wrong, kind) in [
            (path("\"a\"", &RTT.replace("0.18", "1e30")), "value"),
            (path("\"a\"", &RTT.replace("0.18", "-1")), "value"),
            (path("\"a\"", &RTT.replace(": 5", ": -5")), "value"),
            (path("\"a\"", &RTT.replace("0.18", "null")), "malformed"),
            (path("\"a\"", &RATE.replace("capped", "sure")), "malformed"),
        ] {
            let body = format!(r#"{{"paths": [{wrong}, {}]}}"#, path("\"b\"", RTT));
            let expected = vec![(1, Metric::Rtt, 0.18, 5.0, false)];
            assert_eq!(answer(&body), (expected, vec![kind]), "{wrong}");
        }
        for (body, kind) in [
            ("", "malformed"),
            ("[]", "malformed"),
            (r#"{"paths": []}"#, "empty"),
            (&format!(r#"{{"paths": [{}]}}"#, path("\"c\"", RTT)), "unmatched"),
        ] {
            assert_eq!(answer(body), (vec![], vec![kind]), "{body}");
        }
    }
}
