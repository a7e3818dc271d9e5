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
    /// As ss saw it at the sender, but for the suffix of an instance.
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
    /// Of the busiest flow: its algorithm exactly as ss has it, the kernel's
    /// limits of its buffers, and the peer's largest window.
    pub registered_congestion: String,
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

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::lab::scenario::Scenario;

    /// A report of three runs of each variant, made up.
    pub fn report() -> Report {
        let scenario = Scenario::load("aimd-oc12").unwrap();
        let mut variants: Vec<_> = scenario.variants.iter().map(Variant::of).collect();
        for (variant, base) in variants.iter_mut().zip([2e8, 3e8]) {
            variant.congestion = "reno".to_owned();
            for more in [0.0, 5e7, 1e7] {
                variant.add(sample(base + more));
            }
        }
        Report {
            scenario: scenario.name,
            paper: scenario.paper,
            client: "own",
            seconds: scenario.seconds,
            path: Path::of(&scenario.path),
            variants,
        }
    }

    fn sample(goodput_bits_per_second: f64) -> Sample {
        let point = |seconds| Point {
            seconds,
            cwnd_segments: 3000,
            rtt_milliseconds: 80.0,
            goodput_bits_per_second,
        };
        Sample {
            goodput_bits_per_second,
            goodput_after_3_seconds_bits_per_second: goodput_bits_per_second * 1.1,
            goodput_after_loss_bits_per_second: Some(goodput_bits_per_second * 1.2),
            retransmits: 1,
            registered_congestion: "reno".to_owned(),
            sndbuf_bytes: 1,
            rcvbuf_bytes: 1,
            send_window_bytes: 1,
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
    fn json_has_the_promised_names() {
        let json = serde_json::to_value(report()).unwrap();
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
    }
}
