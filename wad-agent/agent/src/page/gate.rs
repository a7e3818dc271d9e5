//! The gate of the page: which requests are answered at all. A page of another origin in the
//! same browser is not to read what is shown here, whatever name it has for this host.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use wad_observing::metrics::PageReading;
use wad_policy::config::Page;
use wad_toolbox::mutex::locked;

use crate::api::{Terms, names_this_host};

/// A reason for which a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It would change something.
    Method,
    /// It does not ask for this host.
    Host,
    /// Another origin asks.
    Origin,
}

impl Reason {
    const ALL: [Self; 3] = [Self::Method, Self::Host, Self::Origin];

    const fn label(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::Host => "host",
            Self::Origin => "origin",
        }
    }

    /// Returns what the one who asked is told.
    pub const fn words(self) -> (StatusCode, &'static str) {
        match self {
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "this page can only be read\n"),
            Self::Host => (
                StatusCode::MISDIRECTED_REQUEST,
                "this page is asked for by localhost, by an address, by the host's own name, or \
                 by one of [page] hosts\n",
            ),
            Self::Origin => (StatusCode::FORBIDDEN, "another site may not ask for this page\n"),
        }
    }
}

/// Knows by which names the page may be asked for, and counts what is refused. Clones are of the
/// same.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Where the page is, and its further names; None where there is none.
    page: Mutex<Option<Page>>,
    refused: [AtomicU64; Reason::ALL.len()],
    cut_off: Arc<AtomicU64>,
}

impl Gate {
    /// Says where the page is from now on, and by which names it may be asked for.
    pub fn open_for(&self, page: Option<Page>) {
        *locked(&self.0.page) = page;
    }

    /// Returns the terms on which clients of the page are served.
    pub fn terms(&self) -> Terms {
        Terms { knows_names: true, cut_off: Arc::clone(&self.0.cut_off), ..Terms::default() }
    }

    /// Returns what was refused so far, where there is a page.
    pub fn reading(&self) -> Option<PageReading> {
        let address = locked(&self.0.page).as_ref()?.listen.to_string();
        let names = Reason::ALL.map(Reason::label).into_iter().chain(["slow"]);
        let counts = self.0.refused.iter().chain([&*self.0.cut_off]);
        let refused = names.zip(counts.map(|count| count.load(Ordering::Relaxed))).collect();
        Some(PageReading { address, refused })
    }

    /// Says why a request is not answered, if it is not, and counts it.
    pub fn refusal(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Reason> {
        let page = locked(&self.0.page).clone();
        let hosts = page.map(|page| page.hosts).unwrap_or_default();
        let reason = refusal(method, uri, headers, &hosts)?;
        self.0.refused[reason as usize].fetch_add(1, Ordering::Relaxed);
        Some(reason)
    }
}

fn refusal(method: &Method, uri: &Uri, headers: &HeaderMap, hosts: &[String]) -> Option<Reason> {
    if *method != Method::GET && *method != Method::HEAD {
        return Some(Reason::Method);
    }
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    // A proxy's form of a request has another name beside that (RFC 9112 section 3.2.2).
    let host = headers.get(header::HOST).filter(|_| uri.authority().is_none());
    let Some(host) = host.filter(|host| names_this_host(host, hosts)) else {
        return Some(Reason::Host);
    };
    let is_own = |origin: &str| {
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        authority.is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(host.as_bytes()))
    };
    if text(header::ORIGIN).is_some_and(|origin| !is_own(origin)) {
        return Some(Reason::Origin);
    }
    // A link from elsewhere may lead here, as it shows the page to nobody but who follows it
    // (W3C, Fetch Metadata Request Headers). What is put into another page may not.
    let is_followed = text(header::HeaderName::from_static("sec-fetch-mode")) == Some("navigate")
        && text(header::HeaderName::from_static("sec-fetch-dest")) == Some("document");
    match text(header::HeaderName::from_static("sec-fetch-site")) {
        None | Some("same-origin" | "none") => None,
        Some(_) if is_followed => None,
        Some(_) => Some(Reason::Origin),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};
    use wad_policy::config::PageAddress;

    use super::*;

    /// Headers, a line each.
    fn asked(lines: &str) -> Option<Reason> {
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").expect("a header");
            (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap())
        };
        let headers = HeaderMap::from_iter(lines.lines().map(header));
        let hosts = ["dtn.example.org".to_owned()];
        refusal(&Method::GET, &Uri::from_static("/"), &headers, &hosts)
    }

    #[test]
    fn it_is_asked_for_by_names_of_this_host() {
        for host in ["localhost:9467", "127.0.0.1:9467", "[::1]", "dtn.example.org", "a.localhost"]
        {
            assert_eq!(asked(&format!("host: {host}")), None, "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:9467", "dtn.example.org@evil.example"]
        {
            assert_eq!(asked(&format!("host: {host}")), Some(Reason::Host), "{host}");
        }
        assert_eq!(asked(""), Some(Reason::Host));
    }

    #[test]
    fn a_proxys_form_of_a_request_is_refused() {
        let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static("localhost"))]);
        let refused = |uri| refusal(&Method::GET, &Uri::from_static(uri), &headers, &[]);
        assert_eq!((refused("/"), refused("http://evil.example/")), (None, Some(Reason::Host)));
    }

    #[test]
    fn other_origins_are_refused() {
        let own = "host: localhost:9467\n";
        for (lines, expected) in [
            ("origin: http://localhost:9467", None),
            ("origin: https://LOCALHOST:9467", None),
            ("origin: http://localhost:3000", Some(Reason::Origin)),
            ("origin: http://evil.example", Some(Reason::Origin)),
            ("origin: null", Some(Reason::Origin)),
            ("sec-fetch-site: same-origin", None),
            ("sec-fetch-site: none\nsec-fetch-mode: navigate\nsec-fetch-dest: document", None),
            (
                "sec-fetch-site: cross-site\nsec-fetch-mode: navigate\nsec-fetch-dest: document",
                None,
            ),
            (
                "sec-fetch-site: cross-site\nsec-fetch-mode: navigate\nsec-fetch-dest: iframe",
                Some(Reason::Origin),
            ),
            ("sec-fetch-site: same-site\nsec-fetch-mode: cors", Some(Reason::Origin)),
            ("sec-fetch-site: cross-site\nsec-fetch-mode: no-cors", Some(Reason::Origin)),
            ("sec-fetch-site: unheard-of", Some(Reason::Origin)),
        ] {
            assert_eq!(asked(&format!("{own}{lines}")), expected, "{lines}");
        }
    }

    #[test]
    fn only_what_reads_is_answered_and_the_rest_counted() {
        let gate = Gate::default();
        assert_eq!(gate.reading(), None);
        let listen = PageAddress::Socket("/run/wad/page.sock".into());
        gate.open_for(Some(Page { listen, hosts: Vec::new() }));
        let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static("localhost"))]);
        let refusal = |method| gate.refusal(&method, &Uri::from_static("/"), &headers);
        assert_eq!((refusal(Method::GET), refusal(Method::HEAD)), (None, None));
        for method in [Method::POST, Method::PUT, Method::OPTIONS, Method::DELETE, Method::TRACE] {
            assert_eq!(refusal(method), Some(Reason::Method));
        }
        let refused = vec![("method", 5), ("host", 0), ("origin", 0), ("slow", 0)];
        let address = "/run/wad/page.sock".to_owned();
        assert_eq!(gate.reading(), Some(PageReading { address, refused }));
    }
}
