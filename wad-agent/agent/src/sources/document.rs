//! JSON of one's own service: an object whose `paths` has an object for each
//! path. What is null or left out is not known.
//!
//! ```json
//! {"paths": [{"path": "tokyo", "bandwidth_bits_per_second": 1e9, "rtt_seconds": 0.18,
//!             "loss": 1e-6, "reordering": null, "measured_at": 1763700000}]}
//! ```

use std::time::SystemTime;

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};
use wad_http::{Client, shown};
use wad_policy::config::Metric;

use super::{
    Answer, Reading, Sample, Targets,
    error::{SourceError, is_possible},
    store::seconds_since_1970,
};

/// The answer. Its paths are read each by itself: what is wrong with one leaves the others.
#[derive(Deserialize)]
struct Document<'b> {
    #[serde(borrow)]
    paths: Vec<&'b RawValue>,
}

const fn field(metric: Metric) -> &'static str {
    match metric {
        Metric::Bandwidth => "bandwidth_bits_per_second",
        Metric::Rtt => "rtt_seconds",
        Metric::Loss => "loss",
        Metric::Reordering => "reordering",
    }
}

const PATH: &str = "path";
const MEASURED_AT: &str = "measured_at";

/// Asks for the document.
pub async fn poll(client: &Client<'_>, targets: &Targets) -> Result<Answer, SourceError> {
    read(&client.get("").await?, targets, SystemTime::now())
}

fn read(body: &[u8], targets: &Targets, now: SystemTime) -> Result<Answer, SourceError> {
    let document: Document<'_> =
        serde_json::from_slice(body).map_err(|source| SourceError::Malformed { source })?;
    let mut answer = Answer::default();
    if document.paths.is_empty() {
        answer.errors.push(SourceError::Empty { query: "paths" });
        return Ok(answer);
    }
    let mut taken = vec![false; targets.names().len()];
    for path in document.paths {
        let path: Map<String, Value> = match serde_json::from_str(path.get()) {
            Ok(path) => path,
            Err(source) => {
                answer.errors.push(SourceError::Malformed { source });
                continue;
            }
        };
        let label = path.get(PATH).and_then(Value::as_str).unwrap_or_default();
        for target in targets.find(label) {
            if std::mem::replace(&mut taken[target], true) {
                let path = targets.names()[target].to_string();
                answer.errors.push(SourceError::Ambiguous { query: "paths", path });
                answer.readings.retain(|reading| reading.target != target);
            } else {
                take(&path, target, now, targets, &mut answer);
            }
        }
    }
    if !taken.contains(&true) && answer.errors.is_empty() {
        let label = PATH.to_owned();
        answer.errors.push(SourceError::Unmatched { query: "paths", label });
    }
    Ok(answer)
}

/// For libFuzzer, see `tests/fuzz`.
#[cfg(feature = "fuzz")]
pub fn fuzz(body: &[u8]) {
    let (_, targets) = super::fuzz::configured();
    super::fuzz::hold(read(body, targets, SystemTime::UNIX_EPOCH));
}

fn take(
    path: &Map<String, Value>,
    target: usize,
    now: SystemTime,
    targets: &Targets,
    answer: &mut Answer,
) {
    let wrong = |query, value: &Value| {
        let path = targets.names()[target].to_string();
        SourceError::Value { query, value: shown(&value.to_string()), path }
    };
    let measured_at_seconds = match path.get(MEASURED_AT) {
        None | Some(Value::Null) => seconds_since_1970(now),
        Some(time) => match time.as_f64() {
            Some(time) => time,
            None => return answer.errors.push(wrong(MEASURED_AT, time)),
        },
    };
    for metric in Metric::ALL {
        let Some(given) = path.get(field(metric)).filter(|value| !value.is_null()) else {
            continue;
        };
        match given.as_f64().filter(|&value| is_possible(metric, value)) {
            Some(value) => {
                let sample = Sample { value, measured_at_seconds, is_least: false };
                answer.readings.push(Reading { target, metric, sample });
            }
            None => answer.errors.push(wrong(field(metric), given)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::testing::two_paths;

    /// Target, metric, value and time.
    type Taken = (usize, Metric, f64, f64);

    fn answer(body: &str) -> (Vec<Taken>, Vec<&'static str>) {
        let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000);
        match read(body.as_bytes(), &two_paths(), now) {
            Ok(Answer { readings, errors }) => {
                let reading = |Reading { target, metric, sample }| {
                    (target, metric, sample.value, sample.measured_at_seconds)
                };
                let readings = readings.into_iter().map(reading).collect();
                (readings, errors.iter().map(|error| error.kind().label()).collect())
            }
            Err(error) => (Vec::new(), vec![error.kind().label()]),
        }
    }

    #[test]
    fn what_is_there_is_taken() {
        let body = r#"{"version": 3, "paths": [
            {"path": "a", "bandwidth_bits_per_second": 1e9, "rtt_seconds": 0.18, "loss": 0,
             "reordering": null, "measured_at": 900.5, "comment": "x"},
            {"path": "2001:db8::1", "rtt_seconds": 0.02},
            {"path": "elsewhere", "rtt_seconds": -7}]}"#;
        let expected = vec![
            (0, Metric::Bandwidth, 1e9, 900.5),
            (0, Metric::Rtt, 0.18, 900.5),
            (0, Metric::Loss, 0.0, 900.5),
            (1, Metric::Rtt, 0.02, 1_000.0),
        ];
        assert_eq!(answer(body), (expected, vec![]));
    }

    #[test]
    fn what_is_wrong_with_one_path_leaves_the_others() {
        for value in [r#""0.07""#, "-1", "0", "[]", "true", "1e99"] {
            let body = format!(
                r#"{{"paths": [{{"path": "a", "rtt_seconds": {value}}},
                   {{"path": "b", "rtt_seconds": 0.02}}]}}"#
            );
            let expected = (vec![(1, Metric::Rtt, 0.02, 1_000.0)], vec!["value"]);
            assert_eq!(answer(&body), expected, "{value}");
        }
        // Not even a number that there is.
        let body = r#"{"paths": [{"path": "a", "bandwidth_bits_per_second": 1e999},
                                 {"path": "b", "rtt_seconds": 0.02}]}"#;
        assert_eq!(answer(body), (vec![(1, Metric::Rtt, 0.02, 1_000.0)], vec!["malformed"]));
        let twice = r#"{"paths": [{"path": "a", "rtt_seconds": 1}, {"path": "b", "rtt_seconds": 1},
                       {"path": "10.0.0.1", "rtt_seconds": 2}]}"#;
        assert_eq!(answer(twice), (vec![(1, Metric::Rtt, 1.0, 1_000.0)], vec!["ambiguous"]));
        let no_time = r#"{"paths": [{"path": "a", "rtt_seconds": 1, "measured_at": "now"}]}"#;
        assert_eq!(answer(no_time), (vec![], vec!["value"]));
    }

    #[test]
    fn what_is_no_such_document_is_named() {
        for (body, kind) in [
            ("", "malformed"),
            ("null", "malformed"),
            ("[]", "malformed"),
            ("{}", "malformed"),
            (r#"{"paths": {}}"#, "malformed"),
            (r#"{"paths": [1]}"#, "malformed"),
            (r#"{"paths": [{"path": "a", "rtt_seconds": NaN}]}"#, "malformed"),
            (r#"{"paths": []}"#, "empty"),
            (r#"{"paths": [{}]}"#, "unmatched"),
            (r#"{"paths": [{"path": 7, "rtt_seconds": 1}]}"#, "unmatched"),
        ] {
            assert_eq!(answer(body), (vec![], vec![kind]), "{body}");
        }
    }
}
