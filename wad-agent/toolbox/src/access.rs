//! Access is how a server is reached, and how it is told who asks. Secrets stand in files,
//! which whoever asks reads anew each time.

use std::{fmt, path::PathBuf};

pub use axum::http::{HeaderName, HeaderValue};

use crate::url::Url;

/// Says how a server is reached, and by what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Who asks: one way of saying so at most.
    pub credentials: Option<Credentials>,
    /// Further headers of each request.
    pub headers: Vec<Header>,
    /// PEM certificates that are trusted instead of the host's.
    pub ca_file: Option<PathBuf>,
    /// The certificate by which the server knows who asks.
    pub identity: Option<Identity>,
    /// An http proxy.
    pub proxy: Option<Url>,
}

impl Access {
    /// Says whether nobody on the way to this URL can read what is sent.
    pub fn is_private(&self, url: &Url) -> bool {
        url.is_private() && (url.is_https || self.proxy.as_ref().is_none_or(Url::is_private))
    }
}

/// Credentials stand in the header `Authorization`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// A bearer token (RFC 6750).
    Token { file: PathBuf },
    /// A name and a password (RFC 7617).
    Basic { username: String, file: PathBuf },
}

/// A header of each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub name: HeaderName,
    pub value: HeaderText,
}

/// Holds the value of a header.
#[derive(Clone, PartialEq, Eq)]
pub enum HeaderText {
    Given(String),
    File(PathBuf),
}

/// It may be a secret, though files are for those.
impl fmt::Debug for HeaderText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(_) => f.write_str("Given(..)"),
            Self::File(file) => f.debug_tuple("File").field(file).finish(),
        }
    }
}

/// PEM files of a certificate, with those between it and its authority, and of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub certificate: PathBuf,
    pub key: PathBuf,
}
