//! The name by which a client asks. A page in a browser on this host could have a name
//! of its own point to 127.0.0.1, and read the answers as if they were its own ("DNS
//! rebinding"); its name then stands in `Host`.

use std::net::IpAddr;

use hyper::{
    StatusCode,
    header::{HOST, HeaderMap, HeaderValue},
    http::uri::Authority,
};
use wad_linux::sysctl::Sysctl;

/// Says which names a connection may ask by.
#[derive(Clone, Debug)]
pub enum Asked {
    /// Others reach this address, too, by names that the agent does not know.
    ByAnyName,
    /// Only this host does: by an address, as `localhost`, or by its own name.
    OnThisHost { hostname: String },
}

impl Asked {
    /// Returns what holds for clients that have connected to this address.
    pub fn at(address: Option<IpAddr>) -> Self {
        if !address.is_some_and(|address| address.is_loopback()) {
            return Self::ByAnyName;
        }
        Self::OnThisHost { hostname: Sysctl::default().host_name() }
    }

    /// Says why a request with such headers is not answered. One without a `Host` is of
    /// no browser.
    pub fn refusal(&self, headers: &HeaderMap) -> Option<(StatusCode, String)> {
        let Self::OnThisHost { hostname } = self else { return None };
        let host = headers.get(HOST)?;
        if authority(host).is_some_and(|name| is_ours(name.host(), hostname)) {
            return None;
        }
        let host = wad_http::shown(&String::from_utf8_lossy(host.as_bytes()));
        let text = format!(
            "\"{host}\" is no name of this host's loopback address: ask by an address, by \
             localhost or by the host's own name (a proxy has to set the header Host)\n"
        );
        Some((StatusCode::MISDIRECTED_REQUEST, text))
    }
}

/// Whether a `Host` is a name of this host, or one of others in small letters.
pub fn names_this_host(host: &HeaderValue, others: &[String]) -> bool {
    let Some(authority) = authority(host) else { return false };
    let name = authority.host().to_ascii_lowercase();
    let is_other = others.iter().any(|other| other == name.strip_suffix('.').unwrap_or(&name));
    is_other || is_ours(&name, &Sysctl::default().host_name())
}

fn authority(host: &HeaderValue) -> Option<Authority> {
    // Whoever names a user there is no browser.
    host.to_str().ok().filter(|host| !host.contains('@'))?.parse().ok()
}

fn is_ours(name: &str, hostname: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    if bare.parse::<IpAddr>().is_ok() || name == "localhost" || name.ends_with(".localhost") {
        return true;
    }
    let hostname = hostname.to_ascii_lowercase();
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    // A name of which only the first part agrees may be another's.
    !hostname.is_empty() && (name == hostname || name == short(&hostname))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(asked: &Asked, host: &'static str) -> bool {
        let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
        asked.refusal(&headers).is_some()
    }

    #[test]
    fn only_names_of_this_host_reach_its_loopback() {
        let asked = Asked::OnThisHost { hostname: "db1.example.org".to_owned() };
        for ours in [
            "127.0.0.1:9464",
            "[::1]:9464",
            "192.0.2.1",
            "localhost:9464",
            "LocalHost.",
            "a.localhost",
            "db1",
            "DB1.example.org:9464",
        ] {
            assert!(!is_refused(&asked, ours), "{ours}");
        }
        for other in ["evil.example:9464", "db1.evil.example", "localhost.evil.example", "", "a b"]
        {
            assert!(is_refused(&asked, other), "{other}");
        }
        assert_eq!(asked.refusal(&HeaderMap::new()), None);
    }

    #[test]
    fn further_names_are_whole() {
        let others = ["dtn.example.org".to_owned()];
        let is_named = |host| names_this_host(&HeaderValue::from_static(host), &others);
        for ours in ["dtn.example.org", "DTN.example.org.:9467", "localhost", "[::1]:9467"] {
            assert!(is_named(ours), "{ours}");
        }
        for other in ["dtn", "a.dtn.example.org", "user@localhost", "evil.example", ""] {
            assert!(!is_named(other), "{other}");
        }
    }

    #[test]
    fn an_address_that_others_reach_is_asked_by_any_name() {
        for address in [None, Some("192.0.2.1".parse().unwrap())] {
            assert!(!is_refused(&Asked::at(address), "prometheus.example:9464"));
        }
        for address in ["127.0.0.1", "127.0.1.1", "::1"] {
            assert!(is_refused(&Asked::at(Some(address.parse().unwrap())), "evil.example"));
        }
    }
}
