//! A few numbers count of all that a peer says: those that something follows from, each within
//! what any host could mean, and gone when it is old.

use std::time::Duration;

use ipnet::IpNet;
use wad_toolbox::clock::Moment;

use super::{Heard, Value};
use crate::config::MAX_BUFFER_BYTES;

/// A value that was older than this when it was said, or is by now, does not count: a path that
/// nobody has measured for an hour may be another one.
const MOST_AGE: Duration = Duration::from_secs(3_600);

/// The slowest rate of an interface, or of a consent, that is taken for one, in bit/s: nobody
/// tunes a path that carries less.
const LEAST_RATE: f64 = 1e6;

/// A peer has said this, and it counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    pub peer: String,
    /// The prefixes that it may speak for.
    pub prefixes: Vec<IpNet>,
    /// The SO_RCVBUF that flows from it need, no more than the own file grants.
    pub rcvbuf_bytes: Option<u32>,
    /// The largest SO_RCVBUF that flows to it get there.
    pub granted_bytes: Option<u32>,
    /// The rate of the slower interface of the two, in bit/s.
    pub nic_bits_per_second: Option<f64>,
    pub consent: Option<CountedConsent>,
}

/// A consent that holds now.
#[derive(Clone, Debug, PartialEq)]
pub struct CountedConsent {
    /// None for no bound.
    pub max_bits_per_second: Option<f64>,
    pub prefixes: Vec<IpNet>,
}

/// Returns what counts now, by peer.
#[must_use]
pub fn counted(heard: &[Heard], now: Moment) -> Vec<Counted> {
    heard.iter().filter(|heard| heard.holds(now)).map(|heard| of(heard, now)).collect()
}

fn of(heard: &Heard, now: Moment) -> Counted {
    let since = now.saturating_sub(heard.heard_at);
    let wanted = fresh(heard.said.sending.wanted_window_bytes.as_ref(), since);
    let grant = heard.grant_buffer_bytes.unwrap_or(MAX_BUFFER_BYTES);
    let nics = [heard.said.nic_bits_per_second, heard.own_nic_bits_per_second];
    Counted {
        peer: heard.peer.clone(),
        prefixes: heard.prefixes.clone(),
        rcvbuf_bytes: wanted.map(|&bytes| buffer(bytes.min(grant))).filter(|&bytes| bytes > 0),
        granted_bytes: heard.said.max_rcvbuf_bytes.map(buffer),
        nic_bits_per_second: nics.into_iter().flatten().filter(is_rate).reduce(f64::min),
        consent: consent(heard, now),
    }
}

fn fresh<T>(value: Option<&Value<T>>, since: Duration) -> Option<&T> {
    let value = value.filter(|value| value.age.saturating_add(since) <= MOST_AGE)?;
    Some(&value.value)
}

/// A buffer as the kernel takes it.
fn buffer(bytes: u64) -> u32 {
    // No more than an `int` holds.
    bytes.min(MAX_BUFFER_BYTES) as u32
}

/// Whether this is a rate at all. One that cannot be reached bounds nothing.
fn is_rate(bits_per_second: &f64) -> bool {
    bits_per_second.is_finite() && *bits_per_second >= LEAST_RATE
}

/// A rate that is none is not a consent to any other.
fn consent(heard: &Heard, now: Moment) -> Option<CountedConsent> {
    heard.consent_ends_at().filter(|&ends_at| now < ends_at)?;
    let consent = heard.said.consent.as_ref()?;
    if consent.max_bits_per_second.is_some_and(|rate| !is_rate(&rate)) {
        return None;
    }
    let prefixes = match consent.prefixes.as_slice() {
        [] => heard.prefixes.clone(),
        // Never for more than it speaks for.
        prefixes => {
            let is_own = |net: &&IpNet| heard.prefixes.iter().any(|own| own.contains(*net));
            prefixes.iter().filter(is_own).copied().collect()
        }
    };
    Some(CountedConsent { max_bits_per_second: consent.max_bits_per_second, prefixes })
}
