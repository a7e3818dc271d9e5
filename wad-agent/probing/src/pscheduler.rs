//! A pScheduler server of perfSONAR says this (API level 6): kinds of tests, ids, runs of
//! a task, and what their results tell of a path.

use std::fmt;

use jiff::{Timestamp, fmt::temporal::SpanParser};
use serde::Deserialize;
use serde_json::Value;
use wad_policy::config::Metric;

/// Kinds of tests that tell something of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Test {
    Throughput,
    Rtt,
    Latency,
    LatencyBackground,
}

impl Test {
    pub const ALL: [Self; 4] =
        [Self::Throughput, Self::Rtt, Self::Latency, Self::LatencyBackground];

    /// Returns pScheduler's own.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Rtt => "rtt",
            Self::Latency => "latency",
            Self::LatencyBackground => "latencybg",
        }
    }
}

/// An id is what a URL of the server ends with.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Id(String);

impl TryFrom<String> for Id {
    type Error = &'static str;

    fn try_from(url: String) -> Result<Self, Self::Error> {
        let (_, id) = url.rsplit_once('/').unwrap_or_default();
        // Of a UUID: nothing else gets into our requests.
        let fits = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
        if id.is_empty() || !id.bytes().all(fits) {
            return Err("a URL that does not end with a UUID");
        }
        Ok(Self(id.to_owned()))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A run is read as far as it matters here. Streams, intervals and the tools' own
/// output can have any shape.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Run {
    state: String,
    end_time: Timestamp,
    #[serde(default)]
    result_merged: Value,
    #[serde(default)]
    errors: Option<String>,
}

/// An outcome says what came of a run.
#[derive(Debug, PartialEq)]
pub enum RunOutcome {
    UnderWay,
    Result {
        result: Value,
        /// When the run ended, since 1970.
        ended_at_seconds: f64,
    },
    Failure {
        reason: String,
    },
}

impl Run {
    pub fn outcome(self) -> RunOutcome {
        let Self { state, end_time, result_merged: result, errors } = self;
        let reason = match state.as_str() {
            "scheduling" | "pending" | "on-deck" | "running" | "cleanup" => {
                return RunOutcome::UnderWay;
            }
            "finished" if result.is_null() => "its result is null".to_owned(),
            "finished" if result["succeeded"] == true => {
                let ended_at_seconds = end_time.as_duration().as_secs_f64();
                return RunOutcome::Result { result, ended_at_seconds };
            }
            "finished" => result["error"].as_str().unwrap_or("no reason is given").to_owned(),
            state => errors.map_or_else(|| state.to_owned(), |errors| format!("{state}: {errors}")),
        };
        RunOutcome::Failure { reason }
    }
}

/// A value of a result, in our units, and what stands there.
#[derive(Debug, PartialEq)]
pub struct Given {
    pub number: Option<f64>,
    pub text: String,
    is_missing: bool,
}

/// Returns the values: what a test is made for has to be there; what comes with it
/// need not.
pub fn values(test: Test, result: &Value) -> Vec<(Metric, Given)> {
    let at = |pointer| result.pointer(pointer).unwrap_or(&Value::Null);
    let plain = |pointer, read: fn(&Value) -> Option<f64>| {
        let value = at(pointer);
        Given { number: read(value), text: value.to_string(), is_missing: value.is_null() }
    };
    let share = |part, whole| {
        let (part, whole) = (at(part), at(whole));
        let of = |part, whole| if whole > 0.0 { Some(part / whole) } else { None };
        let share = number(part).zip(number(whole)).and_then(|(part, whole)| of(part, whole));
        Given { number: share, text: format!("{part} of {whole}"), is_missing: part.is_null() }
    };
    let given = match test {
        // Of all streams, as the sender has it.
        Test::Throughput => {
            vec![(Metric::Bandwidth, plain("/summary/summary/throughput-bits", number))]
        }
        Test::Rtt => vec![
            (Metric::Rtt, plain("/min", seconds)),
            (Metric::Loss, plain("/loss", number)),
            (Metric::Reordering, share("/reorders", "/received")),
        ],
        // One way: how long that takes is as the clocks of two hosts have it.
        Test::Latency | Test::LatencyBackground => vec![
            (Metric::Loss, share("/packets-lost", "/packets-sent")),
            (Metric::Reordering, share("/packets-reordered", "/packets-received")),
        ],
    };
    let given = given.into_iter().enumerate();
    given.filter(|(n, (_, given))| *n == 0 || !given.is_missing).map(|(_, given)| given).collect()
}

/// Returns the seconds of an ISO 8601 duration.
#[must_use]
pub fn seconds(value: &Value) -> Option<f64> {
    let duration = SpanParser::new().parse_duration(value.as_str()?).ok()?;
    Some(duration.as_secs_f64())
}

/// Returns a number: Prometheus' values are texts, others' are numbers, and some are none.
#[must_use]
pub fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(text) => text.parse().ok()?,
        value => value.as_f64()?,
    };
    number.is_finite().then_some(number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a run as a server has it, but for what does not matter.
    fn run(state: &str, result: Value) -> Run {
        let run = json!({
            "start-time": "2026-05-19T12:00:00Z", "end-time": "2026-05-19T14:00:30+02:00",
            "duration": "PT30S", "participants": ["ps.example", null], "priority": null,
            "state": state, "state-display": "Shown", "errors": null, "result": null,
            "result-full": [null, {}], "result-merged": result,
        });
        serde_json::from_value(run).unwrap()
    }

    #[test]
    fn only_what_has_finished_well_has_a_result() {
        let result = json!({"succeeded": true, "diags": "x"});
        let ended_at_seconds = 1_779_192_030.0;
        let expected = RunOutcome::Result { result: result.clone(), ended_at_seconds };
        assert_eq!(run("finished", result.clone()).outcome(), expected);
        for state in ["scheduling", "pending", "on-deck", "running", "cleanup"] {
            assert_eq!(run(state, Value::Null).outcome(), RunOutcome::UnderWay, "{state}");
        }
        for (state, result, expected) in [
            ("overdue", Value::Null, "overdue"),
            ("missed", Value::Null, "missed"),
            ("failed", result.clone(), "failed"),
            ("preempted", Value::Null, "preempted"),
            ("nonstart", Value::Null, "nonstart"),
            ("canceled", Value::Null, "canceled"),
            ("of tomorrow", result, "of tomorrow"),
            ("finished", Value::Null, "its result is null"),
            ("finished", json!({"succeeded": false, "error": "no route"}), "no route"),
            ("finished", json!({"succeeded": false, "error": null}), "no reason is given"),
            ("finished", json!({"succeeded": "yes"}), "no reason is given"),
            ("finished", json!([1]), "no reason is given"),
        ] {
            let reason = expected.to_owned();
            assert_eq!(run(state, result).outcome(), RunOutcome::Failure { reason }, "{state}");
        }
        let failed = Run { errors: Some("late".to_owned()), ..run("missed", Value::Null) };
        assert_eq!(failed.outcome(), RunOutcome::Failure { reason: "missed: late".to_owned() });
    }

    #[test]
    fn what_is_no_run_is_refused() {
        for run in [
            json!({"state": "finished"}),
            json!({"end-time": "2026-05-19T14:00:30Z"}),
            json!({"end-time": "yesterday", "state": "finished"}),
            json!({"end-time": 1_779_192_030, "state": "finished"}),
            json!({"end-time": "2026-05-19T14:00:30Z", "state": 7}),
        ] {
            assert!(serde_json::from_value::<Run>(run.clone()).is_err(), "{run}");
        }
        // Hours alone, as some servers write it.
        let run = json!({"end-time": "2026-05-19T10:00:30-02", "state": "missed"});
        assert!(serde_json::from_value::<Run>(run).is_ok());
    }

    fn found(test: Test, result: &Value) -> Vec<(Metric, Option<f64>)> {
        let given = values(test, result).into_iter();
        given.map(|(metric, given)| (metric, given.number)).collect()
    }

    #[test]
    fn a_throughput_is_that_of_all_streams() {
        let datum = |stream: Value, bits: Value| {
            json!({"stream-id": stream, "throughput-bits": bits, "rtt": null, "start": 0,
                   "end": 30.0, "throughput-bytes": 1, "retransmits": null, "sent": null,
                   "jitter": null, "lost": null, "receiver-throughput-bits": null})
        };
        let streams = [datum(json!("5"), json!(1e8)), datum(json!(7), json!(null))];
        let of = |bits| {
            let summary = json!({"streams": streams, "summary": datum(json!("SUM"), bits)});
            found(
                Test::Throughput,
                &json!({"succeeded": true, "summary": summary, "mss": 8948,
                                            "intervals": [], "tcp-window-size": null}),
            )
        };
        assert_eq!(of(json!(9_412_345_678_u64)), [(Metric::Bandwidth, Some(9_412_345_678.0))]);
        assert_eq!(of(json!(9.4e9)), [(Metric::Bandwidth, Some(9.4e9))]);
        for none in [json!(null), json!([]), json!("NaN"), json!({"throughput-bits": 1})] {
            assert_eq!(of(none), [(Metric::Bandwidth, None)]);
        }
        assert_eq!(found(Test::Throughput, &json!({})), [(Metric::Bandwidth, None)]);
        assert_eq!(found(Test::Throughput, &json!({"summary": 7})), [(Metric::Bandwidth, None)]);
    }

    #[test]
    fn times_are_durations() {
        let rtt = |result| found(Test::Rtt, &result);
        let result = json!({"sent": 5, "received": 4, "lost": 1, "reorders": 1, "loss": 0.2,
                            "min": "PT0.0214S", "max": "PT1M0.5S", "roundtrips": [{}]});
        let expected = [
            (Metric::Rtt, Some(0.0214)),
            (Metric::Loss, Some(0.2)),
            (Metric::Reordering, Some(0.25)),
        ];
        assert_eq!(rtt(result), expected);
        // All lost.
        let result = json!({"received": 0, "reorders": null, "loss": 1.0, "min": null});
        assert_eq!(rtt(result), [(Metric::Rtt, None), (Metric::Loss, Some(1.0))]);
        let result = json!({"received": 0, "reorders": 0, "min": "21 ms"});
        assert_eq!(rtt(result), [(Metric::Rtt, None), (Metric::Reordering, None)]);
        for none in [json!(0.0214), json!("0.0214"), json!("P1M"), json!("PT"), json!({})] {
            assert_eq!(rtt(json!({"min": none})), [(Metric::Rtt, None)]);
        }
    }

    #[test]
    fn one_way_tests_tell_of_losses_alone() {
        let result = json!({"packets-sent": 600, "packets-received": 597, "packets-lost": 3,
                            "packets-reordered": 0, "packets-duplicated": 0,
                            "max-clock-error": 0.5, "histogram-latency": {"34.4": 597}});
        let expected = [(Metric::Loss, Some(0.005)), (Metric::Reordering, Some(0.0))];
        assert_eq!(found(Test::Latency, &result), expected);
        assert_eq!(found(Test::LatencyBackground, &json!({})), [(Metric::Loss, None)]);
    }
}
