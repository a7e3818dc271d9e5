//! A record holds what was seen of one transfer; figures are made of it. Times are
//! CLOCK_MONOTONIC nanoseconds.

use std::{cmp::Reverse, collections::HashMap, net::SocketAddr};

use wad_testbed::{emulated::wan::Wan, ss::Flow};

use crate::{
    algorithm::{algorithm, is_own},
    counters::TcpCounters,
    decrease::decrease,
    lab::LabError,
    measure::{Series, Sight},
    recovery,
    report::{Emulator, Flows, Point, Sample},
    scenario::{Group, Load, Scenario, Variant},
    slow_start::slow_start,
};

const SECOND_NS: u64 = 1_000_000_000;
/// A goodput "after 3 s" is of at least so much more.
const LEAST_AFTER_NS: u64 = SECOND_NS;

/// One transfer.
#[derive(Debug)]
pub struct Record {
    pub start_ns: u64,
    /// The sender's, at the start.
    pub counters_before: TcpCounters,
    /// The transfer counts until this time; 0 as long as that is not known.
    pub end_ns: u64,
    /// The client's own figure, in bits per second, where it gives no times.
    pub goodput: Option<f64>,
    /// The time that each request took, where there are several.
    pub request_seconds: Vec<f64>,
    /// The data that arrived: of each group, of each of its streams.
    pub streams: Vec<Vec<Series>>,
    /// Flows as ss saw them at the sender.
    pub sights: Vec<Sight>,
    /// Flows as ss saw them at the receiver.
    pub far_sights: Vec<Sight>,
}

impl Record {
    /// Completes a record by a rate that somebody else measured, whose times are not on our
    /// clock: what ss saw acknowledged of each flow is.
    #[must_use]
    pub fn with_rate(mut self, bits_per_second: f64, groups: &[Group]) -> Self {
        self.goodput = Some(bits_per_second);
        let acked = |group| {
            let series = |flow: &Vec<(u64, &Flow)>| {
                Series::new(flow.iter().map(|(at, seen)| (*at, seen.bytes_acked)).collect())
            };
            seen(&self.sights, group).iter().map(series).collect()
        };
        self.streams = groups.iter().map(acked).collect();
        self
    }

    /// Returns the share of the flows' ends, at both hosts, that have a law of `wad`'s
    /// whenever ss sees them. Of those that it never sees, neither end counts.
    fn tuned_share(&self, variant: &Variant) -> f64 {
        let is_tuned =
            |flows: &Vec<(u64, &Flow)>| flows.iter().all(|(_, flow)| is_own(&flow.congestion));
        let tuned = |group: &Group| {
            let ends = [&self.sights, &self.far_sights].map(|sights| seen(sights, group));
            ends.iter().flatten().filter(|flows| is_tuned(flows)).count()
        };
        let tuned: usize = variant.groups.iter().map(tuned).sum();
        tuned as f64 / f64::from(2 * variant.streams())
    }

    /// Ends the transfer when the time is over, or when all bytes are there.
    #[must_use]
    pub fn until(mut self, load: Load) -> Self {
        self.end_ns = match load {
            Load::Seconds(seconds) => self.start_ns + u64::from(seconds) * SECOND_NS,
            Load::Bytes(_) if self.end_ns > 0 => self.end_ns,
            Load::Bytes(_) => {
                self.streams.iter().flatten().map(Series::complete_ns).max().unwrap_or(0)
            }
        };
        self
    }

    /// Makes the figures of the transfer.
    ///
    /// # Errors
    /// When no flow was seen, or counters cannot be read.
    pub fn sample(
        &self,
        scenario: &Scenario,
        variant: &Variant,
        wan: &Wan,
    ) -> Result<Sample, LabError> {
        let flow = busiest(&self.sights).ok_or(LabError::Unseen)?;
        let far_flow = busiest(&self.far_sights).ok_or(LabError::Unseen)?;
        let seen = self.sights.iter().flat_map(|sight| &sight.flows);
        let send_window_bytes = seen.map(|flow| flow.send_window_bytes).max().unwrap_or(0);
        let [forward, reverse] = wan.counters()?;
        let loss_ns = Some(forward.first_planned_drop_ns).filter(|time_ns| *time_ns > 0);
        let counters = wan.a().run(TcpCounters::read)?.map_err(LabError::Counters)?;
        let counters = counters.since(&self.counters_before);
        let path = &variant.path;
        let drain_ns =
            path.queue_bytes(&path.forward) as f64 * 8e9 / path.forward.rate.bits_per_second as f64;
        let reach_ns = path.rtt.nanoseconds() + drain_ns as u64;
        let flows = self.flows(scenario, variant);
        Ok(Sample {
            seconds: self.end_ns.saturating_sub(self.start_ns) as f64 / 1e9,
            goodput_bits_per_second: self
                .goodput
                .unwrap_or_else(|| self.arrived(self.start_ns, self.end_ns)),
            goodput_after_3_seconds_bits_per_second: self
                .after(3 * SECOND_NS)
                .map(|from_ns| self.arrived(from_ns, self.end_ns)),
            goodput_after_loss_bits_per_second: loss_ns
                .map(|time_ns| self.arrived(time_ns, time_ns + 10 * SECOND_NS)),
            retransmits: counters.retransmits(),
            congestion_events: counters.congestion_events(),
            registered_congestion: flow.congestion.clone(),
            sndbuf_bytes: flow.sndbuf_bytes,
            rcvbuf_bytes: far_flow.rcvbuf_bytes,
            send_window_bytes,
            slow_start: slow_start(
                &self.sights,
                &wan.moments().queue_drops_ns,
                (self.start_ns, reach_ns),
            ),
            request_seconds: self.request_seconds.clone(),
            bpftune_said: vec![],
            decrease: loss_ns.and_then(|loss_ns| {
                decrease(&self.windows(&variant.groups), loss_ns, path.rtt.nanoseconds())
            }),
            recovery: scenario.burst.map(|burst| {
                let event_ns = self.start_ns + burst.at.nanoseconds();
                recovery::recovery(&recovery::arrived(&self.sights), event_ns, self.end_ns)
            }),
            responses: None,
            idle_share: None,
            tuned_share: Some(self.tuned_share(variant)),
            memory: None,
            unread: None,
            jain_index: jain(flows.iter().flat_map(|flows| &flows.streams_bits_per_second)),
            flows,
            tcp_counters: counters.into_map(),
            emulator: Emulator { forward, reverse },
            series: self
                .points(&variant.groups, &self.streams.iter().flatten().collect::<Vec<_>>()),
        })
    }

    /// Returns the figures of each group, from when all have settled.
    fn flows(&self, scenario: &Scenario, variant: &Variant) -> Vec<Flows> {
        let from_ns = self.start_ns + scenario.settle.nanoseconds();
        let fair = variant.path.carries_bits_per_second() / f64::from(variant.streams());
        let flows = variant.groups.iter().zip(&self.streams).map(|(group, streams)| {
            let rates = streams.iter().map(|stream| stream.goodput(from_ns, self.end_ns));
            let rates: Vec<f64> = rates.collect();
            let goodput: f64 = rates.iter().sum();
            let seen = self.sights.iter().rev().flat_map(|sight| sight.of(group)).next();
            Flows {
                name: group.name.clone(),
                congestion: seen.map_or("", |flow| algorithm(&flow.congestion)).to_owned(),
                goodput_bits_per_second: goodput,
                share_of_fair: goodput / (fair * f64::from(group.streams)),
                streams_bits_per_second: rates,
                retransmits: self.retransmits(group),
                series: if variant.groups.len() > 1 {
                    let streams: Vec<&Series> = streams.iter().collect();
                    self.points(std::slice::from_ref(group), &streams)
                } else {
                    Vec::new()
                },
            }
        });
        flows.collect()
    }

    /// Returns the segments that the group's flows sent again, as ss saw each last.
    fn retransmits(&self, group: &Group) -> u64 {
        let most = self
            .sights
            .iter()
            .map(|sight| sight.of(group).iter().map(|flow| flow.retransmits).sum());
        most.max().unwrap_or(0)
    }

    /// Returns the sum of the windows over time, until the sender stops.
    fn windows(&self, groups: &[Group]) -> Vec<(u64, u32)> {
        let sights = self.sights.iter().filter(|sight| sight.time_ns <= self.end_ns);
        sights.map(|sight| (sight.time_ns, sight.cwnd(groups))).collect()
    }

    /// Bits per second that arrived between two times, on all streams.
    fn arrived(&self, from_ns: u64, to_ns: u64) -> f64 {
        self.streams.iter().flatten().map(|stream| stream.goodput(from_ns, to_ns)).sum()
    }

    /// Returns the time so long after the start, if that is early enough before the
    /// end.
    fn after(&self, span_ns: u64) -> Option<u64> {
        let from_ns = self.start_ns + span_ns;
        (from_ns + LEAST_AFTER_NS <= self.end_ns).then_some(from_ns)
    }

    /// Returns the points of some groups over time, until the sender stops.
    fn points(&self, groups: &[Group], streams: &[&Series]) -> Vec<Point> {
        let mut before_ns = self.start_ns;
        let mut points = Vec::new();
        for sight in self.sights.iter().filter(|sight| sight.time_ns <= self.end_ns) {
            let flows = groups.iter().find_map(|group| sight.of(group).first().copied());
            let Some(flow) = flows else { continue };
            let arrived = streams.iter().map(|stream| stream.goodput(before_ns, sight.time_ns));
            points.push(Point {
                seconds: sight.time_ns.saturating_sub(self.start_ns) as f64 / 1e9,
                cwnd_segments: sight.cwnd(groups),
                rtt_milliseconds: flow.rtt_ms,
                goodput_bits_per_second: arrived.sum(),
            });
            before_ns = sight.time_ns;
        }
        points
    }
}

/// Returns Jain's fairness index (Jain, Chiu, Hawe: DEC-TR-301, 1984): 1 when all are
/// alike, 1/n when one has it all; none for fewer than two.
fn jain<'a>(rates: impl Iterator<Item = &'a f64> + Clone) -> Option<f64> {
    let count = rates.clone().count();
    let (sum, squares): (f64, f64) = (rates.clone().sum(), rates.map(|rate| rate * rate).sum());
    (count > 1 && squares > 0.0).then(|| sum * sum / (count as f64 * squares))
}

/// Returns the flows of a group, each as it was seen from time to time: those that moved
/// the most, as iperf3 has one more for control.
fn seen<'a>(sights: &'a [Sight], group: &Group) -> Vec<Vec<(u64, &'a Flow)>> {
    let mut flows: HashMap<(SocketAddr, SocketAddr), Vec<(u64, &Flow)>> = HashMap::new();
    for sight in sights {
        for flow in sight.flows.iter().filter(|flow| group.has(flow)) {
            flows.entry((flow.local, flow.peer)).or_default().push((sight.time_ns, flow));
        }
    }
    let mut flows: Vec<_> = flows.into_iter().collect();
    let moved = |seen: &[(u64, &Flow)]| {
        seen.last().map_or(0, |(_, flow)| flow.bytes_acked.max(flow.bytes_received))
    };
    flows.sort_by_key(|(ends, seen)| (Reverse(moved(seen)), *ends));
    flows.truncate(group.streams as usize);
    flows.into_iter().map(|(_, seen)| seen).collect()
}

/// Returns the flow that moved the most, as it was seen last.
fn busiest(sights: &[Sight]) -> Option<&Flow> {
    let flows = sights.iter().flat_map(|sight| &sight.flows);
    flows.max_by_key(|flow| flow.bytes_acked.max(flow.bytes_received))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wad_testbed::ss;

    #[test]
    fn fairness_is_one_for_equals() {
        assert!(jain([3.0, 3.0, 3.0].iter()).is_some_and(|index| (index - 1.0).abs() < 1e-9));
        assert!(jain([3.0, 0.0].iter()).is_some_and(|index| (index - 0.5).abs() < 1e-9));
        assert_eq!(jain([3.0].iter()), None);
        assert_eq!(jain([0.0, 0.0].iter()), None);
    }

    fn record(streams: Vec<Vec<Series>>) -> Record {
        Record {
            start_ns: SECOND_NS,
            counters_before: TcpCounters::default(),
            end_ns: 0,
            goodput: None,
            request_seconds: vec![],
            streams,
            sights: vec![],
            far_sights: vec![],
        }
    }

    #[test]
    fn a_transfer_of_bytes_ends_with_the_last_one() {
        let stream = |end: u64| Series::new(vec![(SECOND_NS, 0), (end, 1000), (end + 5, 1000)]);
        let record = record(vec![vec![stream(2 * SECOND_NS), stream(3 * SECOND_NS)]]);
        let record = record.until(Load::Bytes(2000));
        assert_eq!(record.end_ns, 3 * SECOND_NS);
        assert!((record.arrived(SECOND_NS, record.end_ns) - 8000.0).abs() < 1e-6);
        assert_eq!(record.after(3 * SECOND_NS), None, "too short");
        assert_eq!(record.until(Load::Seconds(9)).end_ns, 10 * SECOND_NS);
    }

    /// Returns what ss saw of flows at a host: the ports of both ends, the algorithm, and
    /// the bytes that were acknowledged.
    fn sight(time_ns: u64, flows: &[(u16, u16, &str, u64)]) -> Sight {
        let line = |(local, peer, congestion, acked): &(u16, u16, &str, u64)| {
            format!(
                "0 0 10.77.0.1:{local} 10.77.0.2:{peer} skmem:(r0,rb1,t0,tb8,f2,w4,o0,bl0,d0) ts \
                 {congestion} mss:1448 cwnd:10 bytes_acked:{acked}\n"
            )
        };
        Sight { time_ns, flows: ss::parse(&flows.iter().map(line).collect::<String>()) }
    }

    /// Returns a variant with so many streams, whose receivers listen from 5001 on.
    fn variant(streams: u32) -> Variant {
        let mut variant = Scenario::load("many-flows").unwrap().variants.remove(0);
        variant.groups[0].streams = streams;
        variant
    }

    #[test]
    fn an_end_is_tuned_that_always_was() {
        let variant = variant(2);
        let mut record = record(vec![]);
        record.sights = vec![sight(1, &[(40_001, 5001, "wad_aimd7k", 9)])];
        record.far_sights = vec![sight(1, &[(5001, 40_001, "wad_aimd7k", 0)])];
        // The other flow was not there.
        assert_eq!(record.tuned_share(&variant), 0.5);
        record
            .sights
            .push(sight(2, &[(40_001, 5001, "wad_aimd7k", 9), (40_002, 5001, "cubic", 9)]));
        record.far_sights.push(sight(2, &[(5001, 40_002, "wad_aimd7k", 0)]));
        assert_eq!(record.tuned_share(&variant), 0.75);
        // Of those that are too many, those that move the least do not count.
        record.sights.push(sight(3, &[(40_003, 5001, "wad_aimd7k", 5)]));
        assert_eq!(record.tuned_share(&variant), 0.75);
        record.far_sights.push(sight(3, &[(5001, 40_001, "cubic", 0)]));
        assert_eq!(record.tuned_share(&variant), 0.5);
    }

    #[test]
    fn each_flow_of_another_client_has_its_own_rate() {
        let variant = variant(300);
        let mut record = record(vec![]);
        // A process for 128 streams each: the third one's port is the group's, too.
        record.sights = vec![
            sight(SECOND_NS, &[(40_001, 5001, "cubic", 0), (40_002, 5003, "cubic", 0)]),
            sight(2 * SECOND_NS, &[(40_001, 5001, "cubic", 1000), (40_002, 5003, "cubic", 3000)]),
            sight(2 * SECOND_NS, &[(40_003, 5004, "cubic", 9000)]),
        ];
        let record = record.with_rate(7.0, &variant.groups).until(Load::Seconds(1));
        let rates: Vec<f64> = record.streams[0]
            .iter()
            .map(|stream| stream.goodput(SECOND_NS, record.end_ns))
            .collect();
        assert_eq!(rates, [24_000.0, 8000.0]);
        assert!(jain(rates.iter()).is_some_and(|index| (index - 0.8).abs() < 1e-9));
    }
}
