//! Sends one request over HTTP or HTTPS, to the last byte of its answer, within bounds
//! of time and size; or takes an answer part by part, for as long as its server sends.
//!
//! A connection for each: they are seconds apart. Redirects are followed within limits, and
//! who asks is told to the server of the URL only. A proxy is used where one is named: the
//! environment counts for nothing.

mod body;
pub mod connect;
mod credentials;
mod error;
pub mod identity;
pub mod names;
mod redirect;
mod stream;
#[cfg(test)]
mod tests;
mod tls;
mod tunnel;

use std::time::Duration;

use http_body_util::Full;
use hyper::{
    Method, Request, StatusCode,
    body::Bytes,
    header::{
        ACCEPT, ETAG, HOST, HeaderMap, HeaderValue, IF_NONE_MATCH, LOCATION, RETRY_AFTER,
        USER_AGENT,
    },
};
use jiff::{Timestamp, fmt::rfc2822};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use wad_toolbox::{access::Access, url::Url};

use self::error::broken;
pub use self::{body::Body, error::HttpError, stream::Stream};

type Result<T, E = HttpError> = std::result::Result<T, E>;

/// An answer's head may have this many bytes. Sources have no use for more.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// Most characters of the reason that comes with a refusal.
const MAX_REASON_CHARS: usize = 200;

/// Terms are what bounds a request, and how its server is reached.
#[derive(Clone, Copy)]
pub struct Terms<'a> {
    pub access: &'a Access,
    /// Time from the name look-up to the last byte, redirects included.
    pub timeout: Duration,
    pub max_response_bytes: usize,
}

/// A client holds what several requests to a server have in common.
pub struct Client<'a> {
    terms: Terms<'a>,
    url: &'a Url,
    /// The headers that tell the server who asks.
    credentials: HeaderMap,
    tls: Option<TlsConnector>,
}

/// The version of a body, by which its server knows it again (RFC 9110 section 8.8.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(HeaderValue);

/// A body, or word that it is the one that was had last.
#[derive(Debug, PartialEq, Eq)]
pub enum Fetched {
    Same,
    New { body: Bytes, version: Option<Version> },
}

/// A request, wherever it is sent.
struct Asked {
    method: Method,
    /// Headers of this request alone.
    headers: HeaderMap,
    body: Bytes,
}

impl Asked {
    fn get() -> Self {
        Self { method: Method::GET, headers: HeaderMap::new(), body: Bytes::new() }
    }
}

/// An answer that is no error.
#[derive(Debug)]
enum Answer {
    Here(Fetched),
    /// The location that is to be asked instead.
    Elsewhere(String),
}

impl<'a> Client<'a> {
    /// Reads the secrets and the certificates: any may have been replaced since the last
    /// time.
    pub fn new(terms: Terms<'a>, url: &'a Url) -> Result<Self> {
        let credentials = credentials::headers(terms.access)?;
        let identity = terms.access.identity.as_ref();
        let tls = url.is_https.then(|| tls::connector(terms.access, identity)).transpose()?;
        Ok(Self { terms, url, credentials, tls })
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
        let url = Url { path: path.to_owned(), ..self.url.clone() };
        match self.ask(url, &Asked::get()).await? {
            Fetched::New { body, .. } => Ok(body),
            Fetched::Same => unreachable!("no version was named"),
        }
    }

    /// The body that is at the URL, unless it is this version.
    pub async fn fetch(&self, known: Option<&Version>) -> Result<Fetched> {
        let mut asked = Asked::get();
        if let Some(Version(tag)) = known {
            asked.headers.insert(IF_NONE_MATCH, tag.clone());
        }
        self.ask(self.url.clone(), &asked).await
    }

    /// Has the URL take a body, which these headers tell of, and returns what it says to that.
    pub async fn post(&self, headers: HeaderMap, body: Bytes) -> Result<Bytes> {
        let asked = Asked { method: Method::POST, headers, body };
        match self.ask(self.url.clone(), &asked).await? {
            Fetched::New { body, .. } => Ok(body),
            Fetched::Same => unreachable!("no version was named"),
        }
    }

    /// Follows redirects, all within the time of one request.
    async fn ask(&self, mut url: Url, asked: &Asked) -> Result<Fetched> {
        let follow = async {
            for _ in 0..=redirect::MOST {
                match self.send(&url, asked).await? {
                    Answer::Elsewhere(location) => url = redirect::target(&url, &location)?,
                    Answer::Here(fetched) => return Ok(fetched),
                }
            }
            let (location, why) = (shown(&url.to_string()), "after other places");
            Err(HttpError::Moved { location, why })
        };
        self.in_time(follow).await
    }

    /// The body that is at this path below the source's URL, as it comes: the time of the
    /// terms is for its head. Redirects are not followed.
    pub async fn open(&self, path: &str) -> Result<Body> {
        let url = Url { path: format!("{}{path}", self.url.path), ..self.url.clone() };
        let request = self.request(&url, &Asked::get())?;
        let opened = async { Body::open(self.reach(&url).await?, request).await };
        let (head, body) = self.in_time(opened).await?;
        if head.status.is_success() {
            return Ok(body);
        }
        let text = self.in_time(body.whole(self.terms.max_response_bytes)).await;
        Err(refusal(head.status, retry_after(&head.headers), text))
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let most = self.terms.timeout;
        let late = |_| HttpError::Timeout { seconds: most.as_secs_f64() };
        timeout(most, work).await.map_err(late)?
    }

    async fn send(&self, url: &Url, asked: &Asked) -> Result<Answer> {
        let request = self.request(url, asked)?;
        self.exchange(self.reach(url).await?, request).await
    }

    /// Connects to a URL's server, by the proxy if there is one, and encrypts what is said.
    async fn reach(&self, url: &Url) -> Result<Box<dyn Stream>> {
        let proxy = self.terms.access.proxy.as_ref();
        let mut stream: Box<dyn Stream> = Box::new(stream::to(proxy.unwrap_or(url)).await?);
        if url.is_https {
            if let Some(proxy) = proxy {
                stream = tunnel::through(proxy, stream, url).await?;
            }
            let to_another;
            let connector = match &self.tls {
                Some(connector) if redirect::is_same_server(self.url, url) => connector,
                _ => {
                    to_another = self.connector(url)?;
                    &to_another
                }
            };
            stream = tls::encrypt(connector, url, stream).await?;
        }
        Ok(stream)
    }

    /// Makes the connector for a server that a redirect leads to.
    fn connector(&self, url: &Url) -> Result<TlsConnector> {
        let identity = self.terms.access.identity.as_ref();
        let identity = identity.filter(|_| redirect::is_same_server(self.url, url));
        tls::connector(self.terms.access, identity)
    }

    async fn exchange(
        &self,
        stream: Box<dyn Stream>,
        request: Request<Full<Bytes>>,
    ) -> Result<Answer> {
        let method = request.method().clone();
        let has_version = request.headers().contains_key(IF_NONE_MATCH);
        let (head, body) = Body::open(stream, request).await?;
        let header = |name| head.headers.get(name);
        let location = header(LOCATION).and_then(|location| location.to_str().ok());
        if let Some(location) = location.filter(|_| redirect::is_followed(head.status, &method)) {
            return Ok(Answer::Elsewhere(location.to_owned()));
        }
        if head.status == StatusCode::NOT_MODIFIED && has_version {
            return Ok(Answer::Here(Fetched::Same));
        }
        let body = body.whole(self.terms.max_response_bytes).await;
        if !head.status.is_success() {
            return Err(refusal(head.status, retry_after(&head.headers), body));
        }
        let version = header(ETAG).cloned().map(Version);
        Ok(Answer::Here(Fetched::New { body: body?, version }))
    }

    fn request(&self, url: &Url, asked: &Asked) -> Result<Request<Full<Bytes>>> {
        let path = if url.path.starts_with('/') { "" } else { "/" };
        let path = format!("{path}{}", url.path);
        // A proxy is told which server is meant (RFC 9112 section 3.2.2).
        let is_proxied = self.terms.access.proxy.is_some() && !url.is_https;
        let target = if is_proxied { format!("http://{}{path}", url.authority()) } else { path };
        let mut request = Request::builder()
            .method(asked.method.clone())
            .uri(target)
            .header(HOST, url.authority())
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("wad/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(asked.body.clone()))
            .map_err(broken)?;
        let headers = request.headers_mut();
        headers.extend(asked.headers.clone());
        if redirect::is_same_server(self.url, url) {
            headers.extend(self.credentials.clone());
        }
        Ok(request)
    }
}

/// Reads what a server sends, for libFuzzer; see `tests/fuzz`.
#[cfg(feature = "fuzz")]
pub fn fuzz(bytes: &[u8]) -> Result<Bytes> {
    const MOST: usize = 1000;
    let url = Url { is_https: false, host: "a".to_owned(), port: 80, path: "/b?c".to_owned() };
    let access = Access::default();
    let timeout = Duration::from_secs(1);
    let terms = Terms { access: &access, timeout, max_response_bytes: MOST };
    let client = Client::new(terms, &url).expect("there is no file to read");
    let request = client.request(&url, &Asked::get()).expect("a request");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("memory");
    let (ours, mut theirs) = tokio::io::duplex(64 << 10);
    let server = async move {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        // Nobody answers before the question.
        let _ = theirs.read(&mut [0; 1024]).await;
        let _ = theirs.write_all(bytes).await;
    };
    let (answer, ()) =
        runtime.block_on(async { tokio::join!(client.exchange(Box::new(ours), request), server) });
    match answer? {
        Answer::Here(Fetched::New { body, .. }) => {
            assert!(body.len() <= MOST);
            Ok(body)
        }
        Answer::Here(Fetched::Same) => Ok(Bytes::new()),
        Answer::Elsewhere(location) => {
            let target = redirect::target(&url, &location)?;
            // It is a URL like any other, and can be asked.
            assert_eq!(Url::parse_exact(&target.to_string()).as_ref(), Ok(&target));
            client.request(&target, &Asked::get()).map(|_| Bytes::new())
        }
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
    HttpError::Status { status: status.as_u16(), reason, wait, body }
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
