//! The bounds of what a message may say. They are wide: they keep out what cannot be, and what
//! arithmetic would stumble over. What follows from a value is bounded by the own file.

use std::{ops::RangeInclusive, time::Duration};

use ipnet::IpNet;
use wad_policy::config::{MAX_BITS_PER_SECOND, is_node_name};

use crate::identity::{MAX_PREFIXES, is_plain};

/// Most limits of one direction; `wad diagnose` knows 14.
pub const LIMITS: usize = 32;

/// A buffer, as the argument of SO_RCVBUF: an int in the kernel (sk_rcvbuf).
const BUFFER_BYTES: RangeInclusive<u64> = 1..=i32::MAX as u64;
/// The memory of a host: 1 PiB.
const MOST_MEMORY_BYTES: u64 = 1 << 50;
/// From the least that IPv4 has to carry (RFC 791) to a jumbogram's header above 65535.
const MTU_BYTES: RangeInclusive<u32> = 68..=1 << 20;
/// As a TCP option carries it (RFC 9293 section 3.2).
const MSS_BYTES: RangeInclusive<u32> = 1..=65_535;
const RTT_US: RangeInclusive<u64> = 1..=1_000_000_000;
/// Older than any source's value counts.
const MOST_AGE: Duration = Duration::from_secs(90 * 86_400);
const EVERY: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);
/// TCP_CA_NAME_MAX, of include/net/tcp.h, without its zero.
const LAW_CHARS: usize = 15;
const WORD_CHARS: usize = 32;

pub fn rate(bits_per_second: f64) -> Option<f64> {
    let is_rate = bits_per_second > 0.0 && bits_per_second <= MAX_BITS_PER_SECOND;
    is_rate.then_some(bits_per_second)
}

pub fn buffer(bytes: u64) -> Option<u64> {
    BUFFER_BYTES.contains(&bytes).then_some(bytes)
}

pub const fn memory(bytes: u64) -> Option<u64> {
    if bytes <= MOST_MEMORY_BYTES { Some(bytes) } else { None }
}

pub fn mtu(bytes: u32) -> Option<u32> {
    MTU_BYTES.contains(&bytes).then_some(bytes)
}

pub fn mss(bytes: u32) -> Option<u32> {
    MSS_BYTES.contains(&bytes).then_some(bytes)
}

pub fn rtt_us(us: u64) -> Option<u64> {
    RTT_US.contains(&us).then_some(us)
}

pub fn age(milliseconds: u64) -> Option<Duration> {
    Some(Duration::from_millis(milliseconds)).filter(|age| *age <= MOST_AGE)
}

pub fn every(milliseconds: u64) -> Option<Duration> {
    Some(Duration::from_millis(milliseconds)).filter(|every| EVERY.contains(every))
}

pub fn node(name: String) -> Option<String> {
    Some(name).filter(|name| is_node_name(name))
}

pub fn law(name: String) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let is_law = (1..=LAW_CHARS).contains(&name.len()) && name.chars().all(fits);
    is_law.then_some(name)
}

/// Says whether a text is a word, as names of limits are.
pub fn is_word(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c == '_';
    (1..=WORD_CHARS).contains(&text.len()) && text.chars().all(fits)
}

pub fn prefixes(prefixes: Vec<IpNet>) -> Option<Vec<IpNet>> {
    let are_few = prefixes.len() <= MAX_PREFIXES;
    (are_few && prefixes.iter().all(is_plain)).then_some(prefixes)
}
