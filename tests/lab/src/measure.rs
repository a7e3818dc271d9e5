//! This module makes figures of a run's raw counts. Times are CLOCK_MONOTONIC
//! nanoseconds.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use wad_testbed::{
    monotonic_ns,
    mutex::{locked, unpoisoned},
    netns::{Netns, NetnsError},
    process::ProcessError,
    ss::{self, Flow},
};

use crate::scenario::Group;

/// A watch notices this soon that it is to stop.
const STEP: Duration = Duration::from_millis(100);

/// Bytes received until a time: points in order of both.
#[derive(Clone, Debug, Default)]
pub struct Series(Vec<(u64, u64)>);

impl Series {
    #[must_use]
    pub const fn new(points: Vec<(u64, u64)>) -> Self {
        Self(points)
    }

    /// Bits per second between two times.
    #[must_use]
    pub fn goodput(&self, from_ns: u64, to_ns: u64) -> f64 {
        let bytes = self.bytes_at(to_ns) - self.bytes_at(from_ns);
        bytes * 8e9 / to_ns.saturating_sub(from_ns).max(1) as f64
    }

    /// Returns when the last byte was there; 0 for an empty series.
    #[must_use]
    pub fn complete_ns(&self) -> u64 {
        let total = self.0.last().map_or(0, |(_, bytes)| *bytes);
        let at = self.0.partition_point(|(_, bytes)| *bytes < total);
        self.0.get(at).map_or(0, |(time_ns, _)| *time_ns)
    }

    /// Returns the bytes at a time: linear between two points; constant before the
    /// first and after the last.
    fn bytes_at(&self, time_ns: u64) -> f64 {
        let after = self.0.partition_point(|(time, _)| *time <= time_ns);
        let point =
            |index: usize| self.0.get(index).map(|(time, bytes)| (*time as f64, *bytes as f64));
        match (after.checked_sub(1).and_then(point), point(after)) {
            (Some((start, low)), Some((end, high))) => {
                low + (high - low) * (time_ns as f64 - start) / (end - start)
            }
            (Some((_, bytes)), None) => bytes,
            (None, _) => 0.0,
        }
    }
}

/// Returns the middle value; the mean of the two in the middle of an even number.
#[must_use]
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        count if count % 2 == 1 => sorted[count / 2],
        count => f64::midpoint(sorted[count / 2 - 1], sorted[count / 2]),
    }
}

/// Holds what ss saw of a namespace's flows at one time.
#[derive(Clone, Debug)]
pub struct Sight {
    pub time_ns: u64,
    pub flows: Vec<Flow>,
}

impl Sight {
    /// Returns the flows of a group, those with the most data: iperf3 has one more, for
    /// control.
    #[must_use]
    pub fn of(&self, group: &Group) -> Vec<&Flow> {
        let mut flows: Vec<&Flow> = self.flows.iter().filter(|flow| group.has(flow)).collect();
        flows.sort_by_key(|flow| std::cmp::Reverse(flow.bytes_acked.max(flow.bytes_received)));
        flows.truncate(group.streams as usize);
        flows
    }

    /// Returns the sum of the windows of all groups.
    #[must_use]
    pub fn cwnd(&self, groups: &[Group]) -> u32 {
        groups.iter().flat_map(|group| self.of(group)).map(|flow| flow.cwnd_segments).sum()
    }
}

/// Looks at the flows of a namespace, from outside, until told to stop.
#[derive(Debug, Default)]
pub struct Watch {
    sights: Mutex<Vec<Sight>>,
    stop: AtomicBool,
}

/// Tells what kept the flows from being seen.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    #[error(transparent)]
    Netns(#[from] NetnsError),
    #[error(transparent)]
    Process(#[from] ProcessError),
}

impl Watch {
    /// Runs until [`Watch::stop`] is called elsewhere.
    ///
    /// # Errors
    /// When ss fails.
    pub fn run(&self, netns: &Netns, filter: &str, every: Duration) -> Result<(), WatchError> {
        // The thread is the caller's own, made for this.
        netns.enter()?;
        let mut next = Instant::now();
        while !self.stop.load(Ordering::Relaxed) {
            let flows = ss::flows(filter)?;
            let sight = Sight { time_ns: monotonic_ns(), flows };
            locked(&self.sights).push(sight);
            next += every;
            while !self.stop.load(Ordering::Relaxed) && Instant::now() < next {
                let left = next.saturating_duration_since(Instant::now());
                thread::sleep(left.min(STEP));
            }
        }
        Ok(())
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns the latest sight.
    #[must_use]
    pub fn latest(&self) -> Option<Sight> {
        locked(&self.sights).last().cloned()
    }

    /// Returns all that was seen.
    #[must_use]
    pub fn into_sights(self) -> Vec<Sight> {
        unpoisoned(self.sights.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goodput_is_taken_between_the_points() {
        let series =
            Series::new(vec![(1_000_000_000, 0), (2_000_000_000, 1000), (3_000_000_000, 4000)]);
        assert!((series.goodput(1_000_000_000, 3_000_000_000) - 16_000.0).abs() < 1e-6);
        assert!((series.goodput(1_500_000_000, 2_500_000_000) - 16_000.0).abs() < 1e-6);
        assert!((series.goodput(2_500_000_000, 9_500_000_000) - 1500.0 * 8.0 / 7.0).abs() < 1e-6);
        assert!(Series::default().goodput(1, 2).abs() < 1e-6);
    }

    #[test]
    fn a_series_is_complete_with_its_last_byte() {
        let series = Series::new(vec![(1, 0), (2, 70), (3, 90), (4, 90), (5, 90)]);
        assert_eq!((series.complete_ns(), Series::default().complete_ns()), (3, 0));
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert!((median([5.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median([4.0, 1.0, 2.0, 9.0]) - 3.0).abs() < 1e-9);
        assert!(median([]).abs() < 1e-9);
    }
}
