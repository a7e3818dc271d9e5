//! Answers of a service are not trusted: their size is bounded by whoever asked, and their
//! texts end up in the log.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::{DecodeError, Message};
use wad_http::shown;

/// Says that a service has not taken all, or has something to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialSuccess {
    pub rejected_points: u64,
    /// The reason, or advice; as a log takes it.
    pub message: String,
}

/// Says that an answer is none of this protocol, though its status is one of success.
#[derive(Debug, thiserror::Error)]
#[error("it says that all is well, but not by OTLP: does another service listen at this `url`?")]
pub struct NoAnswer(#[from] DecodeError);

/// Reads the answer to an export that was taken; None if it was taken whole.
pub fn partial_success(body: &[u8]) -> Result<Option<PartialSuccess>, NoAnswer> {
    let Some(partial) = ExportMetricsServiceResponse::decode(body)?.partial_success else {
        return Ok(None);
    };
    // Fewer than none is none.
    let rejected_points = u64::try_from(partial.rejected_data_points).unwrap_or(0);
    let message = shown(&partial.error_message);
    // It may be there, and say nothing.
    let is_told = rejected_points > 0 || !message.is_empty();
    Ok(is_told.then_some(PartialSuccess { rejected_points, message }))
}

/// The body of a refusal (google.rpc.Status, as far as OTLP uses it).
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

/// Returns why an export was refused, if the body of the refusal says so by the protocol.
pub fn reason(body: &[u8]) -> Option<String> {
    let status = Status::decode(body).ok()?;
    Some(shown(&status.message)).filter(|message| !message.is_empty())
}

/// Reads what a service answers, for libFuzzer; see `tests/fuzz`.
#[cfg(feature = "fuzz")]
pub fn fuzz(bytes: &[u8]) {
    let is_for_a_log = |text: &str| text.len() < 3000 && !text.contains(char::is_control);
    if let Ok(Some(partial)) = partial_success(bytes) {
        assert!(is_for_a_log(&partial.message), "{partial:?}");
        assert!(partial.rejected_points > 0 || !partial.message.is_empty());
    }
    if let Some(reason) = reason(bytes) {
        assert!(is_for_a_log(&reason) && !reason.is_empty(), "{reason}");
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsPartialSuccess;

    use super::*;

    fn told(rejected_data_points: i64, error_message: &str) -> Option<PartialSuccess> {
        let error_message = error_message.to_owned();
        let partial = ExportMetricsPartialSuccess { rejected_data_points, error_message };
        let answer = ExportMetricsServiceResponse { partial_success: Some(partial) };
        partial_success(&answer.encode_to_vec()).unwrap()
    }

    #[test]
    fn a_success_may_be_one_in_part() {
        assert_eq!(partial_success(b"").unwrap(), None);
        assert_eq!(told(0, ""), None);
        let expected = |rejected_points, message: &str| {
            Some(PartialSuccess { rejected_points, message: message.to_owned() })
        };
        assert_eq!(told(7, "too old"), expected(7, "too old"));
        assert_eq!(told(0, "use another unit"), expected(0, "use another unit"));
        assert_eq!(told(-1, "a\nb\u{1b}"), expected(0, "a\\nb\\u{1b}"));
        assert!(told(1, &"x".repeat(100_000)).unwrap().message.len() < 1000);
    }

    #[test]
    fn other_answers_are_told_apart() {
        partial_success(b"<!doctype html>").unwrap_err();
        assert_eq!(reason(b"no such page"), None);
        assert_eq!(reason(b""), None);
        let status = Status { code: 8, message: "out of memory".to_owned() };
        assert_eq!(reason(&status.encode_to_vec()).as_deref(), Some("out of memory"));
    }
}
