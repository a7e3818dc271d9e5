//! This module tells what slow start cost: the bottleneck's drops until its last
//! segments had arrived there, and how large the window was at the first. Times are
//! CLOCK_MONOTONIC nanoseconds.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use wad_testbed::ss::Flow;

use crate::measure::Sight;

/// BBR's way of it, Startup, has a gain of 2.77 or more; all that follows is
/// below.
const STARTUP_GAIN: f64 = 2.0;

/// The figures of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SlowStart {
    /// The time when the last flow had left slow start, since the start of the run;
    /// none if one never did.
    pub left_seconds: Option<f64>,
    pub drops: u64,
    /// The bottleneck's first drop of the whole run.
    pub first_drop_seconds: Option<f64>,
    /// Sum over the flows, as they were seen last before that drop: they may be over by then.
    /// None where the drop came before any was seen.
    pub cwnd_at_first_drop_segments: Option<u32>,
}

/// Works out the figures; `drops_ns` is in order, `reach_ns` the longest that a segment
/// takes to the bottleneck and the news of it back.
#[must_use]
pub fn slow_start(
    sights: &[Sight],
    drops_ns: &[u64],
    (start_ns, reach_ns): (u64, u64),
) -> SlowStart {
    let seconds = |time_ns: u64| time_ns.saturating_sub(start_ns) as f64 / 1e9;
    let left_ns = left_ns(sights);
    let until_ns = left_ns.map_or(u64::MAX, |left_ns| left_ns.saturating_add(reach_ns));
    let first = drops_ns.first().copied();
    let seen = sights
        .iter()
        .rev()
        .find(|sight| first.is_some_and(|first| sight.time_ns <= first) && !sight.flows.is_empty());
    SlowStart {
        left_seconds: left_ns.map(seconds),
        drops: drops_ns.partition_point(|time_ns| *time_ns <= until_ns) as u64,
        first_drop_seconds: first.map(seconds),
        cwnd_at_first_drop_segments: seen
            .map(|sight| sight.flows.iter().map(|flow| flow.cwnd_segments).sum()),
    }
}

/// Returns the first sight of flows none of which is in slow start any more.
fn left_ns(sights: &[Sight]) -> Option<u64> {
    let mut before = HashMap::new();
    let mut left = HashMap::new();
    for sight in sights {
        for flow in &sight.flows {
            let ssthresh = flow.ssthresh_segments.unwrap_or(u32::MAX);
            let first = *before.entry(flow.local).or_insert(ssthresh);
            *left.entry(flow.local).or_insert(false) |= has_left(flow, ssthresh, first);
        }
        if !left.is_empty() && left.values().all(|left| *left) {
            return Some(sight.time_ns);
        }
    }
    None
}

/// Tells whether a flow has left slow start; a threshold that was lowered tells of a
/// loss, even if recovery has taken the window below it.
fn has_left(flow: &Flow, ssthresh: u32, first: u32) -> bool {
    match flow.pacing_gain {
        Some(gain) => gain < STARTUP_GAIN,
        None => flow.cwnd_segments >= ssthresh || ssthresh < first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wad_testbed::ss;

    fn sight(time_ns: u64, cwnd: u32, rest: &str) -> Sight {
        let line = format!(
            "0 0 10.77.0.1:40716 10.77.0.2:5001 skmem:(r0,rb1,t0,tb8,f2,w4,o0,bl0,d0) ts sack \
             cubic wscale:9,7 rto:276 mss:1448 cwnd:{cwnd} {rest}"
        );
        Sight { time_ns, flows: ss::parse(&line) }
    }

    #[test]
    fn counts_what_slow_start_lost() {
        let sights = [
            sight(100, 10, ""),
            sight(200, 400, ""),
            sight(300, 390, "ssthresh:395"),
            sight(400, 395, "ssthresh:395"),
        ];
        // Left at 300; what was sent until then reaches the bottleneck until 350.
        let seen = slow_start(&sights, &[250, 260, 340, 390], (100, 50));
        assert_eq!((seen.drops, seen.cwnd_at_first_drop_segments), (3, Some(400)));
        assert!(seen.left_seconds.is_some_and(|left| (left - 2e-7).abs() < 1e-12));
    }

    #[test]
    fn a_threshold_from_the_start_is_no_sign_of_loss() {
        let sights = [sight(1, 10, "ssthresh:400"), sight(2, 200, "ssthresh:400")];
        assert_eq!(slow_start(&sights, &[], (0, 5)), SlowStart::default());
        let sights = [&sights[..], &[sight(3, 400, "ssthresh:400")]].concat();
        let seen = slow_start(&sights, &[20], (0, 5));
        assert_eq!((seen.drops, seen.cwnd_at_first_drop_segments), (0, Some(400)));
    }

    #[test]
    fn a_sight_without_flows_is_no_window_of_0() {
        let empty = |time_ns| Sight { time_ns, flows: Vec::new() };
        let window = |drop_ns| {
            let sights = [empty(100), sight(200, 400, ""), empty(300)];
            slow_start(&sights, &[drop_ns], (0, 5)).cwnd_at_first_drop_segments
        };
        assert_eq!((window(150), window(250), window(350)), (None, Some(400), Some(400)));
    }

    #[test]
    fn startup_is_bbrs_slow_start() {
        let at = |time_ns, gain: &str| sight(time_ns, 10, &format!("bbr:(pacing_gain:{gain})"));
        let seen = slow_start(&[at(1, "2.88672"), at(2, "0.34375")], &[2, 9], (1, 3));
        assert_eq!(seen.drops, 1);
    }
}
