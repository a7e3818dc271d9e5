//! What is in an event, as it is shown.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use wad_common::{
    event::Event,
    flow::{Outcome, Role},
};

/// Since it was established, or found; to the millisecond, as nobody reads more.
pub fn duration_seconds(event: &Event) -> f64 {
    (duration_ns(event) as f64 / 1e6).round() / 1e3
}

/// Zero where it was never established.
fn duration_ns(event: &Event) -> u64 {
    match event.flow.established_ns {
        0 => 0,
        established_ns => event.time_ns.saturating_sub(established_ns),
    }
}

/// Of the direction that carried more.
pub fn goodput_bits_per_second(event: &Event) -> u64 {
    let bits = u128::from(event.bytes_acked.max(event.bytes_received)) * 8;
    let rate = (bits * 1_000_000_000).checked_div(duration_ns(event).into());
    rate.unwrap_or(0).try_into().unwrap_or(u64::MAX)
}

/// An IPv4 address that was mapped into IPv6 is shown as what it is.
pub fn address(octets: [u8; 16], port: u16) -> SocketAddr {
    let v6 = Ipv6Addr::from(octets);
    SocketAddr::new(v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4), port)
}

/// Zero-terminated.
pub fn name(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

pub fn role(number: u32) -> &'static str {
    match number {
        n if n == Role::Active as u32 => "connected",
        n if n == Role::Passive as u32 => "accepted",
        n if n == Role::Running as u32 => "running",
        _ => "unknown",
    }
}

pub fn outcome(number: u32) -> &'static str {
    match number {
        n if n == Outcome::Tuned as u32 => "tuned",
        n if n == Outcome::NoMemory as u32 => "no_memory",
        n if n == Outcome::TooMany as u32 => "too_many",
        n if n == Outcome::Partly as u32 => "partly",
        n if n == Outcome::Observed as u32 => "observed",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;
    use crate::events::testing::event;

    #[test]
    fn nonsense_is_shown_without_harm() {
        let mut odd = event();
        odd.flow.established_ns = u64::MAX;
        assert_eq!((duration_ns(&odd), goodput_bits_per_second(&odd)), (0, 0));
        odd.flow.established_ns = odd.time_ns - 1;
        odd.bytes_acked = u64::MAX;
        assert_eq!(goodput_bits_per_second(&odd), u64::MAX);
        odd.flow.established_ns = 0;
        assert_eq!(duration_seconds(&odd), 0.0);
        assert_eq!((role(7), outcome(7)), ("unknown", "unknown"));
        assert_eq!(name(&[b'x'; 4]), "xxxx");
        assert_eq!(name(&[0xff, 0]), "\u{fffd}");
    }

    #[test]
    fn addresses_of_both_families() {
        let v6: Ipv6Addr = "2001:db8:5::1".parse().unwrap();
        assert_eq!(address(v6.octets(), 80).to_string(), "[2001:db8:5::1]:80");
        let v4 = "10.1.2.3".parse::<std::net::Ipv4Addr>().unwrap().to_ipv6_mapped();
        assert_eq!(address(v4.octets(), 80).to_string(), "10.1.2.3:80");
    }
}
