//! An error says what is wrong with a source. The kinds are closed: they label a
//! metric.

use wad_http::HttpError;
use wad_policy::config::Metric;
use wad_toolbox::causes::told;

#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("the answer is not as documented")]
    Malformed { source: serde_json::Error },
    #[error("it refuses the query of `{query}`: {reason}")]
    Refused { query: &'static str, reason: String },
    #[error("`{query}` gives {what}, not a series for each path")]
    NotSeries { query: &'static str, what: &'static str },
    #[error("`{query}` gives nothing")]
    Empty { query: &'static str },
    #[error("`{query}` gives {value} for path {path}, which is none")]
    Value { query: &'static str, value: String, path: String },
    #[error("`{query}` gives more than one value for path {path}")]
    Ambiguous { query: &'static str, path: String },
    #[error("the last `{query}` to {dest} failed: {reason}")]
    Failed { query: &'static str, dest: String, reason: String },
    #[error("the probe service of this agent does not run")]
    NoService,
    #[error("the probe service of this agent cannot say")]
    Own { source: Box<dyn std::error::Error + Send + Sync> },
    #[error("`{query}` gives nothing whose {label} is a measured path or an address in one")]
    Unmatched { query: &'static str, label: String },
}

/// Each with its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorKind {
    File,
    Resolve,
    Connect,
    Tls,
    Timeout,
    Broken,
    Status,
    TooLarge,
    Malformed,
    Refused,
    Empty,
    Value,
    Ambiguous,
    Failed,
    Unmatched,
}

impl ErrorKind {
    pub const ALL: [Self; 15] = [
        Self::File,
        Self::Resolve,
        Self::Connect,
        Self::Tls,
        Self::Timeout,
        Self::Broken,
        Self::Status,
        Self::TooLarge,
        Self::Malformed,
        Self::Refused,
        Self::Empty,
        Self::Value,
        Self::Ambiguous,
        Self::Failed,
        Self::Unmatched,
    ];

    pub const fn label(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Broken => "broken",
            Self::Status => "status",
            Self::TooLarge => "too_large",
            Self::Malformed => "malformed",
            Self::Refused => "refused",
            Self::Empty => "empty",
            Self::Value => "value",
            Self::Ambiguous => "ambiguous",
            Self::Failed => "failed",
            Self::Unmatched => "unmatched",
        }
    }
}

impl SourceError {
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Http(error) => of_request(error),
            Self::Malformed { .. } => ErrorKind::Malformed,
            Self::Refused { .. } | Self::NotSeries { .. } => ErrorKind::Refused,
            Self::Empty { .. } => ErrorKind::Empty,
            Self::Value { .. } => ErrorKind::Value,
            Self::Ambiguous { .. } => ErrorKind::Ambiguous,
            Self::Failed { .. } => ErrorKind::Failed,
            Self::Unmatched { .. } => ErrorKind::Unmatched,
            Self::NoService => ErrorKind::Connect,
            Self::Own { .. } => ErrorKind::Broken,
        }
    }

    /// Returns what the probe service of this agent has met.
    pub fn own(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Own { source: Box::new(source) }
    }

    /// Whether it is of one answer alone, so that the next question may well be answered.
    pub const fn is_of_one_answer(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Malformed | ErrorKind::Status | ErrorKind::TooLarge | ErrorKind::Timeout
        )
    }

    /// Returns the error with its causes, in one line that has an end: some of it is
    /// what a service sent.
    pub fn told(&self) -> String {
        told(self)
    }
}

const fn of_request(error: &HttpError) -> ErrorKind {
    match error {
        HttpError::File { .. } | HttpError::Identity(_) | HttpError::Secret { .. } => {
            ErrorKind::File
        }
        HttpError::Resolve { .. } => ErrorKind::Resolve,
        HttpError::Connect { .. } | HttpError::Tunnel { .. } => ErrorKind::Connect,
        HttpError::Tls { .. } => ErrorKind::Tls,
        HttpError::Timeout { .. } => ErrorKind::Timeout,
        HttpError::Broken { .. } => ErrorKind::Broken,
        HttpError::Status { .. } | HttpError::Moved { .. } => ErrorKind::Status,
        HttpError::TooLarge { .. } => ErrorKind::TooLarge,
    }
}

/// Whether a path can have such a value.
pub fn is_possible(metric: Metric, value: f64) -> bool {
    match metric {
        Metric::Bandwidth => wad_policy::config::is_rate(value),
        Metric::Rtt => wad_policy::config::is_rtt(value),
        Metric::Loss | Metric::Reordering => (0.0..=1.0).contains(&value),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn what_a_service_sends_cannot_write_lines_of_the_log() {
        #[derive(Debug, serde::Deserialize)]
        enum Known {}
        let source = serde_json::from_str::<Known>(r#""x\n\u001b[2Jforged""#).unwrap_err();
        let told = SourceError::Malformed { source }.told();
        assert!(told.contains(r"x\n\u{1b}[2Jforged"), "{told}");
        let host = format!("a\nb{}", "c".repeat(1_000_000));
        let source = io::ErrorKind::NotFound.into();
        let told = SourceError::from(HttpError::Resolve { host, source }).told();
        assert!(told.starts_with(r"no address of a\nbccc") && told.len() < 2000, "{told}");
    }
}
