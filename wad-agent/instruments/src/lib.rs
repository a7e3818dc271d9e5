//! Instruments are what TCP knows of the flows of the paths, in the words of RFC
//! 4898: the numbers that Web100 showed, read from the kernel's own structs.

pub mod ends;
mod field;
mod fields;
pub mod name;
mod owner;
mod seen;
mod span;
mod standard;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod without_equal;

use std::{borrow::Cow, collections::BTreeMap, fmt, net::SocketAddr, sync::Arc};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeMap as _};
use wad_common::law::ShownPhase;
use wad_toolbox::refusals::RefusedSetting;

pub use self::{
    fields::{FieldError, Fields},
    owner::{Owner, Place, PodNames, pod_of_cgroup},
    seen::{Origin, Seen},
    span::Span,
    standard::STANDARD,
    without_equal::WITHOUT_EQUAL,
};

/// A unit is what a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Octets,
    Segments,
    Seconds,
    Milliseconds,
    Microseconds,
    OctetsPerSecond,
    /// How often something happened.
    Events,
    /// A number without a unit, or one whose unit is not known.
    Number,
}

/// Says how a number behaves over a flow's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// Returns the phase that a value of the instrument `Phase` stands for.
#[must_use]
pub fn phase(value: f64) -> Option<ShownPhase> {
    ShownPhase::ALL.into_iter().find(|phase| f64::from(*phase as u8) == value)
}

/// One number that TCP has of each flow.
#[derive(Debug)]
pub struct Instrument {
    /// The name as in RFC 4898, without its prefix (`tcpEStatsPerf`, `tcpEStatsPath`,
    /// ...).
    pub name: &'static str,
    pub unit: Unit,
    pub kind: Kind,
    /// A description of it in one line, with what differs from the RFC.
    pub about: &'static str,
    pub origin: Origin,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Octets => "octets",
            Self::Segments => "segments",
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::Microseconds => "us",
            Self::OctetsPerSecond => "octets/s",
            Self::Events => "events",
            Self::Number => "-",
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        })
    }
}

/// All flows at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reading {
    pub time: Timestamp,
    pub flows: Vec<Flow>,
}

/// Holds one flow. Of thousands that are read each second, the texts are shared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flow {
    /// The socket's, as `ss -e` shows it (sk:, there hexadecimal). No other socket
    /// has it until the host is booted again.
    pub cookie: u64,
    /// Inode of its network namespace, as `lsns` shows it.
    pub netns: u64,
    /// The name of its path; empty for a connection on none.
    pub path: Arc<str>,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Who opened it: "connected", "accepted", "running" (found by the agent).
    pub role: Cow<'static, str>,
    /// The outcome of it: "tuned", "untuned", "observed", "too_many", or "no_path".
    pub outcome: Cow<'static, str>,
    /// Settings that the kernel refused of what its policy asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedSetting>,
    /// Congestion control that it has now.
    pub congestion: Arc<str>,
    #[serde(default)]
    pub owner: Owner,
    #[schemars(with = "BTreeMap<String, Option<f64>>")]
    pub instruments: Values,
}

/// Instruments by their names, in the order in which they were asked for: the
/// standard ones, then fields of `tcp_sock`. None where there is no value, as for
/// a slow start threshold that is infinite.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    /// The names, the same for all flows of a reading.
    names: Arc<[String]>,
    values: Vec<Option<f64>>,
}

impl Values {
    /// Takes as many values as there are names.
    pub fn new(names: Arc<[String]>, values: impl IntoIterator<Item = Option<f64>>) -> Self {
        /// Room for values that are added: else all of them would move.
        const ROOM: usize = 8;
        let mut all = Vec::with_capacity(names.len() + ROOM);
        all.extend(values);
        debug_assert_eq!(names.len(), all.len());
        Self { names, values: all }
    }

    /// Returns the value by its name; None where it is not among them, or has no
    /// value.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        self.iter().find(|(own, _)| *own == name)?.1
    }

    /// Whether it is among them, with a value or without.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|own| own == name)
    }

    /// Returns the names of its values.
    #[must_use]
    pub const fn names(&self) -> &Arc<[String]> {
        &self.names
    }

    /// Makes room for others behind its own: these names begin with those.
    pub fn widen(&mut self, names: Arc<[String]>) {
        debug_assert!(names.starts_with(&self.names));
        self.names = names;
    }

    /// Adds the next value for which there is a name.
    pub fn push(&mut self, value: Option<f64>) {
        debug_assert!(self.values.len() < self.names.len());
        self.values.push(value);
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<f64>)> {
        self.names.iter().map(String::as_str).zip(self.values.iter().copied())
    }
}

impl Default for Values {
    fn default() -> Self {
        Self { names: Arc::new([]), values: Vec::new() }
    }
}

impl<N: Into<String>> FromIterator<(N, Option<f64>)> for Values {
    fn from_iter<I: IntoIterator<Item = (N, Option<f64>)>>(values: I) -> Self {
        let (names, values): (Vec<_>, Vec<_>) =
            values.into_iter().map(|(name, value)| (name.into(), value)).unzip();
        Self::new(names.into(), values)
    }
}

/// A number as it is shown to programs: a whole one without a point.
#[derive(Serialize)]
#[serde(untagged)]
enum Shown {
    Whole(i64),
    Real(f64),
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Whole numbers up to here are exact.
        const EXACT: f64 = (1_u64 << 53) as f64;
        let mut map = serializer.serialize_map(Some(self.values.len()))?;
        for (name, value) in self.iter() {
            let shown = value.map(|value| {
                if value.fract() == 0.0 && value.abs() <= EXACT {
                    Shown::Whole(value as i64)
                } else {
                    Shown::Real(value)
                }
            });
            map.serialize_entry(name, &shown)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Values;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("instruments by name")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Values, A::Error> {
                let mut values: Vec<(String, _)> = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    values.push(entry);
                }
                Ok(values.into_iter().collect())
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::Values;

    #[test]
    fn values_keep_their_order_and_whole_numbers_have_no_point() {
        let values: Values =
            [("B", Some(3.0)), ("A", None), ("C", Some(0.25))].into_iter().collect();
        let text = serde_json::to_string(&values).unwrap();
        assert_eq!(text, r#"{"B":3,"A":null,"C":0.25}"#);
        assert_eq!(serde_json::from_str::<Values>(&text).unwrap(), values);
        assert_eq!((values.get("B"), values.get("A"), values.get("D")), (Some(3.0), None, None));
    }
}
