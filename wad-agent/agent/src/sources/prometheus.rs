//! Prometheus' HTTP API: an instant query for each metric, and one that says
//! when each sample was taken. The time beside a value of an instant query is
//! that of the query, not of the sample.

use std::collections::{BTreeSet, HashMap};

use hyper::body::Bytes;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;
use wad_http::{Client, HttpError, encoded, shown};
use wad_policy::config::{Prometheus, Query};

use super::{
    Answer, Reading, Sample, Targets,
    error::{SourceError, is_possible},
    number,
};

/// Asks for all metrics. An error is one that the next query would meet as well.
pub async fn poll(
    client: &Client<'_>,
    prometheus: &Prometheus,
    targets: &Targets,
) -> Result<Answer, SourceError> {
    let mut poll = Poll { client, label: &prometheus.label, targets, answer: Answer::default() };
    let given = match &prometheus.measured_at {
        Some(promql) => Some(poll.ask("measured_at", promql).await?),
        None => None,
    };
    for query in &prometheus.queries {
        let values = poll.ask(query.metric.key(), &query.promql).await?;
        if values.is_empty() {
            continue;
        }
        match &given {
            Some(times) => poll.take(query, &values, times),
            None => {
                // What is wrong with these series was said of their values.
                let errors = poll.answer.errors.len();
                let promql = format!("timestamp({})", query.promql);
                let times = poll.ask(query.metric.key(), &promql).await?;
                poll.answer.errors.truncate(errors);
                poll.take(query, &values, &times);
            }
        }
    }
    Ok(poll.answer)
}

/// For libFuzzer, see `tests/fuzz`.
#[cfg(feature = "fuzz")]
pub fn fuzz(body: &[u8]) {
    let (client, (_, targets)) = (super::fuzz::client(0), super::fuzz::configured());
    let mut poll = Poll { client: &client, label: "path", targets, answer: Answer::default() };
    let answer = instant("rtt", Ok(Bytes::copy_from_slice(body))).map(|series| {
        let values = poll.by_target("rtt", series);
        for metric in wad_policy::config::Metric::ALL {
            let query = Query { metric, promql: String::new(), factor: 1e-3 };
            poll.take(&query, &values, &values);
        }
        poll.answer
    });
    super::fuzz::hold(answer);
}

/// The values are kept by target.
type Values = HashMap<usize, Value>;

struct Poll<'a> {
    client: &'a Client<'a>,
    label: &'a str,
    targets: &'a Targets,
    answer: Answer,
}

impl Poll<'_> {
    /// The value of each path that has exactly one.
    async fn ask(&mut self, query: &'static str, promql: &str) -> Result<Values, SourceError> {
        let body = self.client.get(&format!("/api/v1/query?query={}", encoded(promql))).await;
        match instant(query, body) {
            Ok(series) => Ok(self.by_target(query, series)),
            // Of this query alone.
            Err(error @ (SourceError::Refused { .. } | SourceError::NotSeries { .. })) => {
                self.answer.errors.push(error);
                Ok(Values::new())
            }
            Err(error) => Err(error),
        }
    }

    fn by_target(&mut self, query: &'static str, series: Vec<Series>) -> Values {
        let Self { label, targets, answer: Answer { errors, .. }, .. } = self;
        if series.is_empty() {
            errors.push(SourceError::Empty { query });
            return Values::new();
        }
        let mut values = Values::new();
        let mut ambiguous = BTreeSet::new();
        for Series { metric, value } in series {
            // A histogram has no value.
            let value = value.map_or(Value::Null, |(_, value)| value);
            for target in targets.find(metric.get(*label).map_or("", String::as_str)) {
                if values.insert(target, value.clone()).is_some() {
                    ambiguous.insert(target);
                }
            }
        }
        if values.is_empty() {
            errors.push(SourceError::Unmatched { query, label: (*label).to_owned() });
        }
        for target in ambiguous {
            values.remove(&target);
            let path = targets.names()[target].to_string();
            errors.push(SourceError::Ambiguous { query, path });
        }
        values
    }

    /// Takes what can be, and says what cannot.
    fn take(&mut self, query: &Query, values: &Values, times: &Values) {
        let Query { metric, factor, .. } = *query;
        for (&target, value) in values {
            let time = times.get(&target).and_then(number);
            match (number(value).map(|value| value * factor), time) {
                (Some(value), Some(measured_at_seconds)) if is_possible(metric, value) => {
                    let sample = Sample { value, measured_at_seconds, is_least: false };
                    self.answer.readings.push(Reading { target, metric, sample });
                }
                (_, time) => {
                    let value = time.map_or("no time".to_owned(), |_| shown(&value.to_string()));
                    let path = self.targets.names()[target].to_string();
                    let query = metric.key();
                    self.answer.errors.push(SourceError::Value { query, value, path });
                }
            }
        }
    }
}

#[derive(Deserialize)]
struct Envelope {
    status: String,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    data: Option<Data>,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Vector(Vec<Series>),
    Matrix(IgnoredAny),
    Scalar(IgnoredAny),
    String(IgnoredAny),
}

#[derive(Debug, Deserialize)]
struct Series {
    #[serde(default)]
    metric: HashMap<String, String>,
    /// The time of the query, and the value.
    #[serde(default)]
    value: Option<(Value, Value)>,
}

fn instant(
    query: &'static str,
    body: Result<Bytes, HttpError>,
) -> Result<Vec<Series>, SourceError> {
    let refused = |reason: &str| Err(SourceError::Refused { query, reason: shown(reason) });
    let not_series = |what| Err(SourceError::NotSeries { query, what });
    let body = match body {
        // 400 and 422 are about this query, and not about the service.
        Err(HttpError::Status { status: 400 | 422, reason, .. }) => return refused(&reason),
        body => body?,
    };
    let envelope: Envelope =
        serde_json::from_slice(&body).map_err(|source| SourceError::Malformed { source })?;
    match envelope {
        Envelope { status, error, .. } if status != "success" => {
            refused(error.as_deref().unwrap_or("no reason is given"))
        }
        Envelope { data: None, .. } => Ok(Vec::new()),
        Envelope { data: Some(data), .. } => match data {
            Data::Vector(series) => Ok(series),
            Data::Matrix(_) => not_series("a range"),
            Data::Scalar(_) => not_series("a number"),
            Data::String(_) => not_series("a text"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &'static str) -> Result<Vec<Series>, SourceError> {
        instant("rtt", Ok(Bytes::from_static(body.as_bytes())))
    }

    #[test]
    fn a_vector_is_read_whatever_stands_beside_it() {
        let series = read(
            r#"{"status":"success","warnings":["x"],"data":{"stats":{},"result":[
            {"metric":{"__name__":"m","path":"a"},"value":[1.5,"0.07"]},
            {"metric":{"path":"b"},"value":[1,"NaN"]},
            {"metric":{"path":"c"},"histogram":[1,{}]},
            {"metric":{},"value":["1",7]}],"resultType":"vector"}}"#,
        );
        let series = series.unwrap();
        let numbers: Vec<_> = series
            .iter()
            .map(|series| series.value.as_ref().and_then(|(_, value)| number(value)))
            .collect();
        assert_eq!(numbers, [Some(0.07), None, None, Some(7.0)]);
        assert_eq!(series[1].metric["path"], "b");
    }

    #[test]
    fn what_is_no_vector_is_named() {
        let error = |body| read(body).expect_err(body).kind().label();
        for (body, expected) in [
            (r#"{"status":"error","errorType":"execution","error":"boom"}"#, "refused"),
            (r#"{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}"#, "refused"),
            (r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#, "refused"),
            (r#"{"status":"success","data":{"resultType":"other","result":[]}}"#, "malformed"),
            (r#"{"status":"success","data":{"resultType":"vector","result":{}}}"#, "malformed"),
            (r#"{"status":1}"#, "malformed"),
            ("null", "malformed"),
            ("[]", "malformed"),
            ("", "malformed"),
            ("<html>", "malformed"),
            ("\u{0}", "malformed"),
        ] {
            assert_eq!(error(body), expected, "{body}");
        }
        let nothing = r#"{"status":"success","data":null}"#;
        assert!(read(nothing).is_ok_and(|series| series.is_empty()));
    }
}
