//! Redirects: where a server says that it is (RFC 9110 section 10.2.2), which is for others
//! to say, and how far it is followed.

use hyper::{Method, StatusCode};
use wad_toolbox::url::Url;

use crate::{error::HttpError, shown};

/// Most redirects of one request.
pub const MOST: usize = 5;

/// Whether an answer tells where to ask the same. One that has taken a body is asked the same
/// only where it says so.
pub fn is_followed(status: StatusCode, method: &Method) -> bool {
    match status.as_u16() {
        307 | 308 => true,
        301..=303 => method == Method::GET,
        _ => false,
    }
}

/// Returns the URL that is meant, seen from the one that was asked: over the same protocol,
/// or an encrypted one.
pub fn target(from: &Url, location: &str) -> Result<Url, HttpError> {
    let refused = |why| HttpError::Moved { location: shown(location), why };
    let (reference, _) = location.split_once('#').unwrap_or((location, ""));
    let scheme = if from.is_https { "https" } else { "http" };
    let (path, query) = from.path.split_once('?').unwrap_or((&from.path, ""));
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    let origin = format!("{scheme}://{}", from.authority());
    // RFC 3986 section 5.2.2; servers see to the dots in a path.
    let has_scheme = reference.split_once(':').is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    let text = if has_scheme {
        reference.to_owned()
    } else if reference.starts_with("//") {
        format!("{scheme}:{reference}")
    } else if reference.starts_with('/') {
        format!("{origin}{reference}")
    } else if reference.starts_with('?') {
        format!("{origin}{path}{reference}")
    } else if reference.is_empty() {
        format!("{origin}{path}{query}")
    } else {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{origin}{folder}/{reference}")
    };
    let url = Url::parse_exact(&text).map_err(|_| refused("which is no URL that can be asked"))?;
    if from.is_https && !url.is_https {
        return Err(refused("which is not encrypted, as this was"));
    }
    Ok(url)
}

/// Whether it is the same server, which may know who asks: the same port as well, unless it
/// is the usual one of each.
pub fn is_same_server(url: &Url, other: &Url) -> bool {
    let server = |url: &Url| (url.is_https, url.host.to_ascii_lowercase(), url.port);
    let (this, that) = (server(url), server(other));
    this == that || this.1 == that.1 && (url.port, other.port) == (80, 443) && other.is_https
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse_exact(text).unwrap()
    }

    #[test]
    fn a_location_is_seen_from_the_url_that_was_asked() {
        for (from, location, expected) in [
            ("http://a/b/c?d", "e", "http://a/b/e"),
            ("http://a/b/c?d", "/e/?f", "http://a/e/?f"),
            ("http://a/b/c?d", "?e", "http://a/b/c?e"),
            ("http://a/b/c?d", "#e", "http://a/b/c?d"),
            ("http://a:81/b", "//e:82/f", "http://e:82/f"),
            ("http://a", "e", "http://a/e"),
            ("http://a/b", "https://a/b/", "https://a/b/"),
            ("http://a/b", "HTTP://a/b:c", "http://a/b:c"),
            ("https://[::1]:81/b", "/c", "https://[::1]:81/c"),
        ] {
            let to = target(&url(from), location).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(to.to_string(), expected, "{from} {location}");
        }
    }

    #[test]
    fn what_cannot_be_asked_or_read_on_the_way_is_refused() {
        for (from, location, why) in [
            ("https://a", "http://a", "not encrypted"),
            ("http://a", "ftp://a", "no URL"),
            ("http://a", "http://u:p@a", "no URL"),
            ("http://a", "http://", "no URL"),
            ("http://a", "mailto:x", "no URL"),
            ("http://a", "/ b", "no URL"),
            ("http://a", "//", "no URL"),
        ] {
            let error = target(&url(from), location).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("`url`"), "{location}: {error}");
        }
    }

    #[test]
    fn only_the_same_server_may_know_who_asks() {
        for (one, other, expected) in [
            ("http://a/b", "http://A/c", true),
            ("http://a", "https://a", true),
            ("https://a:8443", "https://a:8443", true),
            ("http://a", "http://b", false),
            ("http://a", "http://a.b", false),
            ("http://a", "http://a:81", false),
            ("http://a:81", "https://a", false),
            ("https://a", "http://a", false),
        ] {
            assert_eq!(is_same_server(&url(one), &url(other)), expected, "{one} {other}");
        }
    }

    #[test]
    fn a_body_is_sent_again_only_where_that_is_meant() {
        let followed = |status, method| is_followed(StatusCode::from_u16(status).unwrap(), &method);
        for status in [301, 302, 303, 307, 308] {
            assert!(followed(status, Method::GET), "{status}");
            assert_eq!(followed(status, Method::POST), status >= 307, "{status}");
        }
        assert!(![300, 304, 305, 200, 404].iter().any(|status| followed(*status, Method::GET)));
    }
}
