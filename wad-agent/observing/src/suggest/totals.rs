//! Adds up what the connections to an address got.

use std::{collections::HashMap, net::IpAddr};

use wad_instruments::name;

use crate::diagnose::{Course, Direction, Limit, min_rtt_seconds, rtt_seconds, triage};

/// From this part of the offered window on that arrives in a round trip, the window is the
/// next limit, once the sender has more on its way.
const NEARLY_FILLED: f64 = 0.5;

/// The totals of several connections.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub connections: u64,
    /// Time in which one had something to do, all of them added.
    pub busy_seconds: f64,
    pub limits: HashMap<Limit, Limited>,
    /// Time in which what arrived nearly filled the window, though it was not the limit.
    pub nearly_filled_seconds: f64,
    pub sent: Moved,
    pub received: Moved,
    /// The least.
    pub rtt_seconds: Option<f64>,
    /// One of this end's addresses.
    pub local: Option<IpAddr>,
}

/// Data that went in one direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moved {
    pub bytes: f64,
    /// The most of one connection, from one look to the next.
    pub fastest_bytes_per_second: f64,
}

/// Time for which something was the limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limited {
    pub seconds: f64,
    /// The content of a window or buffer, times the seconds.
    held_byte_seconds: f64,
    /// Seconds for which that is known.
    held_seconds: f64,
}

impl Limited {
    /// Returns what a window or buffer held on the mean.
    pub fn held_bytes(&self) -> Option<f64> {
        (self.held_seconds > 0.0).then(|| self.held_byte_seconds / self.held_seconds)
    }
}

impl Totals {
    /// Adds what a connection did from one look to the next.
    pub fn add(&mut self, course: &Course<'_>) {
        let Some(seconds) = course.seconds() else { return };
        let finding = triage(course);
        if finding.limit == Limit::Idle {
            return;
        }
        self.local = Some(course.flow().local.ip().to_canonical());
        self.busy_seconds += seconds;
        let limited = self.limits.entry(finding.limit).or_default();
        limited.seconds += seconds;
        if let Some(bytes) = held(finding.limit).and_then(|gauge| course.mean(gauge)) {
            limited.held_byte_seconds += bytes * seconds;
            limited.held_seconds += seconds;
        }
        self.sent.add(course, name::HC_THRU_OCTETS_ACKED);
        self.received.add(course, name::HC_THRU_OCTETS_RECEIVED);
        if finding.direction == Direction::Receiving
            && finding.limit == Limit::OtherEnd
            && is_window_nearly_filled(course) == Some(true)
        {
            self.nearly_filled_seconds += seconds;
        }
        let rtt = min_rtt_seconds(course).or_else(|| rtt_seconds(course));
        self.rtt_seconds = least(self.rtt_seconds, rtt);
    }

    /// Adds those of another address.
    pub fn join(&mut self, other: &Self) {
        self.connections += other.connections;
        self.busy_seconds += other.busy_seconds;
        for (limit, limited) in &other.limits {
            let own = self.limits.entry(*limit).or_default();
            own.seconds += limited.seconds;
            own.held_byte_seconds += limited.held_byte_seconds;
            own.held_seconds += limited.held_seconds;
        }
        self.nearly_filled_seconds += other.nearly_filled_seconds;
        self.sent.join(other.sent);
        self.received.join(other.received);
        self.rtt_seconds = least(self.rtt_seconds, other.rtt_seconds);
        self.local = self.local.or(other.local);
    }

    /// Returns the part of the time for which it was the limit.
    pub fn share(&self, limit: Limit) -> f64 {
        self.part(self.limits.get(&limit).map_or(0.0, |limited| limited.seconds))
    }

    /// Returns the part of the time that so many seconds are.
    pub fn part(&self, seconds: f64) -> f64 {
        if self.busy_seconds > 0.0 { seconds / self.busy_seconds } else { 0.0 }
    }
}

impl Moved {
    fn add(&mut self, course: &Course<'_>, counter: &str) {
        self.bytes += course.grown(counter).unwrap_or(0.0);
        let rate = course.rate(counter).unwrap_or(0.0);
        self.fastest_bytes_per_second = self.fastest_bytes_per_second.max(rate);
    }

    fn join(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.fastest_bytes_per_second =
            self.fastest_bytes_per_second.max(other.fastest_bytes_per_second);
    }
}

/// Returns the gauge that says what a limit held.
const fn held(limit: Limit) -> Option<&'static str> {
    match limit {
        Limit::SendBuffer => Some(name::CUR_RETX_QUEUE),
        Limit::PeerWindow => Some(name::CUR_RWIN_RCVD),
        Limit::OwnWindow => Some(name::CUR_RWIN_SENT),
        _ => None,
    }
}

fn is_window_nearly_filled(course: &Course<'_>) -> Option<bool> {
    let arrived = course.rate(name::HC_THRU_OCTETS_RECEIVED)?;
    let rtt = rtt_seconds(course).or_else(|| min_rtt_seconds(course))?;
    Some(arrived * rtt >= NEARLY_FILLED * course.mean(name::CUR_RWIN_SENT)?)
}

fn least(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    [a, b].into_iter().flatten().reduce(f64::min)
}
