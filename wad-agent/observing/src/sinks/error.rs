//! Errors say what is wrong with a sink.

use std::{io, path::PathBuf, time::Duration};

use wad_http::HttpError;
use wad_toolbox::causes::told;

#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    #[error("cannot write to standard output")]
    Stdout(#[source] io::Error),
    #[error("cannot write {}", file.display())]
    Write { file: PathBuf, source: io::Error },
    #[error("cannot rename {}, which is full", file.display())]
    Rotate { file: PathBuf, source: io::Error },
    #[error("cannot send to {}", socket.display())]
    Send { socket: PathBuf, source: io::Error },
    #[error("cannot start what talks HTTP")]
    Runtime(#[source] io::Error),
    #[error("cannot post to {url}")]
    Http { url: String, source: Box<HttpError> },
    #[error("cannot read what is spooled")]
    Spool(#[source] io::Error),
    #[error("cannot set aside in {} what it refuses", file.display())]
    Aside { file: PathBuf, source: io::Error },
}

impl SinkError {
    /// Returns the time that it asks to be given before it is tried again.
    pub fn wait(&self) -> Option<Duration> {
        match self.http() {
            Some(HttpError::Status { wait, .. }) => *wait,
            _ => None,
        }
    }

    fn http(&self) -> Option<&HttpError> {
        match self {
            Self::Http { source, .. } => Some(source),
            _ => None,
        }
    }

    /// Says whether the same again will be answered the same: any 4xx but those that are
    /// about the time (RFC 9110 section 15.5.9, RFC 8470, RFC 6585).
    pub fn is_refusal(&self) -> bool {
        const TEMPORARY: [u16; 3] = [408, 425, 429];
        matches!(self.http(), Some(HttpError::Status { status, .. })
            if (400..500).contains(status) && !TEMPORARY.contains(status))
    }

    /// Returns the error with its causes, in one line.
    pub fn told(&self) -> String {
        match self {
            error @ Self::Http { .. } => told(error),
            error => match std::error::Error::source(error) {
                Some(cause) => format!("{error}: {cause}"),
                None => error.to_string(),
            },
        }
    }
}

/// A refusal says that not all of a batch was taken.
#[derive(Debug)]
pub struct Refused {
    /// Lines that were.
    pub taken: usize,
    pub error: SinkError,
}

impl Refused {
    pub const fn all(error: SinkError) -> Self {
        Self { taken: 0, error }
    }
}
