//! Headers take room before what a datagram carries.

/// IPv4's and IPv6's without options, and that of ICMP or UDP, which both have 8 bytes.
const IPV4_BYTES: u64 = 20;
const IPV6_BYTES: u64 = 40;
const ICMP_OR_UDP_BYTES: u64 = 8;

/// Returns the bytes of headers before a datagram's payload.
#[must_use]
pub const fn header_bytes(is_v6: bool) -> u64 {
    ICMP_OR_UDP_BYTES + if is_v6 { IPV6_BYTES } else { IPV4_BYTES }
}
