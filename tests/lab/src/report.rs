//! A report holds what an experiment found, as `wad-lab run --json` prints it and as it
//! is stored. Units are in the names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wad_testbed::{
    emulated::{direction::Counters, path},
    settings::UNTUNED_WINDOW_BYTES,
    sysctl,
};

use crate::{
    algorithm::algorithm,
    client::Client,
    counters::DUPLICATES,
    decrease::Decrease,
    measure::median,
    measured::Measured,
    memory::Memory,
    recovery::Recovery,
    responses::{Cuts, Responses},
    scenario::{self, Measure, Scenario},
    slow_start::SlowStart,
    unread::Unread,
};

/// Variants whose names begin so run without `wad`.
pub const UNTUNED: &str = "untuned";
/// Variants whose names end so have the buffers of Linux 6.16 and later.
pub const NEWER: &str = "-6.16";

/// A scenario's result.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    pub scenario: String,
    /// Tells what the papers saw in a like case.
    pub paper: Option<String>,
    pub client: String,
    /// The kernel and the processors.
    pub host: String,
    /// The time that each transfer runs; none where it is so many bytes.
    pub seconds: Option<u32>,
    /// The scenario's; a variant may have another.
    pub path: Path,
    pub variants: Vec<Variant>,
}

/// The path of a scenario, worked out.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Path {
    pub rate_bits_per_second: u64,
    pub rtt_seconds: f64,
    pub mtu_bytes: u32,
    pub bdp_bytes: u64,
    pub queue_bytes: u64,
    pub loss_probability: f64,
    pub drop_data_packets: Vec<u64>,
    /// The most that an application can get: the rate less the headers.
    pub carries_bits_per_second: f64,
    /// The most that the untuned window gives.
    pub untuned_window_over_rtt_bits_per_second: f64,
}

/// A variant: medians over its samples.
#[derive(Debug, Serialize, Deserialize)]
pub struct Variant {
    pub name: String,
    /// The name without the path.
    pub base: String,
    /// Who moved its data, where it is not the report's.
    pub client: Option<String>,
    /// When it was run last, and with which `wad`; none in results of before that was noted.
    pub measured: Option<Measured>,
    /// The algorithm as ss saw it at the sender, but for the suffix of an instance.
    pub congestion: String,
    pub streams: u32,
    pub path: Path,
    pub goodput_bits_per_second: f64,
    /// The goodput after 3 s; none where the transfer is over by then.
    pub goodput_after_3_seconds_bits_per_second: Option<f64>,
    /// The goodput in the 10 s after the first planned drop.
    pub goodput_after_loss_bits_per_second: Option<f64>,
    pub retransmits: f64,
    pub congestion_events: f64,
    /// The settings that were in force while it ran.
    pub settings: BTreeMap<String, String>,
    pub samples: Vec<Sample>,
}

/// One run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Sample {
    /// The seconds until the time was over, or all bytes had arrived.
    pub seconds: f64,
    pub goodput_bits_per_second: f64,
    pub goodput_after_3_seconds_bits_per_second: Option<f64>,
    pub goodput_after_loss_bits_per_second: Option<f64>,
    pub retransmits: u64,
    /// Episodes of fast recovery, and timeouts.
    pub congestion_events: u64,
    /// The algorithm of the busiest flow, exactly as ss has it; next are the kernel's
    /// limits of its buffers, and the peer's largest window.
    pub registered_congestion: String,
    pub sndbuf_bytes: u64,
    pub rcvbuf_bytes: u64,
    pub send_window_bytes: u64,
    pub slow_start: SlowStart,
    /// The time that each request took, in their order, where there are several.
    #[serde(default)]
    pub request_seconds: Vec<f64>,
    /// The lines that bpftune has logged, where it ran.
    #[serde(default)]
    pub bpftune_said: Vec<String>,
    /// The window after the first planned drop.
    pub decrease: Option<Decrease>,
    /// The recovery from a burst of datagrams.
    pub recovery: Option<Recovery>,
    /// The responses where the sender's own queue is looked at.
    pub responses: Option<Responses>,
    /// The share of the processors' time in which there was nothing to do.
    pub idle_share: Option<f64>,
    /// The share of the flows' ends that have a law of `wad`'s whenever ss sees them.
    pub tuned_share: Option<f64>,
    /// The memory that TCP held on the whole host.
    pub memory: Option<Memory>,
    /// The connections beside it whose receivers never read.
    pub unread: Option<Unread>,
    /// Jain's fairness index over all flows, after the time to settle.
    pub jain_index: Option<f64>,
    pub flows: Vec<Flows>,
    /// The kernel's, of the sender's namespace.
    pub tcp_counters: BTreeMap<String, u64>,
    pub emulator: Emulator,
    pub series: Vec<Point>,
}

/// One group of flows; rates are of the time after that to settle.
#[derive(Debug, Serialize, Deserialize)]
pub struct Flows {
    pub name: String,
    pub congestion: String,
    pub goodput_bits_per_second: f64,
    /// The goodput over an equal share of what the path carries for each of its flows.
    pub share_of_fair: f64,
    pub streams_bits_per_second: Vec<f64>,
    pub retransmits: u64,
    /// Empty where it is that of the sample.
    pub series: Vec<Point>,
}

/// Tells what the emulated path did: with the data, and with the acknowledgements.
#[derive(Debug, Serialize, Deserialize)]
pub struct Emulator {
    pub forward: Counters,
    pub reverse: Counters,
}

/// Flows at one time; windows are sums over the streams.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Point {
    pub seconds: f64,
    pub cwnd_segments: u32,
    pub rtt_milliseconds: f64,
    /// The goodput since the point before.
    pub goodput_bits_per_second: f64,
}

impl Report {
    /// Says of all that was run when, and with which `wad`.
    pub fn stamp(&mut self, measured: &Measured) {
        for variant in self.variants.iter_mut().filter(|variant| !variant.samples.is_empty()) {
            variant.measured = Some(measured.clone());
        }
    }

    /// Makes the report of a scenario that has not run yet.
    #[must_use]
    pub fn of(scenario: &Scenario, client: Client) -> Self {
        Self {
            scenario: scenario.name.clone(),
            paper: scenario.paper.clone(),
            client: client.name().to_owned(),
            host: host(),
            seconds: scenario.seconds(),
            path: Path::of(&scenario.path),
            variants: scenario.variants.iter().map(Variant::of).collect(),
        }
    }

    /// Returns what runs without `wad` on a variant's path: with a distribution's buffers,
    /// and with those of newer kernels. Of several it is the one with as many streams.
    #[must_use]
    pub fn untuned(&self, variant: &Variant) -> [Option<&Variant>; 2] {
        let find = |is_newer: bool| {
            let fits = |other: &&Variant| {
                let is_one = other.base.starts_with(UNTUNED) && !other.samples.is_empty();
                is_one
                    && other.base.ends_with(NEWER) == is_newer
                    && other.path_suffix() == variant.path_suffix()
                    && other.path == variant.path
            };
            let is_like = |other: &&Variant| other.streams == variant.streams;
            let mut fitting = self.variants.iter().filter(fits);
            fitting.clone().find(is_like).or_else(|| fitting.next())
        };
        [find(false), find(true)]
    }

    /// Returns how many times another's goodput a variant has: none where either was not
    /// run.
    #[must_use]
    pub fn gain(variant: &Variant, over: Option<&Variant>) -> Option<f64> {
        let over = over?.compared_bits_per_second();
        (over > 0.0 && !variant.samples.is_empty())
            .then(|| variant.compared_bits_per_second() / over)
    }
}

/// Returns the names of some of a report's variants, in words: where one is there on every path
/// of the grid, its name without the path.
#[must_use]
pub fn called(all: &[&Variant], names: &[&str]) -> String {
    let is_named = |variant: &&&Variant| names.contains(&variant.name.as_str());
    let mut called: Vec<&str> = Vec::new();
    for variant in all.iter().filter(is_named) {
        let mut alike = all.iter().filter(|other| other.base == variant.base);
        let is_whole = alike.all(|other| is_named(&other));
        let name = if is_whole { &variant.base } else { &variant.name };
        if !called.contains(&name.as_str()) {
            called.push(name);
        }
    }
    called.join(", ")
}

/// Returns what the kernel calls itself, and how many processors it has for this
/// process.
#[must_use]
pub fn host() -> String {
    let kernel = sysctl::get("kernel.osrelease").unwrap_or_else(|_| "unknown".to_owned());
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("Linux {kernel}, {processors} processors")
}

impl Path {
    #[must_use]
    pub fn of(path: &path::Path) -> Self {
        Self {
            rate_bits_per_second: path.forward.rate.bits_per_second,
            rtt_seconds: path.rtt.0.as_secs_f64(),
            mtu_bytes: path.mtu,
            bdp_bytes: path.bdp_bytes(),
            queue_bytes: path.queue_bytes(&path.forward),
            loss_probability: path.forward.loss,
            drop_data_packets: path.forward.drop_data_packets.clone(),
            carries_bits_per_second: path.carries_bits_per_second(),
            untuned_window_over_rtt_bits_per_second: f64::from(UNTUNED_WINDOW_BYTES) * 8.0
                / path.rtt.0.as_secs_f64(),
        }
    }

    /// Returns the bandwidth-delay product in segments of the largest size, headers
    /// included.
    #[must_use]
    pub fn bdp_segments(&self) -> f64 {
        self.bdp_bytes as f64 / f64::from(self.mtu_bytes)
    }

    /// Returns the path's figures in words, for people.
    #[must_use]
    pub fn words(&self) -> String {
        let mut text = format!(
            "{:.0} Mb/s, {:.0} ms, queue {:.2} BDP",
            self.rate_bits_per_second as f64 / 1e6,
            self.rtt_seconds * 1e3,
            self.queue_bytes as f64 / self.bdp_bytes as f64
        );
        if self.loss_probability > 0.0 {
            text += &format!(", random loss {:e}", self.loss_probability);
        }
        text
    }
}

impl Variant {
    /// Returns a variant that has not run yet.
    #[must_use]
    pub fn of(variant: &scenario::Variant) -> Self {
        Self {
            name: variant.name.clone(),
            base: variant.base.clone(),
            client: variant.client.map(|client| client.name().to_owned()),
            measured: None,
            congestion: String::new(),
            streams: variant.streams(),
            path: Path::of(&variant.path),
            goodput_bits_per_second: 0.0,
            goodput_after_3_seconds_bits_per_second: None,
            goodput_after_loss_bits_per_second: None,
            retransmits: 0.0,
            congestion_events: 0.0,
            settings: BTreeMap::new(),
            samples: Vec::new(),
        }
    }

    /// Returns the part of the name that stands for the path in the grid.
    #[must_use]
    pub fn path_suffix(&self) -> &str {
        self.name.strip_prefix(&self.base).unwrap_or_default()
    }

    /// Adds a run; the medians follow.
    pub fn add(&mut self, sample: Sample) {
        algorithm(&sample.registered_congestion).clone_into(&mut self.congestion);
        self.samples.push(sample);
        let over = |value: fn(&Sample) -> Option<f64>| {
            let values: Vec<f64> = self.samples.iter().filter_map(value).collect();
            (!values.is_empty()).then(|| median(values))
        };
        self.goodput_bits_per_second =
            over(|sample| Some(sample.goodput_bits_per_second)).unwrap_or(0.0);
        self.goodput_after_3_seconds_bits_per_second =
            over(|sample| sample.goodput_after_3_seconds_bits_per_second);
        self.goodput_after_loss_bits_per_second =
            over(|sample| sample.goodput_after_loss_bits_per_second);
        self.retransmits = over(|sample| Some(sample.retransmits as f64)).unwrap_or(0.0);
        self.congestion_events =
            over(|sample| Some(sample.congestion_events as f64)).unwrap_or(0.0);
    }

    /// Returns what the variants of a scenario are compared by: the goodput after the
    /// loss where there is one, else that of the whole run.
    #[must_use]
    pub fn compared_bits_per_second(&self) -> f64 {
        self.goodput_after_loss_bits_per_second.unwrap_or(self.goodput_bits_per_second)
    }

    /// Segments that were sent again without need: the median, where there were any.
    #[must_use]
    pub fn duplicates(&self) -> Option<f64> {
        let figures = self.figures(Measure::Duplicates, None);
        figures.iter().any(|count| *count > 0.0).then(|| median(figures))
    }

    /// Returns a figure of every run, or of one group of flows in it; those runs that
    /// have none are left out.
    #[must_use]
    pub fn figures(&self, measure: Measure, flow: Option<&str>) -> Vec<f64> {
        let figure = |sample: &Sample| sample.figure(measure, flow, &self.path);
        self.samples.iter().filter_map(figure).collect()
    }
}

impl Sample {
    fn figure(&self, measure: Measure, flow: Option<&str>, path: &Path) -> Option<f64> {
        let flows = flow.map(|name| self.flows.iter().find(|flows| flows.name == name));
        let cuts = |count: fn(&Cuts) -> u64| Some(count(&self.responses?.cuts?) as f64);
        match measure {
            Measure::Goodput => Some(match flows {
                Some(flows) => flows?.goodput_bits_per_second,
                None => self.goodput_bits_per_second,
            }),
            Measure::GoodputAfterLoss => self.goodput_after_loss_bits_per_second,
            Measure::GoodputBeforeBurst => Some(self.recovery.as_ref()?.before_bits_per_second),
            Measure::GoodputAfterBurst => Some(self.recovery.as_ref()?.after_bits_per_second),
            Measure::SecondsAfterBurst => {
                Some(self.recovery.as_ref()?.back_after_seconds.unwrap_or(f64::INFINITY))
            }
            Measure::WindowTaken => Some(self.decrease.as_ref()?.part()),
            Measure::SecondsUntilBack => {
                Some(self.decrease.as_ref()?.back_after_seconds.unwrap_or(f64::INFINITY))
            }
            Measure::ReceiveWindow => Some(self.send_window_bytes as f64),
            Measure::FirstRequest => self.request_seconds.first().copied(),
            Measure::LaterRequests => {
                let (first, later) = self.request_seconds.split_first()?;
                Some(later.iter().copied().reduce(f64::max)? / first)
            }
            Measure::OfPath => Some(self.goodput_bits_per_second / path.carries_bits_per_second),
            Measure::Share => Some(flows??.share_of_fair),
            Measure::Jain => self.jain_index,
            Measure::Retransmits => Some(match flows {
                Some(flows) => flows?.retransmits as f64,
                None => self.retransmits as f64,
            }),
            Measure::Duplicates => Some(*self.tcp_counters.get(DUPLICATES)? as f64),
            Measure::CongestionEvents => Some(self.congestion_events as f64),
            Measure::SlowStartDrops => Some(self.slow_start.drops as f64),
            Measure::FirstDropBdp => Some(match self.slow_start.first_drop_seconds {
                Some(_) => {
                    let cwnd_segments = self.slow_start.cwnd_at_first_drop_segments;
                    // Results of before have 0 where no flow was seen. No window is that.
                    f64::from(cwnd_segments.filter(|segments| *segments > 0)?) / path.bdp_segments()
                }
                None => f64::INFINITY,
            }),
            Measure::Idle => self.idle_share,
            Measure::Tuned => self.tuned_share,
            Measure::Memory => Some(self.memory.as_ref()?.most_of_limit()),
            Measure::UnreadLosses => Some(self.unread?.losses()? as f64),
            Measure::LocalDrops => Some(self.responses?.local_drops as f64),
            Measure::LocalResponses => cuts(|cuts| cuts.local_drops),
            Measure::DropResponses => cuts(|cuts| cuts.network_drops),
            Measure::MarkResponses => cuts(|cuts| cuts.marks),
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns a report of three runs of each variant, made up.
    pub fn report() -> Report {
        let scenario = Scenario::load("aimd-oc12").unwrap();
        let scenario = scenario.only(&["reno".to_owned(), "wad_aimd".to_owned()]).unwrap();
        let mut report = Report::of(&scenario, Client::Own);
        for (variant, base) in report.variants.iter_mut().zip([2e8, 3e8]) {
            for more in [0.0, 5e7, 1e7] {
                variant.add(sample(base + more));
            }
        }
        report
    }

    /// Returns a run at this rate, with one drop when the window was 3000.
    pub fn sample(goodput_bits_per_second: f64) -> Sample {
        let point = |seconds| Point {
            seconds,
            cwnd_segments: 3000,
            rtt_milliseconds: 80.0,
            goodput_bits_per_second,
        };
        Sample {
            seconds: 12.0,
            goodput_bits_per_second,
            goodput_after_3_seconds_bits_per_second: Some(goodput_bits_per_second * 1.1),
            goodput_after_loss_bits_per_second: Some(goodput_bits_per_second * 1.2),
            retransmits: 1,
            congestion_events: 1,
            registered_congestion: "reno".to_owned(),
            sndbuf_bytes: 1,
            rcvbuf_bytes: 1,
            send_window_bytes: 1,
            slow_start: SlowStart {
                left_seconds: Some(1.0),
                drops: 1,
                first_drop_seconds: Some(0.9),
                cwnd_at_first_drop_segments: Some(3000),
            },
            request_seconds: vec![0.5, 0.4, 0.25],
            bpftune_said: vec![],
            decrease: None,
            recovery: None,
            responses: None,
            idle_share: Some(0.4),
            tuned_share: Some(0.0),
            memory: Some(Memory { limit_bytes: 100, held_bytes: vec![40, 90, 20] }),
            unread: None,
            jain_index: None,
            flows: vec![Flows {
                name: "one".to_owned(),
                congestion: "reno".to_owned(),
                goodput_bits_per_second: goodput_bits_per_second / 2.0,
                share_of_fair: 0.5,
                streams_bits_per_second: vec![goodput_bits_per_second / 2.0],
                retransmits: 1,
                series: Vec::new(),
            }],
            tcp_counters: [(DUPLICATES.to_owned(), 1)].into(),
            emulator: Emulator { forward: Counters::default(), reverse: Counters::default() },
            series: vec![point(1.0), point(2.0)],
        }
    }

    #[test]
    fn variants_show_medians() {
        let report = report();
        assert!((report.variants[0].goodput_bits_per_second - 2.1e8).abs() < 1.0);
        assert!((report.variants[1].compared_bits_per_second() - 3.72e8).abs() < 1.0);
    }

    #[test]
    fn what_goes_for_all_paths_is_named_without_them() {
        let mut report = report();
        for (variant, name) in report.variants.iter_mut().zip(["reno-1MB", "reno-9MB"]) {
            (variant.name, variant.base) = (name.to_owned(), "reno".to_owned());
        }
        let all: Vec<&Variant> = report.variants.iter().collect();
        assert_eq!(called(&all, &["reno-9MB", "reno-1MB"]), "reno");
        assert_eq!(called(&all, &["reno-9MB"]), "reno-9MB");
    }

    #[test]
    fn figures_are_of_all_flows_or_of_a_group() {
        let variant = &report().variants[0];
        let first = |measure, flow| variant.figures(measure, flow).first().copied();
        assert_eq!(first(Measure::Goodput, None), Some(2e8));
        assert_eq!(first(Measure::Goodput, Some("one")), Some(1e8));
        assert_eq!(first(Measure::Goodput, Some("two")), None);
        assert_eq!(first(Measure::Share, Some("one")), Some(0.5));
        assert_eq!(first(Measure::LocalResponses, None), None);
        assert_eq!(first(Measure::Duplicates, None), Some(1.0));
        assert_eq!(first(Measure::LaterRequests, None), Some(0.8));
        assert_eq!(first(Measure::Idle, None), Some(0.4));
        assert_eq!(first(Measure::Tuned, None), Some(0.0));
        assert_eq!(first(Measure::Memory, None), Some(0.9));
        assert_eq!(first(Measure::UnreadLosses, None), None);
        let at_drop = first(Measure::FirstDropBdp, None).unwrap();
        assert!((at_drop - 3000.0 / variant.path.bdp_segments()).abs() < 1e-9);
    }

    #[test]
    fn a_first_drop_has_a_window_or_none_and_what_has_no_drop_never_reached_it() {
        let mut report = report();
        let figure = |report: &Report| {
            report.variants[0].figures(Measure::FirstDropBdp, None).first().copied()
        };
        report.variants[0].samples.truncate(1);
        let slow_start = |report: &mut Report, first_drop_seconds, cwnd_at_first_drop_segments| {
            let found = &mut report.variants[0].samples[0].slow_start;
            *found = SlowStart {
                first_drop_seconds,
                cwnd_at_first_drop_segments,
                ..SlowStart::default()
            };
        };
        slow_start(&mut report, None, None);
        assert_eq!(figure(&report), Some(f64::INFINITY));
        for unseen in [None, Some(0)] {
            slow_start(&mut report, Some(0.1), unseen);
            assert_eq!(figure(&report), None);
        }
    }

    #[test]
    fn what_is_untuned_has_as_many_streams() {
        let mut report = report();
        for (variant, (name, streams)) in
            report.variants.iter_mut().zip([("untuned-1", 1), ("untuned-8", 8)])
        {
            (variant.name, variant.base, variant.streams) =
                (name.to_owned(), name.to_owned(), streams);
        }
        let mut tuned = Variant::of(&Scenario::load("aimd-oc12").unwrap().variants[0]);
        let untuned = |tuned: &Variant| report.untuned(tuned)[0].map(|found| found.name.as_str());
        for (streams, expected) in [(1, "untuned-1"), (8, "untuned-8"), (64, "untuned-1")] {
            tuned.streams = streams;
            assert_eq!(untuned(&tuned), Some(expected));
        }
        tuned.path.rtt_seconds *= 2.0;
        assert_eq!(untuned(&tuned), None, "on another path");
    }

    #[test]
    fn json_has_the_promised_names_and_can_be_read_back() {
        let text = serde_json::to_string(&report()).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["scenario"], "aimd-oc12");
        assert_eq!(json["path"]["rate_bits_per_second"], 622_000_000);
        let variant = &json["variants"][1];
        assert_eq!(variant["name"], "wad_aimd");
        for name in [
            "congestion",
            "streams",
            "goodput_bits_per_second",
            "retransmits",
            "settings",
            "samples",
        ] {
            assert!(!variant[name].is_null(), "{name}");
        }
        let back: Report = serde_json::from_str(&text).unwrap();
        assert_eq!(back.variants[1].samples.len(), 3);
    }
}
