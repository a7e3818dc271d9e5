//! A question as it stands behind the `?` of a request.

use std::time::Duration;

use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::archive::{MAX_ROWS, Query};

/// Where the rows are asked for that a query wants.
pub const RUNS: &str = "/v1/probe/runs";
/// Where the latest of each task is.
pub const LATEST: &str = "/v1/probe/latest";
/// Where a source asks what is known of paths.
pub const PATHS: &str = "/v1/probe/paths";
/// Where rows are folded.
pub const HISTORY: &str = "/v1/probe/history";

/// Rows of an answer whose question says nothing of it.
const USUAL_ROWS: usize = 1_000;
const USUAL_BUCKET: Duration = Duration::from_secs(3_600);
/// A bucket is no longer than a year.
const MAX_BUCKET_SECONDS: u64 = 366 * 86_400;

/// A question says which rows are wanted, and how long the buckets are that they are folded
/// into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub query: Query,
    pub bucket: Duration,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    #[error(
        "there is no {0:?} to ask by; there is task, path, host, since, until, limit and \
         bucket_seconds"
    )]
    Unknown(String),
    #[error("{0} is there twice")]
    Twice(String),
    #[error("{0:?} is no time; it takes one such as 2026-11-26T09:00:00Z")]
    Time(String),
    #[error("{key} takes a number from 1 to {most}, not {text:?}")]
    Number { key: &'static str, most: u64, text: String },
}

impl Question {
    /// Reads what follows the `?` of a request.
    pub fn parse(text: &str) -> Result<Self, QuestionError> {
        let mut query = Query::default();
        let mut bucket = None;
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8_lossy().into_owned();
            let is_twice = match key {
                "task" => query.task.replace(value).is_some(),
                "path" => query.path.replace(value).is_some(),
                "host" => query.host.replace(value).is_some(),
                "since" => query.since.replace(time(value)?).is_some(),
                "until" => query.until.replace(time(value)?).is_some(),
                "limit" => {
                    let limit = number("limit", MAX_ROWS as u64, value)?;
                    // In range, hence whole.
                    query.limit.replace(limit as usize).is_some()
                }
                "bucket_seconds" => {
                    let seconds = number("bucket_seconds", MAX_BUCKET_SECONDS, value)?;
                    bucket.replace(Duration::from_secs(seconds)).is_some()
                }
                other => return Err(QuestionError::Unknown(other.to_owned())),
            };
            if is_twice {
                return Err(QuestionError::Twice(key.to_owned()));
            }
        }
        query.limit = query.limit.or(Some(USUAL_ROWS));
        Ok(Self { query, bucket: bucket.unwrap_or(USUAL_BUCKET) })
    }
}

/// Returns a question as it stands in a request, with its `?`.
#[must_use]
pub fn query_text(query: &Query, bucket: Option<Duration>) -> String {
    let Query { task, path, host, since, until, limit } = query;
    let text = |text: &String| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let time = |time: &Timestamp| time.to_string();
    let pairs = [
        ("task", task.as_ref().map(text)),
        ("path", path.as_ref().map(text)),
        ("host", host.as_ref().map(text)),
        ("since", since.as_ref().map(time)),
        ("until", until.as_ref().map(time)),
        ("limit", limit.map(|limit| limit.to_string())),
        ("bucket_seconds", bucket.map(|bucket| bucket.as_secs().to_string())),
    ];
    let pairs = pairs.into_iter().filter_map(|(key, value)| Some(format!("{key}={}", value?)));
    format!("?{}", pairs.collect::<Vec<_>>().join("&"))
}

fn time(text: String) -> Result<Timestamp, QuestionError> {
    text.parse().map_err(|_| QuestionError::Time(text))
}

fn number(key: &'static str, most: u64, text: String) -> Result<u64, QuestionError> {
    match text.parse() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(QuestionError::Number { key, most, text }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_read_as_it_was_written() {
        let query = Query {
            task: Some("a & b=ü".to_owned()),
            path: Some("tokyo/1".to_owned()),
            host: Some("2001:db8::1".to_owned()),
            since: Some(Timestamp::from_second(1_800_000_000).unwrap()),
            until: Some(Timestamp::from_millisecond(1_800_000_000_500).unwrap()),
            limit: Some(7),
        };
        let bucket = Duration::from_secs(60);
        let text = query_text(&query, Some(bucket));
        let question = Question::parse(text.strip_prefix('?').unwrap()).unwrap();
        assert_eq!(question, Question { query, bucket });
        let all = Question::parse("").unwrap();
        assert_eq!(all.query, Query { limit: Some(USUAL_ROWS), ..Query::default() });
    }

    #[test]
    fn what_is_no_question_is_refused() {
        for (text, told) in [
            ("tasks=a", "there is no \"tasks\""),
            ("task=a&task=b", "task is there twice"),
            ("since=yesterday", "\"yesterday\" is no time"),
            ("limit=0", "limit takes a number from 1 to 10000"),
            ("limit=10001", "limit takes"),
            ("bucket_seconds=1e9", "bucket_seconds takes"),
        ] {
            let error = Question::parse(text).unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
