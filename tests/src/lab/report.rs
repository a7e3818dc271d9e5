//! What an experiment found, as `wad-lab run --json` prints it. Units are in the
//! names.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{emulator::Counters, measure::median, scenario, settings::UNTUNED_WINDOW_BYTES};

/// A scenario's result.
#[derive(Debug, Serialize)]
pub struct Report {
    pub scenario: String,
    #[serde(skip)]
    pub paper: Option<String>,
    pub client: &'static str,
    pub seconds: u32,
    pub path: Path,
    pub variants: Vec<Variant>,
}

/// The path, worked out.
#[derive(Debug, Serialize)]
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
#[derive(Debug, Serialize)]
pub struct Variant {
    pub name: String,
    /// As ss saw it at the sender.
    pub congestion: String,
    pub streams: u32,
    pub goodput_bits_per_second: f64,
    pub goodput_after_3_seconds_bits_per_second: f64,
    /// In the 10 s after the first planned drop.
    pub goodput_after_loss_bits_per_second: Option<f64>,
    pub retransmits: f64,
    /// In force while it ran.
    pub settings: BTreeMap<&'static str, String>,
    pub samples: Vec<Sample>,
}

/// One run.
#[derive(Debug, Serialize)]
pub struct Sample {
    pub goodput_bits_per_second: f64,
    pub goodput_after_3_seconds_bits_per_second: f64,
    pub goodput_after_loss_bits_per_second: Option<f64>,
    pub retransmits: u64,
    /// Of the busiest flow: the kernel's limits, and the peer's largest window.
    pub sndbuf_bytes: u64,
    pub rcvbuf_bytes: u64,
    pub send_window_bytes: u64,
    pub emulator: Emulator,
    pub series: Vec<Point>,
}

/// What the emulated path did: with the data, and with the acknowledgements.
#[derive(Debug, Serialize)]
pub struct Emulator {
    pub forward: Counters,
    pub reverse: Counters,
}

/// The flows of one sample at one time; windows are sums over the streams.
#[derive(Debug, Serialize)]
pub struct Point {
    pub seconds: f64,
    pub cwnd_segments: u32,
    pub rtt_milliseconds: f64,
    /// Since the point before.
    pub goodput_bits_per_second: f64,
}

impl Path {
    #[must_use]
    pub fn of(path: &scenario::Path) -> Self {
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
}

impl Variant {
    /// A variant that has not run yet.
    #[must_use]
    pub fn of(variant: &scenario::Variant) -> Self {
        Self {
            name: variant.name.clone(),
            congestion: String::new(),
            streams: variant.streams,
            goodput_bits_per_second: 0.0,
            goodput_after_3_seconds_bits_per_second: 0.0,
            goodput_after_loss_bits_per_second: None,
            retransmits: 0.0,
            settings: BTreeMap::new(),
            samples: Vec::new(),
        }
    }

    /// Adds a run; the medians follow.
    pub fn add(&mut self, sample: Sample) {
        self.samples.push(sample);
        let over = |value: fn(&Sample) -> f64| median(self.samples.iter().map(value));
        self.goodput_bits_per_second = over(|sample| sample.goodput_bits_per_second);
        self.goodput_after_3_seconds_bits_per_second =
            over(|sample| sample.goodput_after_3_seconds_bits_per_second);
        self.retransmits = over(|sample| sample.retransmits as f64);
        let after_loss: Vec<f64> = self
            .samples
            .iter()
            .filter_map(|sample| sample.goodput_after_loss_bits_per_second)
            .collect();
        self.goodput_after_loss_bits_per_second =
            (!after_loss.is_empty()).then(|| median(after_loss));
    }

    /// What the variants of a scenario are compared by: the goodput after the
    /// loss where there is one, else that of the whole run.
    #[must_use]
    pub fn compared_bits_per_second(&self) -> f64 {
        self.goodput_after_loss_bits_per_second.unwrap_or(self.goodput_bits_per_second)
    }
}
