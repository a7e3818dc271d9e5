//! Errors say why a request has no answer that can be used, and what is to be done.

use std::{io, path::PathBuf, time::Duration};

use hyper::body::Bytes;
use tokio_rustls::rustls;

use crate::identity::IdentityError;

#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("cannot read {}", file.display())]
    File { file: PathBuf, source: io::Error },
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("{} holds no {what} of one line", file.display())]
    Secret { file: PathBuf, what: &'static str },
    #[error("no address of {host}")]
    Resolve { host: String, source: io::Error },
    #[error("cannot connect to {authority}")]
    Connect { authority: String, source: io::Error },
    #[error("the proxy {proxy} makes no tunnel to {authority}: it answers {status}")]
    Tunnel { proxy: String, authority: String, status: u16 },
    #[error("{authority} cannot be trusted")]
    Tls { authority: String, source: rustls::Error },
    #[error("no whole answer within {seconds} s")]
    Timeout { seconds: f64 },
    #[error("the connection broke off")]
    Broken { source: Box<dyn std::error::Error + Send + Sync> },
    #[error("it answers {status}: {reason}{}", advice(*status))]
    Status {
        status: u16,
        reason: String,
        /// Time before it is asked again.
        wait: Option<Duration>,
        /// The rest of the answer, for those who can read it; empty where it is too large.
        body: Bytes,
    },
    #[error("it is moved to {location}, {why}: put the address that is meant into `url`")]
    Moved { location: String, why: &'static str },
    #[error("the answer has more than {most} bytes (max_response)")]
    TooLarge { most: usize },
}

/// Returns what is to be done about an answer.
const fn advice(status: u16) -> &'static str {
    match status {
        401 | 403 => "; see `token_file`, `username`, `headers` and `client_certificate`",
        407 => "; the proxy wants to know who asks, which wad does not tell",
        _ => "",
    }
}

pub fn broken(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> HttpError {
    HttpError::Broken { source: source.into() }
}
