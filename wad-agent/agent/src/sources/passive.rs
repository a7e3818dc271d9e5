//! A path's own flows show of it: the rate at which the kernel saw them delivered, and
//! their least RTT. No traffic is added, and no callback: flows are looked at now and
//! then while they run, and when they end.
//!
//! What flows get is the least that the path carries: it may be the application,
//! the receiver's window or their own buffer that held them back. So a higher rate
//! counts whoever it comes from, and a lower one only if for a whole window of time
//! none was higher, and flows that nothing but the path held back showed that. The
//! RTT is the least of such a window.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use wad_common::{event::Event, progress::Progress};
use wad_policy::config::{Metric, Source};

use super::{Reading, Sample, doubts::is_from_future, error::is_possible};

/// Looks at the flows that run in a window of time. With the usual interval it is as
/// long as the kernel's own for a flow's least RTT (`tcp_min_rtt_wlen`, ip-sysctl).
const WINDOW_LOOKS: u32 = 10;

/// The tolerance is a part of a value: what is nearer to the best is as good, and the
/// best was seen again.
const TOLERANCE: f64 = 0.05;

/// The least part of the time between two looks that counts as busy, in percent: a
/// flow that was busy for so much of it, neither its peer's window nor its own buffer
/// in the way, was held back by the path.
const BUSY_PERCENT: u64 = 90;

/// Holds what flows of one path show.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shown {
    /// Payload that was delivered.
    pub bits_per_second: Option<f64>,
    pub rtt_seconds: Option<f64>,
    /// Whether nothing but the path held one of them back.
    pub is_free: bool,
}

impl Shown {
    /// Returns what is shown by a flow at its end.
    pub fn at_end(event: &Event) -> Self {
        Self {
            bits_per_second: rate(event.delivered_segments, event.mss_bytes, event.delivered_in_us),
            rtt_seconds: rtt(event.min_rtt_us),
            is_free: false,
        }
    }

    /// Returns what is shown by a flow that runs.
    fn now(before: &Progress, now: &Progress) -> Self {
        Self {
            bits_per_second: rate(now.delivered_segments, now.mss_bytes, now.delivered_in_us),
            rtt_seconds: rtt(now.min_rtt_us),
            is_free: is_free(before, now),
        }
    }

    /// The best of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let least = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::min);
        let most = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
        Self {
            bits_per_second: most(self.bits_per_second, other.bits_per_second),
            rtt_seconds: least(self.rtt_seconds, other.rtt_seconds),
            is_free: self.is_free || other.is_free,
        }
    }
}

/// Returns the rate, as `tcp_compute_delivery_rate()`.
fn rate(segments: u32, mss_bytes: u32, in_us: u32) -> Option<f64> {
    let bits = 8.0 * f64::from(segments) * f64::from(mss_bytes);
    (bits > 0.0 && in_us > 0).then(|| bits * 1e6 / f64::from(in_us))
}

fn rtt(min_rtt_us: u32) -> Option<f64> {
    (min_rtt_us > 0 && min_rtt_us < u32::MAX).then(|| f64::from(min_rtt_us) / 1e6)
}

/// Whether nothing but the path held a flow back between two looks. In slow start it
/// may be on its way still to what the path carries.
fn is_free(before: &Progress, now: &Progress) -> bool {
    let busy = u64::from(now.limits.since(&before.limits).busy_ticks);
    let all = u64::from(now.ticks.wrapping_sub(before.ticks));
    now.app_limited == 0
        && now.cwnd_segments >= now.ssthresh_segments
        && all > 0
        && busy * 100 >= all * BUSY_PERCENT
}

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
            *self = Self::new(Sample { value: best, measured_at_seconds: now_seconds });
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
    /// that have got anything delivered since the last look, each by itself and all of
    /// a path together.
    pub fn look(&mut self, flows: Vec<Progress>, now: Instant) -> HashMap<u32, Shown> {
        let elapsed = self.looked_at.map(|at| now.saturating_duration_since(at).as_secs_f64());
        let mut paths: HashMap<u32, (Shown, u64)> = HashMap::new();
        for flow in &flows {
            let Some(before) = self.flows.get(&flow.cookie) else { continue };
            let bytes = flow.bytes_acked.wrapping_sub(before.bytes_acked);
            if bytes > 0 && flow.policy == before.policy {
                let (shown, sum) = paths.entry(flow.policy).or_default();
                *shown = shown.and(Shown::now(before, flow));
                *sum = sum.saturating_add(bytes);
            }
        }
        self.flows = flows.into_iter().map(|flow| (flow.cookie, flow)).collect();
        self.looked_at = Some(now);
        let with_all = |(policy, (shown, bytes)): (u32, (Shown, u64))| {
            let all = elapsed.filter(|seconds| *seconds > 0.0);
            let bits_per_second = all.map(|seconds| bytes as f64 * 8.0 / seconds);
            (policy, shown.and(Shown { bits_per_second, ..Shown::default() }))
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
            let sample = Sample { value, measured_at_seconds: now_seconds };
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
