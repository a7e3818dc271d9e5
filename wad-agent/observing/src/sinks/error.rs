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
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("cannot read what is spooled")]
    Spool(#[source] io::Error),
}

impl SinkError {
    /// Returns the time that it asks to be given before it is tried again.
    pub const fn wait(&self) -> Option<Duration> {
        match self {
            Self::Http(HttpError::Status { wait, .. }) => *wait,
            _ => None,
        }
    }

    /// Returns the error with its causes, in one line.
    pub fn told(&self) -> String {
        match self {
            Self::Http(error) => told(error),
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
