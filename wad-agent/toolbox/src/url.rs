//! A URL says where a service is asked.

use std::fmt::{self, Display};

use axum::http::Uri;

/// An http or https URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub is_https: bool,
    /// A name or an address; an IPv6 address without its brackets.
    pub host: String,
    pub port: u16,
    /// Empty, or begins with a slash; with the query, if there is one.
    pub path: String,
}

/// Says why a text is no URL: what is wrong, a label for the place, and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{title}: {label}")]
pub struct UrlError {
    pub title: &'static str,
    pub label: &'static str,
    pub help: &'static str,
}

impl Url {
    /// Reads an absolute URL without a user's name. A slash at its end counts for nothing.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let mut url = Self::parse_exact(text)?;
        url.path.truncate(url.path.trim_end_matches('/').len());
        Ok(url)
    }

    /// Reads it with the slash at its end.
    pub fn parse_exact(text: &str) -> Result<Self, UrlError> {
        let help = "write it as \"https://prometheus.example.org:9090\"";
        let wrong = |label| UrlError { title: "this is no URL", label, help };
        let uri: Uri = text.parse().map_err(|_| wrong("cannot be read"))?;
        let is_https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong("must begin with http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("names no host"))?;
        if authority.as_str().contains('@') {
            let help = "put it into a file: see `token_file`, or `username` and `password_file`";
            let title = "a name or password in a URL";
            return Err(UrlError { title, label: "not here", help });
        }
        let (host, rest) = authority.as_str().split_at(authority.host().len());
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(wrong("names no host"));
        }
        let port = match rest.strip_prefix(':') {
            None => {
                if is_https {
                    443
                } else {
                    80
                }
            }
            Some(port) => match port.parse() {
                Ok(port) if port > 0 => port,
                _ => return Err(wrong("has no port behind the colon")),
            },
        };
        let path = uri.path_and_query().map_or("", |path| path.as_str());
        Ok(Self { is_https, host: host.to_owned(), port, path: path.to_owned() })
    }

    /// Returns the host as a request names it: with brackets and port, as far as they
    /// are needed.
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        match (self.is_https, port) {
            (true, 443) | (false, 80) => host,
            _ => format!("{host}:{port}"),
        }
    }

    /// Nobody else can listen.
    pub fn is_private(&self) -> bool {
        let address = self.host.parse::<std::net::IpAddr>();
        self.is_https || self.host == "localhost" || address.is_ok_and(|ip| ip.is_loopback())
    }
}

impl Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart_and_put_together() {
        for (text, authority, path) in [
            ("http://[::1]:9090", "[::1]:9090", ""),
            ("https://host.example/prefix/", "host.example", "/prefix"),
            ("http://host.example:80/a?b=c", "host.example", "/a?b=c"),
            ("https://192.0.2.1:8443", "192.0.2.1:8443", ""),
        ] {
            let url = Url::parse(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
            assert_eq!((url.authority().as_str(), url.path.as_str()), (authority, path), "{text}");
        }
        assert_eq!(Url::parse("http://[::1]:9090").unwrap().host, "::1");
        assert_eq!(Url::parse("https://a/").unwrap().to_string(), "https://a");
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in [
            "",
            "host",
            "host:9090",
            "ftp://host",
            "http://",
            "http:///x",
            "http://u:p@host",
            "http://host:",
            "http://host:0",
            "http://host:99999",
            "http://a b",
        ] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_loopback_and_tls_are_private() {
        let private = |text| Url::parse(text).unwrap().is_private();
        assert!(private("https://host") && private("http://127.0.0.2") && private("http://[::1]"));
        assert!(private("http://localhost:9090"));
        assert!(!private("http://host") && !private("http://192.0.2.1"));
    }
}
