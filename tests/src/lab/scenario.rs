//! Experiments as TOML files: a path, and variants of what runs over it.

use std::{fs, io, path::PathBuf};

use serde::Deserialize;

use super::{
    delay_line::DelayLaw,
    emulator::DirectionLaw,
    link::LinkLaw,
    losses::LossLaw,
    units::{Rate, Span},
};

/// IPv4 and TCP headers with the timestamps option, per segment.
const HEADER_BYTES: u32 = 52;

/// A scenario that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    #[error("cannot read {path}", path = path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}: {source}", path = path.display())]
    Parse { path: PathBuf, source: toml::de::Error },
    #[error("{path}: {reason}", path = path.display())]
    Invalid { path: PathBuf, reason: &'static str },
    #[error("no scenario \"{name}\"; there are: {known}")]
    Unknown { name: String, known: String },
}

/// An experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The file's name without its ending.
    #[serde(skip)]
    pub name: String,
    pub description: String,
    /// What the papers saw in a like case.
    pub paper: Option<String>,
    /// How long each transfer runs.
    pub seconds: u32,
    pub path: Path,
    #[serde(rename = "variant")]
    pub variants: Vec<Variant>,
}

/// One way of running the transfer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    pub name: String,
    /// Connections at a time.
    #[serde(default = "one")]
    pub streams: u32,
    /// Configuration of `wad`, but for `[agent]` and `[metrics]`; without it no
    /// agent runs.
    pub policy: Option<String>,
}

/// The path from the sender to the receiver and back.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// Without queues; each direction takes half of it.
    pub rtt: Span,
    #[serde(default = "ethernet_mtu")]
    pub mtu: u32,
    /// Of everything random.
    #[serde(default)]
    pub seed: u64,
    /// With the data.
    pub forward: Direction,
    /// With the acknowledgements: the same rate and queue, nothing lost, unless
    /// it is given.
    pub reverse: Option<Direction>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Direction {
    pub rate: Rate,
    pub queue: Queue,
    /// Up to so much more delay; packets stay in order.
    #[serde(default)]
    pub jitter: Span,
    /// Random loss: a probability.
    #[serde(default)]
    pub loss: f64,
    /// Packets with data to drop, counted from 1.
    #[serde(default)]
    pub drop_data_packets: Vec<u64>,
    /// Times after the first packet with data, at each of which one is dropped.
    #[serde(default)]
    pub drop_at: Vec<Span>,
    pub reorder: Option<Reorder>,
}

/// Most that waits at the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Queue {
    /// Multiples of the rate times the RTT.
    Bdp(f64),
    /// Packets of the path's MTU.
    Packets(u32),
    Bytes(u64),
}

/// Some packets are held back and overtaken.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    pub probability: f64,
    pub by: Span,
}

const fn one() -> u32 {
    1
}

const fn ethernet_mtu() -> u32 {
    1500
}

impl Path {
    /// The laws of both directions.
    #[must_use]
    pub fn laws(&self) -> [DirectionLaw; 2] {
        let forward = self.law(&self.forward, self.seed);
        let reverse = match &self.reverse {
            Some(reverse) => self.law(reverse, self.seed ^ 1),
            None => DirectionLaw {
                losses: LossLaw::default(),
                delay: DelayLaw { delay_ns: self.rtt.nanoseconds() / 2, ..DelayLaw::default() },
                ..forward.clone()
            },
        };
        [forward, reverse]
    }

    fn law(&self, direction: &Direction, seed: u64) -> DirectionLaw {
        DirectionLaw {
            link: LinkLaw {
                rate_bits_per_second: direction.rate.bits_per_second,
                queue_limit_bytes: self.queue_bytes(direction),
            },
            losses: LossLaw {
                probability: direction.loss,
                data_packets: direction.drop_data_packets.clone(),
                after_ns: direction.drop_at.iter().map(|span| span.nanoseconds()).collect(),
            },
            delay: DelayLaw {
                delay_ns: self.rtt.nanoseconds() / 2,
                jitter_ns: direction.jitter.nanoseconds(),
                reorder_probability: direction.reorder.map_or(0.0, |law| law.probability),
                reorder_ns: direction.reorder.map_or(0, |law| law.by.nanoseconds()),
            },
            seed,
        }
    }

    /// Most bytes that wait before the bottleneck of a direction.
    #[must_use]
    pub fn queue_bytes(&self, direction: &Direction) -> u64 {
        match direction.queue {
            Queue::Bdp(multiple) => {
                let rate = direction.rate.bits_per_second as f64;
                (multiple * rate / 8.0 * self.rtt.0.as_secs_f64()) as u64
            }
            Queue::Packets(packets) => u64::from(packets) * u64::from(self.mtu),
            Queue::Bytes(bytes) => bytes,
        }
    }

    /// Bandwidth-delay product of the way with the data, headers included.
    #[must_use]
    pub fn bdp_bytes(&self) -> u64 {
        let rate = self.forward.rate.bits_per_second as f64;
        (rate / 8.0 * self.rtt.0.as_secs_f64()) as u64
    }

    /// The most that an application can get: the rate less the headers.
    #[must_use]
    pub fn carries_bits_per_second(&self) -> f64 {
        let payload = self.mtu.saturating_sub(HEADER_BYTES);
        self.forward.rate.bits_per_second as f64 * f64::from(payload) / f64::from(self.mtu)
    }

    /// Whether packets are dropped by plan.
    #[must_use]
    pub fn has_planned_drops(&self) -> bool {
        !(self.forward.drop_data_packets.is_empty() && self.forward.drop_at.is_empty())
    }
}

impl Scenario {
    /// The scenario of this name.
    ///
    /// # Errors
    /// When there is none, or its file is not valid.
    pub fn load(name: &str) -> Result<Self, ScenarioError> {
        let names = Self::names()?;
        if !names.iter().any(|known| known == name) {
            let known = names.join(", ");
            return Err(ScenarioError::Unknown { name: name.to_owned(), known });
        }
        let path = folder().join(format!("{name}.toml"));
        match fs::read_to_string(&path) {
            Ok(text) => Self::parse(name, &path, &text),
            Err(source) => Err(ScenarioError::Read { path, source }),
        }
    }

    /// The names of all scenarios, sorted.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn names() -> Result<Vec<String>, ScenarioError> {
        let folder = folder();
        let failed = |source| ScenarioError::Read { path: folder.clone(), source };
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let file = entry.map_err(failed)?.file_name();
            names.extend(file.to_string_lossy().strip_suffix(".toml").map(str::to_owned));
        }
        names.sort_unstable();
        Ok(names)
    }

    fn parse(name: &str, path: &std::path::Path, text: &str) -> Result<Self, ScenarioError> {
        let mut scenario: Self = toml::from_str(text)
            .map_err(|source| ScenarioError::Parse { path: path.to_owned(), source })?;
        name.clone_into(&mut scenario.name);
        match scenario.fault() {
            Some(reason) => Err(ScenarioError::Invalid { path: path.to_owned(), reason }),
            None => Ok(scenario),
        }
    }

    fn fault(&self) -> Option<&'static str> {
        let directions = std::iter::once(&self.path.forward).chain(&self.path.reverse);
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        for direction in directions {
            if !is_share(direction.loss)
                || !direction.reorder.is_none_or(|law| is_share(law.probability))
            {
                return Some("a probability is a number from 0 to 1");
            }
            if matches!(direction.queue, Queue::Bdp(multiple) if !(0.0..=100.0).contains(&multiple))
            {
                return Some("queue.bdp is a number from 0 to 100");
            }
        }
        if !(576..=65_535).contains(&self.path.mtu) {
            return Some("mtu is a number from 576 to 65535");
        }
        if self.variants.is_empty() || self.variants.iter().any(|variant| variant.streams == 0) {
            return Some("at least one variant, with at least one stream, is needed");
        }
        (self.seconds < 5).then_some("seconds is at least 5: the first 3 are shown apart")
    }
}

/// Where the files are: in the source tree.
fn folder() -> PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("lab/scenarios")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_scenarios_are_valid() {
        let names = Scenario::names().unwrap();
        for needed in ["aimd-oc12", "buffers-oc12", "datatag"] {
            assert!(names.iter().any(|name| name == needed), "{needed}");
        }
        for name in names {
            let scenario = Scenario::load(&name).unwrap();
            assert_eq!(scenario.name, name);
        }
    }

    #[test]
    fn an_oc12_is_what_it_says() {
        let path = Scenario::load("buffers-oc12").unwrap().path;
        assert_eq!(path.bdp_bytes(), 5_442_500);
        assert!((path.carries_bits_per_second() - 600_437_333.3).abs() < 1.0);
        let [forward, reverse] = path.laws();
        assert_eq!((forward.delay.delay_ns, reverse.delay.delay_ns), (35_000_000, 35_000_000));
    }

    #[test]
    fn errors_name_the_file_and_the_key() {
        let error = |text: &str| {
            Scenario::parse("x", std::path::Path::new("x.toml"), text).unwrap_err().to_string()
        };
        let text = "description = \"\"\nseconds = 9\nspeed = 1\n";
        assert!(error(text).starts_with("x.toml: ") && error(text).contains("speed"));
        let text = "description = ''\nseconds = 9\nvariant = [{ name = 'a' }]\n\
                    path.rtt = '1ms'\npath.forward = { rate = '1Mbit', queue.bdp = 1, loss = 2 }";
        assert_eq!(error(text), "x.toml: a probability is a number from 0 to 1");
        let missing = Scenario::load("nothing").unwrap_err().to_string();
        assert!(missing.contains("buffers-oc12"), "{missing}");
    }
}
