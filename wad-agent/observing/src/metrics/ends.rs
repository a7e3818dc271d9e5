//! Histograms are made of how flows ended, by path. Kept by the agent, from the
//! events of flows; so they begin anew with it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use wad_common::event::Event;
use wad_toolbox::mutex::locked;

/// Upper bounds of the buckets, without the last one, which has none. Few: each is a
/// series of every path.
pub const RTT_SECONDS: &[f64] = &[0.01, 0.05, 0.2];
/// 10, 100 and 1000 Mbit/s.
pub const GOODPUT_BYTES_PER_SECOND: &[f64] = &[1.25e6, 1.25e7, 1.25e8];
/// At the second, a standard flow over 80 ms is down to 2 Mbit/s.
pub const RETRANSMITTED: &[f64] = &[0.001, 0.01];

/// Most buckets of a histogram, the last one included.
const MOST_BUCKETS: usize = 4;

/// Flows in each bucket, not in those below it.
pub type Buckets = [u64; MOST_BUCKETS];

/// A histogram of what ended flows had.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Histogram {
    pub buckets: Buckets,
    /// The sum of all values.
    pub sum: f64,
}

impl Histogram {
    /// A value on a bound is below it, as `le` says.
    pub fn add(&mut self, bounds: &[f64], value: f64) {
        let bucket = bounds.iter().take_while(|bound| value > **bound).count();
        self.buckets[bucket] = self.buckets[bucket].saturating_add(1);
        self.sum += value;
    }

    /// Adds those of another path, too.
    fn merge(&mut self, other: &Self) {
        let both = self.buckets.iter_mut().zip(other.buckets);
        both.for_each(|(own, other)| *own = own.saturating_add(other));
        self.sum += other.sum;
    }

    /// Returns how many flows there are in all buckets.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, bucket| sum.saturating_add(*bucket))
    }
}

/// The delays of the event loop, in seconds.
pub const DELAY_SECONDS: &[f64] = &[0.01, 0.1, 1.0];

/// Holds how late the event loop came to what was due.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Delays {
    pub of: Histogram,
}

impl Delays {
    /// Adds one look.
    pub fn add(&mut self, delay: Duration) {
        self.of.add(DELAY_SECONDS, delay.as_secs_f64());
    }
}

/// The ended flows of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ended {
    /// Round trip times of those that have measured it.
    pub rtt: Histogram,
    /// Goodput of the direction that carried more, where any data was carried.
    pub goodput: Histogram,
    /// Part retransmitted of the segments with data, where any was sent.
    pub retransmitted: Histogram,
}

impl Ended {
    fn add(&mut self, event: &Event) {
        if event.srtt_us > 0 {
            self.rtt.add(RTT_SECONDS, f64::from(event.srtt_us) / 1e6);
        }
        let bytes = event.bytes_acked.max(event.bytes_received);
        let took_ns = event.time_ns.saturating_sub(event.flow.established_ns);
        if bytes > 0 && took_ns > 0 && event.flow.established_ns > 0 {
            let bytes_per_second = bytes as f64 / (took_ns as f64 / 1e9);
            self.goodput.add(GOODPUT_BYTES_PER_SECOND, bytes_per_second);
        }
        if event.data_segs_out > 0 {
            let ratio = f64::from(event.segs_retrans) / f64::from(event.data_segs_out);
            self.retransmitted.add(RETRANSMITTED, ratio);
        }
    }

    /// Adds those of another path, too.
    pub fn merge(&mut self, other: &Self) {
        self.rtt.merge(&other.rtt);
        self.goodput.merge(&other.goodput);
        self.retransmitted.merge(&other.retransmitted);
    }
}

/// Holds the ends of all paths that have seen a flow end. Shared by who counts and
/// who answers.
#[derive(Clone, Debug, Default)]
pub struct Ends(Arc<Mutex<HashMap<Arc<str>, Ended>>>);

impl Ends {
    /// A flow of the path closed, or left it.
    pub fn add(&self, path: &Arc<str>, event: &Event) {
        self.locked().entry(Arc::clone(path)).or_default().add(event);
    }

    pub fn get(&self) -> HashMap<Arc<str>, Ended> {
        self.locked().clone()
    }

    /// Forgets all paths but these.
    pub fn keep(&self, is_there: impl Fn(&str) -> bool) {
        self.locked().retain(|path, _| is_there(path));
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<Arc<str>, Ended>> {
        locked(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use wad_tuning::bpf::testing::event;

    use super::*;

    #[test]
    fn a_flow_is_counted_in_one_bucket_of_each() {
        let ends = Ends::default();
        // 1 GB in 16 s at 70 ms, 3 of 690,608 segments sent again.
        ends.add(&"bob".into(), &event());
        let ended = ends.get()["bob"];
        assert_eq!((ended.rtt.buckets, ended.rtt.sum), ([0, 0, 1, 0], 0.070_125));
        assert_eq!(ended.goodput.buckets, [0, 0, 1, 0]);
        assert_eq!(ended.retransmitted.buckets, [1, 0, 0, 0]);
        let mut sum = ended;
        sum.merge(&ended);
        assert_eq!((sum.rtt.buckets, sum.rtt.sum), ([0, 0, 2, 0], 0.140_25));
        assert_eq!(sum.rtt.count(), 2);
        ends.keep(|path| path != "bob");
        assert!(ends.get().is_empty());
    }

    #[test]
    fn bounds_are_part_of_their_bucket() {
        let mut histogram = Histogram::default();
        for value in [0.01, 0.010_001, 0.2, 7.0] {
            histogram.add(RTT_SECONDS, value);
        }
        assert_eq!((histogram.buckets, histogram.count()), ([1, 1, 1, 1], 4));
    }

    #[test]
    fn what_a_flow_has_not_shown_is_not_counted() {
        let mut idle = event();
        (idle.srtt_us, idle.bytes_acked, idle.bytes_received, idle.data_segs_out) = (0, 0, 0, 0);
        let mut ended = Ended::default();
        ended.add(&idle);
        assert_eq!(ended, Ended::default());
        let mut odd = event();
        odd.flow.established_ns = u64::MAX;
        ended.add(&odd);
        assert_eq!(ended.goodput, Histogram::default());
    }
}
