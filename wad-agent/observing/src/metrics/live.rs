//! The flows that run add this to the counts of their paths, which the kernel side
//! only adds up as flows end.

use std::{collections::HashMap, sync::Arc};

use wad_instruments::{Flow, Reading, name};

use super::PathReading;

/// The instruments that are added to the counts of a path, in the order of
/// [`totals`].
const COUNTED: [&str; 4] = [
    name::HC_THRU_OCTETS_ACKED,
    name::HC_THRU_OCTETS_RECEIVED,
    name::DATA_SEGS_OUT,
    name::SEGS_RETRANS,
];

/// The labels say by what a flow was held back.
pub const LIMITS: [&str; 4] = ["network", "receiver", "send_buffer", "application"];

type Counts = [u64; COUNTED.len()];
/// The seconds are in the order of [`LIMITS`].
pub type Seconds = [f64; LIMITS.len()];

/// Holds what is remembered between two readings.
#[derive(Debug, Default)]
pub struct Live {
    flows: HashMap<u64, Known>,
    /// Flows that the latest reading lacked: a reading may miss a flow as others end.
    missed: HashMap<u64, Known>,
    /// The counts shown of the paths that have had flows: they never go back.
    paths: HashMap<Arc<str>, Shown>,
    /// Whether there was a reading before: what flows were held back until the first
    /// was another agent's to count.
    has_read: bool,
}

/// A flow when it was seen on its path first, and last.
#[derive(Clone, Debug)]
struct Known {
    path: Arc<str>,
    /// Counts of the flow, not its path's.
    before: Counts,
    limited: Seconds,
}

impl Known {
    fn from_now(flow: &Flow, before: Counts, limited: Seconds) -> Self {
        Self { path: Arc::clone(&flow.path), before, limited }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    totals: Counts,
    limited: Seconds,
    /// Counts of the flows that run now.
    running: Counts,
    is_there: bool,
}

impl Live {
    /// Adds a reading of all flows to those of the paths, which were taken before it:
    /// so a flow that ends in between is missing for once, but never counted twice.
    /// Returns how long the flows of each path were held back by what, as far as
    /// readings have shown.
    pub fn add(
        &mut self,
        reading: &Reading,
        paths: &mut [PathReading],
    ) -> HashMap<String, Seconds> {
        let mut flows = HashMap::with_capacity(reading.flows.len());
        self.paths.values_mut().for_each(|path| path.running = Counts::default());
        for flow in &reading.flows {
            let (cookie, counts, limited) = (&flow.cookie, counts(flow), limited(flow));
            let known = match self.flows.get(cookie).or_else(|| self.missed.get(cookie)) {
                Some(known) if known.path == flow.path => known.clone(),
                None if flow.role == "running" => Known::from_now(flow, counts, limited),
                None if self.has_read => {
                    Known::from_now(flow, Counts::default(), Seconds::default())
                }
                None => Known::from_now(flow, Counts::default(), limited),
                // Its other path has what it carried there.
                Some(_) => Known::from_now(flow, counts, limited),
            };
            let path = self.paths.entry(Arc::clone(&flow.path)).or_default();
            for (n, count) in counts.iter().enumerate() {
                let since = count.saturating_sub(known.before[n]);
                path.running[n] = path.running[n].saturating_add(since);
            }
            for (n, seconds) in limited.iter().enumerate() {
                path.limited[n] += (seconds - known.limited[n]).max(0.0);
            }
            flows.insert(*cookie, Known { limited, ..known });
        }
        self.missed = std::mem::replace(&mut self.flows, flows);
        self.missed.retain(|cookie, _| !self.flows.contains_key(cookie));
        self.has_read = true;
        self.show(paths)
    }

    /// Keeps what was shown where flows cannot be read: what was shown of the paths
    /// holds on.
    pub fn keep(&mut self, paths: &mut [PathReading]) -> HashMap<String, Seconds> {
        self.paths.values_mut().for_each(|path| path.running = Counts::default());
        self.show(paths)
    }

    /// Forgets the paths that are gone with a policy set, and what their flows carried:
    /// one of the same name that comes later counts anew, whoever scrapes in between.
    pub fn keep_only(&mut self, in_force: impl Fn(&str) -> bool) {
        self.paths.retain(|path, _| in_force(path));
        for flows in [&mut self.flows, &mut self.missed] {
            flows.retain(|_, known| in_force(&known.path));
        }
    }

    fn show(&mut self, paths: &mut [PathReading]) -> HashMap<String, Seconds> {
        if self.paths.is_empty() {
            return HashMap::new();
        }
        self.paths.values_mut().for_each(|path| path.is_there = false);
        for path in paths {
            let Some(shown) = self.paths.get_mut(&*path.name) else { continue };
            shown.is_there = true;
            for (n, total) in totals(path).into_iter().enumerate() {
                *total = total.saturating_add(shown.running[n]).max(shown.totals[n]);
                shown.totals[n] = *total;
            }
        }
        // One of the same name that comes later counts anew.
        self.paths.retain(|_, path| path.is_there);
        self.paths.iter().map(|(name, path)| (name.to_string(), path.limited)).collect()
    }
}

fn totals(path: &mut PathReading) -> [&mut u64; COUNTED.len()] {
    let stats = &mut path.stats;
    [
        &mut stats.bytes_acked,
        &mut stats.bytes_received,
        &mut stats.data_segs_out,
        &mut stats.segs_retrans,
    ]
}

fn counts(flow: &Flow) -> Counts {
    // A cast of a number that is not there, or below zero, is zero.
    COUNTED.map(|name| flow.instruments.get(name).unwrap_or(0.0) as u64)
}

fn limited(flow: &Flow) -> Seconds {
    let seconds = |name| flow.instruments.get(name).unwrap_or(0.0) / 1e3;
    let send_buffer = seconds(name::SND_LIM_TIME_SNDBUF);
    [
        seconds(name::SND_LIM_TIME_CWND),
        seconds(name::SND_LIM_TIME_RWIN),
        send_buffer,
        (seconds(name::SND_LIM_TIME_SND) - send_buffer).max(0.0),
    ]
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use wad_common::stats::PathStats;
    use wad_policy::derived::testing::flow;

    use super::*;
    use crate::metrics::testing::path;

    fn running(cookie: u64, role: &'static str, octets: f64) -> Flow {
        let values = [("HCThruOctetsAcked", octets), ("SndLimTimeRwin", octets)];
        Flow { cookie, role: role.into(), ..flow(&values) }
    }

    /// Returns what is shown of the path bob, of whose closed flows so much is
    /// counted.
    fn shown(live: &mut Live, closed: u64, flows: Vec<Flow>) -> (u64, f64) {
        let stats = PathStats { bytes_acked: closed, ..PathStats::default() };
        let mut paths = [path("eve", PathStats::default()), path("bob", stats)];
        let reading = Reading { time: Timestamp::UNIX_EPOCH, flows };
        let limited = live.add(&reading, &mut paths);
        assert_eq!(paths[0].stats, PathStats::default());
        (paths[1].stats.bytes_acked, limited.get("bob").map_or(0.0, |limited| limited[1]))
    }

    #[test]
    fn counts_advance_while_a_flow_runs_and_stay_when_it_ends() {
        let mut live = Live::default();
        shown(&mut live, 0, vec![]);
        let flow = |octets| vec![running(1, "connected", octets)];
        assert_eq!(shown(&mut live, 0, flow(1000.0)), (1000, 1.0));
        assert_eq!(shown(&mut live, 0, flow(3000.0)), (3000, 3.0));
        // It ended after the path was read, and before the flows were.
        assert_eq!(shown(&mut live, 0, vec![]), (3000, 3.0));
        assert_eq!(shown(&mut live, 3500, vec![]), (3500, 3.0));
        let next = vec![running(2, "accepted", 500.0)];
        assert_eq!(shown(&mut live, 3500, next), (4000, 3.5));
        // Nothing can be read.
        let mut paths = [path("bob", PathStats { bytes_acked: 3500, ..PathStats::default() })];
        assert_eq!(live.keep(&mut paths)["bob"][1], 3.5);
        assert_eq!(paths[0].stats.bytes_acked, 4000);
    }

    #[test]
    fn what_a_flow_carried_before_the_agent_came_is_not_counted() {
        let mut live = Live::default();
        let flow = |octets| vec![running(1, "running", octets)];
        assert_eq!(shown(&mut live, 0, flow(1e12)), (0, 0.0));
        assert_eq!(shown(&mut live, 0, flow(1e12 + 5000.0)), (5000, 5.0));
    }

    #[test]
    fn after_another_agent_octets_go_on_and_times_begin_anew() {
        let mut live = Live::default();
        let flow = |octets| vec![running(1, "connected", octets)];
        assert_eq!(shown(&mut live, 0, flow(1000.0)), (1000, 0.0));
        assert_eq!(shown(&mut live, 0, flow(3000.0)), (3000, 2.0));
    }

    #[test]
    fn what_a_flow_carried_on_another_path_stays_there() {
        let mut live = Live::default();
        let elsewhere = Flow { path: "eve".into(), ..running(1, "connected", 1000.0) };
        live.add(&Reading { time: Timestamp::UNIX_EPOCH, flows: vec![elsewhere] }, &mut []);
        assert_eq!(shown(&mut live, 0, vec![running(1, "connected", 3000.0)]), (0, 0.0));
        assert_eq!(shown(&mut live, 0, vec![running(1, "connected", 4000.0)]), (1000, 1.0));
    }

    #[test]
    fn a_flow_that_a_reading_missed_is_not_counted_twice() {
        let mut live = Live::default();
        let flow = |octets| vec![running(1, "running", octets)];
        shown(&mut live, 0, flow(1000.0));
        assert_eq!(shown(&mut live, 0, flow(3000.0)), (2000, 2.0));
        assert_eq!(shown(&mut live, 0, vec![]), (2000, 2.0));
        assert_eq!(shown(&mut live, 0, flow(4000.0)), (3000, 3.0));
    }

    #[test]
    fn a_path_that_comes_again_between_two_scrapes_counts_anew() {
        let mut live = Live::default();
        shown(&mut live, 0, vec![]);
        assert_eq!(shown(&mut live, 7000, vec![running(1, "connected", 1000.0)]), (8000, 1.0));
        live.keep_only(|path| path == "bob");
        assert_eq!(shown(&mut live, 7000, vec![running(1, "connected", 2000.0)]), (9000, 2.0));
        live.keep_only(|path| path == "eve");
        // Its flow has come along, and has carried all that before.
        assert_eq!(shown(&mut live, 0, vec![running(1, "running", 2000.0)]), (0, 0.0));
        assert_eq!(shown(&mut live, 0, vec![running(1, "running", 2500.0)]), (500, 0.5));
    }

    #[test]
    fn a_path_that_comes_again_counts_anew() {
        let mut live = Live::default();
        shown(&mut live, 7000, vec![running(1, "connected", 1000.0)]);
        live.add(&Reading { time: Timestamp::UNIX_EPOCH, flows: vec![] }, &mut []);
        assert_eq!(shown(&mut live, 10, vec![]), (10, 0.0));
    }
}
