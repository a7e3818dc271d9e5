//! A path's own flows show of it: the rate at which the kernel saw them delivered, or at
//! which their data arrived, and their least RTT. No traffic is added, and no callback:
//! flows are looked at now and then while they run, and when they end.
//!
//! What flows get is the least that the path carries: it may be the application,
//! the receiver's window or their own buffer that held them back. So a higher rate
//! counts whoever it comes from, and a lower one only if for a whole window of time
//! none was higher, and flows that nothing but the path held back showed that. The
//! RTT is the least of such a window.
//!
//! A receiver cannot tell the path from what holds its sender back, so that no rate at
//! which data arrive lowers what is known. It need not: receive buffers grow with what
//! arrives, and what is known is their bound, which has to be large enough. Where the
//! receive window itself is the limit, the rate counts like any other, and the room that
//! is made of it is twice that window: dynamic right-sizing (Fisk and Feng, 2001) with a
//! bound that follows.

mod shown;

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use wad_common::progress::Progress;
use wad_policy::config::{Metric, Source};

use self::shown::Moved;
pub use self::shown::Shown;
use super::{Reading, Sample, doubts::is_from_future, error::is_possible};

/// Looks at the flows that run in a window of time. With the usual interval it is as
/// long as the kernel's own for a flow's least RTT (`tcp_min_rtt_wlen`, ip-sysctl).
const WINDOW_LOOKS: u32 = 10;

/// The tolerance is a part of a value: what is nearer to the best is as good, and the
/// best was seen again.
const TOLERANCE: f64 = 0.05;

/// An estimate is what is known of a path: the best sample, and what came after it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Estimate {
    best: Sample,
    /// The best of those that were worse, and when the first of them came.
    worse: Option<(Sample, f64)>,
}

impl Estimate {
    const fn new(best: Sample) -> Self {
        Self { best, worse: None }
    }

    /// Takes in a sample, one that may be worse if it is given for how long none may
    /// have been better.
    fn add(&mut self, metric: Metric, sample: Sample, window_seconds: Option<f64>) {
        let better = |a: f64, b: f64| if metric == Metric::Rtt { a < b } else { a > b };
        let (value, now_seconds) = (sample.value, sample.measured_at_seconds);
        if (value - self.best.value).abs() <= TOLERANCE * self.best.value {
            let best = if better(value, self.best.value) { value } else { self.best.value };
            *self = Self::new(Sample {
                value: best,
                measured_at_seconds: now_seconds,
                is_least: false,
            });
        } else if better(value, self.best.value) {
            *self = Self::new(sample);
        } else if let Some(window_seconds) = window_seconds {
            let (before, since_seconds) = self.worse.unwrap_or((sample, now_seconds));
            let best = if better(before.value, value) { before } else { sample };
            // A clock that was set back begins anew.
            if now_seconds < since_seconds {
                self.worse = Some((sample, now_seconds));
            } else if now_seconds - since_seconds >= window_seconds {
                *self = Self::new(best);
            } else {
                self.worse = Some((best, since_seconds));
            }
        }
    }
}

/// Holds what the flows of all measured paths showed.
#[derive(Debug)]
pub struct Passive {
    interval: Duration,
    stale_after: Duration,
    looked_at: Option<Instant>,
    /// The flows as they were at that look, by their cookies.
    flows: HashMap<u64, Progress>,
    /// The estimates, by target and metric.
    estimates: HashMap<(usize, Metric), Estimate>,
}

impl Passive {
    pub fn new(source: &Source) -> Self {
        Self {
            interval: source.interval,
            stale_after: source.stale_after,
            looked_at: None,
            flows: HashMap::new(),
            estimates: HashMap::new(),
        }
    }

    /// Whether it is time to look at the flows that run.
    pub fn is_due(&self, now: Instant) -> bool {
        self.looked_at.is_none_or(|at| now.saturating_duration_since(at) >= self.interval)
    }

    /// Returns what the flows that run show, by the indices of their policies: those
    /// that have got anything through since the last look, each by itself and all of
    /// a path together.
    pub fn look(&mut self, flows: Vec<Progress>, now: Instant) -> HashMap<u32, Shown> {
        let elapsed = self.looked_at.map(|at| now.saturating_duration_since(at));
        let elapsed_seconds = elapsed.unwrap_or_default().as_secs_f64();
        let mut paths: HashMap<u32, (Shown, Moved)> = HashMap::new();
        // At the first look all are new, and may have run for long.
        for flow in flows.iter().filter(|_| self.looked_at.is_some()) {
            let (seen, moved) = match self.flows.get(&flow.cookie) {
                None => (Shown::new_flow(flow), Moved::default()),
                Some(before) if flow.policy == before.policy => {
                    let moved = Moved::between(before, flow);
                    (Shown::now(before, flow, elapsed_seconds), moved)
                }
                Some(_) => continue,
            };
            if seen != Shown::default() || moved.is_any() {
                let (shown, sum) = paths.entry(flow.policy).or_default();
                (*shown, *sum) = (shown.and(seen), sum.and(moved));
            }
        }
        self.flows = flows.into_iter().map(|flow| (flow.cookie, flow)).collect();
        self.looked_at = Some(now);
        let with_all = |(policy, (shown, sum)): (u32, (Shown, Moved))| {
            let bytes = sum.sent_bytes.max(sum.received_bytes);
            (policy, shown.and(Shown::at_rate(bytes, elapsed_seconds)))
        };
        paths.into_iter().map(with_all).collect()
    }

    /// Takes in what flows of a path showed. `known` is what was known of it before
    /// this agent.
    pub fn take(
        &mut self,
        target: usize,
        shown: Shown,
        now_seconds: f64,
        known: impl Fn(Metric) -> Option<Sample>,
    ) -> Vec<Reading> {
        let values = [
            (Metric::Bandwidth, shown.bits_per_second, shown.is_free),
            (Metric::Rtt, shown.rtt_seconds, true),
        ];
        let window_seconds = (self.interval * WINDOW_LOOKS).as_secs_f64();
        let mut readings = Vec::new();
        for (metric, value, may_worsen) in values {
            let Some(value) = value.filter(|&value| is_possible(metric, value)) else { continue };
            let sample = Sample { value, measured_at_seconds: now_seconds, is_least: false };
            let estimate = self
                .estimates
                .entry((target, metric))
                .or_insert_with(|| Estimate::new(known(metric).unwrap_or(sample)));
            // The clock was set back: it was measured before now, nobody knows when.
            if is_from_future(estimate.best, now_seconds) {
                estimate.best.measured_at_seconds = now_seconds;
            }
            let age_seconds = now_seconds - estimate.best.measured_at_seconds;
            if age_seconds > self.stale_after.as_secs_f64() {
                *estimate = Estimate::new(sample);
            }
            estimate.add(metric, sample, may_worsen.then_some(window_seconds));
            readings.push(Reading { target, metric, sample: estimate.best });
        }
        readings
    }
}

#[cfg(test)]
mod tests;
