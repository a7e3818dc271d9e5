//! Shows what the kernel side has, in words.

use std::net::{IpAddr, SocketAddr};

use wad_common::flow::{Outcome, Role};

/// An IPv4 address that was mapped into IPv6 is shown as what it is.
pub fn address(octets: [u8; 16], port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V6(octets.into()).to_canonical(), port)
}

/// The text of a zero-terminated field.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

pub const fn role(number: u32) -> &'static str {
    match number {
        n if n == Role::Active as u32 => "connected",
        n if n == Role::Passive as u32 => "accepted",
        n if n == Role::Running as u32 => "running",
        _ => "unknown",
    }
}

pub const fn outcome(number: u32) -> &'static str {
    match number {
        n if n == Outcome::Tuned as u32 => "tuned",
        n if n == Outcome::TooMany as u32 => "too_many",
        n if n == Outcome::Observed as u32 => "observed",
        n if n == Outcome::NoPath as u32 => "no_path",
        n if n == Outcome::Untuned as u32 => "untuned",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[test]
    fn nonsense_is_shown_without_harm() {
        assert_eq!((role(7), outcome(7)), ("unknown", "unknown"));
        assert_eq!(text(&[b'x'; 4]), "xxxx");
        assert_eq!(text(&[0xff, 0]), "\u{fffd}");
    }

    #[test]
    fn addresses_of_both_families() {
        let v6: Ipv6Addr = "2001:db8:5::1".parse().unwrap();
        assert_eq!(address(v6.octets(), 80).to_string(), "[2001:db8:5::1]:80");
        let v4 = "10.1.2.3".parse::<std::net::Ipv4Addr>().unwrap().to_ipv6_mapped();
        assert_eq!(address(v4.octets(), 80).to_string(), "10.1.2.3:80");
    }
}
