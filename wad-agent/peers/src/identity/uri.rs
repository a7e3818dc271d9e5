//! The URI by which a certificate says whose it is, and which prefixes that one may speak for:
//! `wad://dtn.example.org/?prefix=192.0.2.0/24&prefix=2001:db8::/48`.

use std::fmt::{self, Display};

use ipnet::IpNet;
use wad_policy::config::is_node_name;

/// Most prefixes that one may speak for.
pub const MAX_PREFIXES: usize = 64;
/// Longest URI: 64 prefixes of IPv6 and a name fit.
const MAX_BYTES: usize = 4 << 10;

/// A name, and what it may speak for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeUri {
    /// The name of a host, in small letters.
    pub name: String,
    pub prefixes: Vec<IpNet>,
}

impl NodeUri {
    /// Reads it; None for anything that is not written just so.
    pub fn parse(uri: &str) -> Option<Self> {
        let rest = uri.strip_prefix("wad://").filter(|_| uri.len() <= MAX_BYTES)?;
        let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
        if !is_node_name(name) {
            return None;
        }
        let mut prefixes = Vec::new();
        if !rest.is_empty() {
            for part in rest.strip_prefix('?')?.split('&') {
                prefixes.push(parse_prefix(part.strip_prefix("prefix=")?)?);
            }
        }
        if prefixes.len() > MAX_PREFIXES {
            return None;
        }
        Some(Self { name: name.to_owned(), prefixes })
    }
}

/// Reads a prefix in its one form: no bits set below it, and IPv4 as IPv4.
pub fn parse_prefix(text: &str) -> Option<IpNet> {
    let prefix: IpNet = text.parse().ok()?;
    is_plain(&prefix).then_some(prefix)
}

/// Says whether a prefix is in its one form.
pub fn is_plain(prefix: &IpNet) -> bool {
    let is_mapped =
        |net: &ipnet::Ipv6Net| net.prefix_len() >= 96 && net.network().to_ipv4_mapped().is_some();
    prefix.trunc() == *prefix && !matches!(prefix, IpNet::V6(net) if is_mapped(net))
}

impl Display for NodeUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "wad://{}", self.name)?;
        for (number, prefix) in self.prefixes.iter().enumerate() {
            write!(f, "{}prefix={prefix}", if number == 0 { "/?" } else { "&" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_has_one_form() {
        for (uri, prefixes) in [
            ("wad://dtn.example.org", 0),
            ("wad://dtn.example.org/?prefix=192.0.2.0/24", 1),
            ("wad://a/?prefix=192.0.2.0/24&prefix=2001:db8::/48&prefix=::/0", 3),
        ] {
            let node = NodeUri::parse(uri).unwrap();
            assert_eq!((node.to_string().as_str(), node.prefixes.len()), (uri, prefixes));
        }
        assert!(NodeUri::parse("wad://a/").is_some());
        let many = "&prefix=192.0.2.0/24".repeat(64);
        for uri in [
            "",
            "wad://",
            "wad:///",
            "WAD://a",
            "wad://A",
            "wad://a?prefix=192.0.2.0/24",
            "wad://a/?",
            "wad://a/b",
            "wad://a/#b",
            "wad://a/?prefix=",
            "wad://a/?prefix=192.0.2.0",
            "wad://a/?prefix=192.0.2.1/24",
            "wad://a/?prefix=192.0.2.0/33",
            "wad://a/?prefix=192.0.2.0%2F24",
            "wad://a/?prefix=::ffff:192.0.2.0/120",
            "wad://a/?prefix=192.0.2.0/24&",
            "wad://a/?prefix=192.0.2.0/24&port=1",
            "wad://a:1/?prefix=192.0.2.0/24",
            "https://a/?prefix=192.0.2.0/24",
            &format!("wad://a/?prefix=192.0.2.0/24{many}"),
        ] {
            assert_eq!(NodeUri::parse(uri), None, "{uri}");
        }
    }
}
