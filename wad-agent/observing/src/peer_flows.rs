//! The flows between this host and a peer show what limits here, the best rate and the least
//! round trip time: the peer is told.

use std::time::Duration;

use ipnet::IpNet;
use wad_instruments::{Reading, name};
use wad_policy::{
    config::{is_rate, is_rtt},
    heard::{self, LimitedBy, Source, Value, is_spoken_for},
};

use crate::diagnose::{
    Course, Direction, Finding, Limit, Shares, Span, courses, min_rtt_seconds, triage,
};

/// A flow that waited for its application for more than this part of the time is held back by it.
const HELD_BACK: f64 = 0.1;

/// Returns what flows show of both directions, from one reading to the next, to be added to what
/// is told of the paths: of what this host sends to the prefixes, and of what it receives.
#[must_use]
pub fn shown(readings: &[Reading], prefixes: &[IpNet]) -> (heard::Direction, heard::Direction) {
    let courses = courses(readings, None, Span::Watched);
    let of_peer: Vec<_> = courses
        .iter()
        .filter(|course| is_spoken_for(prefixes, course.flow().remote.ip()))
        .map(|course| (course, triage(course)))
        .collect();
    (direction(&of_peer, Direction::Sending), direction(&of_peer, Direction::Receiving))
}

fn direction(flows: &[(&Course<'_>, Finding)], direction: Direction) -> heard::Direction {
    let counter = match direction {
        Direction::Sending => name::HC_THRU_OCTETS_ACKED,
        Direction::Receiving => name::HC_THRU_OCTETS_RECEIVED,
    };
    let (mut parts, mut all, mut best) = ([0.0; Limit::ALL.len()], 0.0, None::<f64>);
    let mut min_rtt = None::<f64>;
    for (course, finding) in flows.iter().filter(|(_, finding)| finding.direction == direction) {
        // What moves most counts most.
        let bytes = course.grown(counter).unwrap_or(0.0);
        all += bytes;
        parts[finding.limit as usize] += bytes;
        let is_held = Shares::of(course).is_none_or(|shares| shares.application > HELD_BACK);
        if direction == Direction::Sending && !is_held {
            best = course.rate(counter).into_iter().chain(best).reduce(f64::max);
        }
        min_rtt = min_rtt_seconds(course).into_iter().chain(min_rtt).reduce(f64::min);
    }
    let mut limited_by: Vec<_> = Limit::ALL
        .iter()
        .zip(parts)
        .filter(|(_, bytes)| *bytes > 0.0)
        .map(|(limit, bytes)| LimitedBy { limit: limit.key().to_owned(), part: bytes / all })
        .collect();
    limited_by.sort_by(|a, b| b.part.total_cmp(&a.part));
    let passive = |value| Value { value, age: Duration::ZERO, source: Source::Passive };
    heard::Direction {
        best_rate_bits_per_second: best
            .map(|rate| rate * 8.0)
            .filter(|&it| is_rate(it))
            .map(passive),
        min_rtt_seconds: min_rtt.filter(|&it| is_rtt(it)).map(passive),
        limited_by,
        ..heard::Direction::default()
    }
}

#[cfg(test)]
mod tests {
    use wad_instruments::{Flow, testing::flow};

    use super::*;

    fn nets(net: &str) -> Vec<IpNet> {
        vec![net.parse().expect("a prefix")]
    }

    /// A flow that has sent so much in so many seconds, all of which its window was the bound.
    fn sent(seconds: f64, octets: f64) -> Reading {
        let values = [
            ("ElapsedSecs", seconds),
            ("HCThruOctetsAcked", octets),
            ("HCThruOctetsReceived", 0.0),
            ("MinRTT", 70_000.0),
            ("SndLimTimeRwin", 0.0),
            ("SndLimTimeCwnd", seconds * 1e3),
            ("SndLimTimeSnd", 0.0),
            ("SndLimTimeSndbuf", 0.0),
        ];
        let instruments = values.into_iter().map(|(name, value)| (name, Some(value))).collect();
        let flows = vec![Flow { instruments, ..flow(1, seconds, octets) }];
        Reading { time: jiff::Timestamp::UNIX_EPOCH, flows }
    }

    #[test]
    fn flows_show_what_limits_and_the_best_that_no_application_held_back() {
        let readings = [sent(10.0, 1e9), sent(20.0, 3e9)];
        let (sending, receiving) = shown(&readings, &nets("203.0.113.0/24"));
        let [limited] = &sending.limited_by[..] else { panic!("{sending:?}") };
        assert!(Limit::of_key(&limited.limit).is_some() && limited.part == 1.0, "{limited:?}");
        let best = sending.best_rate_bits_per_second.expect("it sent all the time");
        assert_eq!((best.value, best.source), (1.6e9, Source::Passive));
        assert_eq!(sending.min_rtt_seconds.map(|rtt| rtt.value), Some(0.07));
        assert_eq!(receiving, heard::Direction::default());
        let (sending, _) = shown(&readings, &nets("192.0.2.0/24"));
        assert_eq!(sending, heard::Direction::default());
    }
}
