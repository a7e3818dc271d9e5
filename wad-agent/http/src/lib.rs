//! Sends one request over HTTP or HTTPS, to the last byte of its answer, within bounds
//! of time and size.
//!
//! A connection for each: they are seconds apart. Redirects are not followed,
//! and no proxy is used.

mod connect;
pub mod names;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::http::request::Builder;
use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request, StatusCode,
    body::{Body as _, Bytes, Incoming},
    client::conn::http1,
    header::{
        ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT,
    },
};
use hyper_util::rt::TokioIo;
use jiff::{Timestamp, fmt::rfc2822};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        self, ClientConfig, RootCertStore,
        pki_types::{CertificateDer, ServerName, pem::PemObject as _},
    },
};
use wad_toolbox::url::Url;

type Result<T, E = HttpError> = std::result::Result<T, E>;

/// An answer's head may have this many bytes. Sources have no use for more.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// Most characters of the reason that comes with a refusal.
const MAX_REASON_CHARS: usize = 200;

/// Terms are what bounds a request, and what it is trusted by.
#[derive(Clone, Copy)]
pub struct Terms<'a> {
    /// Holds a bearer token.
    pub token_file: Option<&'a Path>,
    /// PEM certificates that are trusted instead of the host's.
    pub ca_file: Option<&'a Path>,
    /// Time from the name look-up to the last byte.
    pub timeout: Duration,
    pub max_response_bytes: usize,
}

/// Says why a request has no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("cannot read {}", file.display())]
    File { file: PathBuf, source: io::Error },
    #[error("{} holds no certificate that can be used", file.display())]
    Certificates { file: PathBuf },
    #[error("{} holds no token of one line", file.display())]
    Token { file: PathBuf },
    #[error("no address of {host}")]
    Resolve { host: String, source: io::Error },
    #[error("cannot connect to {authority}")]
    Connect { authority: String, source: io::Error },
    #[error("{authority} cannot be trusted")]
    Tls { authority: String, source: rustls::Error },
    #[error("no whole answer within {seconds} s")]
    Timeout { seconds: f64 },
    #[error("the connection broke off")]
    Broken { source: Box<dyn std::error::Error + Send + Sync> },
    #[error("it answers {status}: {reason}")]
    Status {
        status: u16,
        reason: String,
        /// Time before it is asked again.
        wait: Option<Duration>,
    },
    #[error("the answer has more than {most} bytes (max_response)")]
    TooLarge { most: usize },
}

/// A client holds what several requests to a server have in common.
pub struct Client<'a> {
    terms: Terms<'a>,
    url: &'a Url,
    authorization: Option<HeaderValue>,
    tls: Option<TlsConnector>,
}

impl<'a> Client<'a> {
    /// Reads the token and the certificates: either may have been replaced since
    /// the last time.
    pub fn new(terms: Terms<'a>, url: &'a Url) -> Result<Self> {
        let authorization = terms.token_file.map(read_token).transpose()?;
        let tls = url.is_https.then(|| connector(terms.ca_file)).transpose()?;
        Ok(Self { terms, url, authorization, tls })
    }

    /// The host that is asked.
    pub fn host(&self) -> &str {
        &self.url.host
    }

    /// The body that is at this path below the source's URL.
    pub async fn get(&self, path: &str) -> Result<Bytes> {
        self.get_absolute(&format!("{}{path}", self.url.path)).await
    }

    /// The body that is at this path of the source's host.
    pub async fn get_absolute(&self, path: &str) -> Result<Bytes> {
        self.ask(self.head(Method::GET, path).body(Full::default())).await
    }

    /// Has the URL take a body.
    pub async fn post(&self, content_type: &'static str, body: Bytes) -> Result<()> {
        let head = self.head(Method::POST, &self.url.path).header(CONTENT_TYPE, content_type);
        self.ask(head.body(Full::new(body))).await.map(|_| ())
    }

    async fn ask(&self, request: Result<Request<Full<Bytes>>, axum::http::Error>) -> Result<Bytes> {
        let most = self.terms.timeout;
        let late = |_| HttpError::Timeout { seconds: most.as_secs_f64() };
        timeout(most, self.send(request.map_err(broken)?)).await.map_err(late)?
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Bytes> {
        let url = self.url;
        let stream = connect(url).await?;
        let Some(tls) = &self.tls else { return self.exchange(stream, request).await };
        let name = ServerName::try_from(url.host.clone()).map_err(|_| HttpError::Resolve {
            host: url.host.clone(),
            source: io::ErrorKind::InvalidInput.into(),
        })?;
        let stream = tls.connect(name, stream).await.map_err(|error| tls_error(url, error))?;
        self.exchange(stream, request).await
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        request: Request<Full<Bytes>>,
    ) -> Result<Bytes> {
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(MAX_HEAD_BYTES)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(broken)?;
        let answer = async {
            let answer = sender.send_request(request).await.map_err(broken)?;
            let (status, wait) = (answer.status(), retry_after(answer.headers()));
            let body = self.body(answer.into_body()).await;
            if status.is_success() { body } else { Err(refusal(status, wait, body)) }
        };
        tokio::pin!(connection);
        tokio::pin!(answer);
        tokio::select! {
            answer = &mut answer => answer,
            // The connection may be done while the answer still has to be taken.
            ended = &mut connection => match ended {
                Ok(()) => answer.await,
                Err(error) => Err(broken(error)),
            }
        }
    }

    fn head(&self, method: Method, path: &str) -> Builder {
        let head = Request::builder()
            .method(method)
            .uri(if path.is_empty() { "/" } else { path })
            .header(HOST, self.url.authority())
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("wad/", env!("CARGO_PKG_VERSION")));
        match &self.authorization {
            Some(authorization) => head.header(AUTHORIZATION, authorization),
            None => head,
        }
    }

    async fn body(&self, mut body: Incoming) -> Result<Bytes> {
        let most = self.terms.max_response_bytes;
        let too_large = HttpError::TooLarge { most };
        if body.size_hint().lower() > most as u64 {
            return Err(too_large);
        }
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
            if bytes.len() + data.len() > most {
                return Err(too_large);
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes.into())
    }
}

/// Reads what a server sends, for libFuzzer; see `tests/fuzz`.
#[cfg(feature = "fuzz")]
pub fn fuzz(bytes: &[u8]) -> Result<Bytes> {
    const MOST: usize = 1000;
    let url = Url { is_https: false, host: "a".to_owned(), port: 80, path: String::new() };
    let timeout = Duration::from_secs(1);
    let terms = Terms { token_file: None, ca_file: None, timeout, max_response_bytes: MOST };
    let client = Client::new(terms, &url).expect("there is no file to read");
    let request = client.head(Method::GET, "").body(Full::default()).expect("a request");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("memory");
    let (ours, mut theirs) = tokio::io::duplex(64 << 10);
    let server = async move {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        // Nobody answers before the question.
        let _ = theirs.read(&mut [0; 1024]).await;
        let _ = theirs.write_all(bytes).await;
    };
    let (body, ()) =
        runtime.block_on(async { tokio::join!(client.exchange(ours, request), server) });
    assert!(body.as_ref().map_or(0, Bytes::len) <= MOST);
    body
}

async fn connect(url: &Url) -> Result<TcpStream> {
    let resolve = |source| HttpError::Resolve { host: url.host.clone(), source };
    let addresses = names::addresses(&url.host, url.port).await.map_err(resolve)?;
    let connected = connect::connect(addresses).await;
    connected.map_err(|source| HttpError::Connect { authority: url.authority(), source })
}

fn broken(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> HttpError {
    HttpError::Broken { source: source.into() }
}

/// A certificate that is refused, or a connection that ends.
fn tls_error(url: &Url, error: io::Error) -> HttpError {
    let refused = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match refused.cloned() {
        Some(source) => HttpError::Tls { authority: url.authority(), source },
        None => broken(error),
    }
}

/// Returns what the server asks to be given: seconds, or until when (RFC 9110 section
/// 10.2.3).
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = rfc2822::parse(text).ok()?.timestamp();
    Duration::try_from(until.duration_since(Timestamp::now())).ok()
}

fn refusal(status: StatusCode, wait: Option<Duration>, body: Result<Bytes>) -> HttpError {
    // Whatever else is wrong with it: it is the status that counts.
    let body = body.unwrap_or_default();
    let text = String::from_utf8_lossy(&body);
    let reason = shown(text.lines().next().unwrap_or_default());
    HttpError::Status { status: status.as_u16(), reason, wait }
}

/// Returns another's text as a log takes it.
pub fn shown(text: &str) -> String {
    text.trim().chars().take(MAX_REASON_CHARS).flat_map(char::escape_debug).collect()
}

/// RFC 3986's unreserved characters stay as they are.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Writes a text as a part of a URL's query.
pub fn encoded(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, ENCODED)
}

fn read_token(file: &Path) -> Result<HeaderValue> {
    let text = fs::read_to_string(file)
        .map_err(|source| HttpError::File { file: file.to_owned(), source })?;
    let token = text.trim();
    let value = HeaderValue::from_str(&format!("Bearer {token}")).ok();
    let mut value = value
        .filter(|_| !token.is_empty())
        .ok_or_else(|| HttpError::Token { file: file.to_owned() })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Trusts the certificates of a file, or else the host's.
fn connector(ca_file: Option<&Path>) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    match ca_file {
        Some(file) => {
            let pem = fs::read(file)
                .map_err(|source| HttpError::File { file: file.to_owned(), source })?;
            let certificates = CertificateDer::pem_slice_iter(&pem).flatten();
            roots.add_parsable_certificates(certificates);
            if roots.is_empty() {
                return Err(HttpError::Certificates { file: file.to_owned() });
            }
        }
        None => {
            // What can't be read is as good as not there: a server is trusted by
            // what is left, or not at all.
            let certificates = rustls_native_certs::load_native_certs().certs;
            roots.add_parsable_certificates(certificates);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the suites of TLS 1.2 and 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_how_long_to_wait() {
        let wait = |text: &'static str| {
            retry_after(&HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]))
        };
        assert_eq!(wait("120"), Some(Duration::from_secs(120)));
        assert!(wait("Wed, 31 Dec 2200 23:59:59 GMT") > Some(Duration::from_secs(1 << 30)));
        for text in ["Fri, 31 Dec 1999 23:59:59 GMT", "-1", "soon", ""] {
            assert_eq!(wait(text), None, "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

    #[test]
    fn a_query_is_encoded() {
        let text = encoded("rate(x{a=\"b c\"}[5m])").to_string();
        assert_eq!(text, "rate%28x%7Ba%3D%22b%20c%22%7D%5B5m%5D%29");
        assert_eq!(encoded("a-b.c_d~").to_string(), "a-b.c_d~");
    }
}
