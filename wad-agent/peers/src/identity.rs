//! Identities: what a certificate says of who has it, and what that one may speak for.

mod der;
mod judge;
mod leaf;
mod uri;

use ipnet::IpNet;

pub use self::{
    judge::{Judge, Judged, Role, as_error, of as refusal_of},
    leaf::{Leaf, Unreadable, Validity},
    uri::{MAX_PREFIXES, NodeUri, is_plain, parse_prefix},
};

/// Returns the prefixes that are within both, each of which may be in parts.
pub fn both(some: &[IpNet], others: &[IpNet]) -> Vec<IpNet> {
    let mut within: Vec<IpNet> = Vec::new();
    for (one, other) in some.iter().flat_map(|one| others.iter().map(move |other| (one, other))) {
        let narrower = if one.contains(other) {
            other
        } else if other.contains(one) {
            one
        } else {
            continue;
        };
        if !within.contains(narrower) {
            within.push(*narrower);
        }
    }
    // One within another says nothing new.
    let all = within.clone();
    within.retain(|one| !all.iter().any(|other| other != one && other.contains(one)));
    within
}

/// Says whether a prefix is within one of those.
pub fn covers(prefixes: &[IpNet], prefix: &IpNet) -> bool {
    prefixes.iter().any(|own| own.contains(prefix))
}

/// Reads a certificate as one that a peer sends, for libFuzzer.
#[cfg(feature = "fuzz")]
pub fn fuzz(bytes: &[u8]) {
    if let Ok(leaf) = Leaf::parse(bytes) {
        for uri in &leaf.uris {
            if let Some(node) = NodeUri::parse(uri) {
                assert_eq!(NodeUri::parse(&node.to_string()), Some(node));
            }
        }
    }
    if let Ok(text) = str::from_utf8(bytes)
        && let Some(node) = NodeUri::parse(text)
    {
        assert_eq!(NodeUri::parse(&node.to_string()), Some(node));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn what_is_within_both_is_the_narrower_of_each_pair() {
        let certificate = nets(&["192.0.2.0/24", "2001:db8::/32", "198.51.100.0/25"]);
        let file = nets(&["192.0.2.128/25", "192.0.2.0/26", "198.51.0.0/16", "203.0.113.0/24"]);
        let expected = nets(&["192.0.2.128/25", "192.0.2.0/26", "198.51.100.0/25"]);
        assert_eq!(both(&certificate, &file), expected);
        assert_eq!(both(&certificate, &[]), []);
        // All of IPv6 has no IPv4 in it here: it is not mapped.
        assert_eq!(both(&nets(&["::/0"]), &nets(&["192.0.2.0/24"])), []);
        let nested = nets(&["10.0.0.0/8", "10.1.0.0/16"]);
        assert_eq!(both(&nested, &nested), nets(&["10.0.0.0/8"]));
        assert!(covers(&nested, &"10.9.0.0/16".parse().unwrap()));
        assert!(!covers(&nested, &"0.0.0.0/0".parse().unwrap()));
    }
}
