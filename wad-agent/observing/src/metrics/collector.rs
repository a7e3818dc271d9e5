//! Readings turned into samples, as prometheus-client asks for them.

mod host;
mod parts;
mod series;

use std::{fmt, time::SystemTime};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::{MetricType, gauge::ConstGauge, info::Info},
};

use self::{host::host, series::Series};
use super::{
    Readings,
    definitions::{BUILD, Definition, HOST, PATH, START},
    ends::Histogram,
};

/// The label of the sum of all paths that have no series of their own.
const OTHER: &str = "other";

/// Holds one scrape.
#[derive(Debug)]
pub struct Scrape {
    pub readings: Readings,
    pub max_paths: usize,
    pub started: SystemTime,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let series = Series::new(&self.readings, self.max_paths);
        for metric in PATH {
            series.encode(metric, &mut encoder)?;
        }
        series.encode_derived(&self.readings, &mut encoder)?;
        for metric in HOST {
            host(metric, &self.readings, &mut encoder)?;
        }
        parts::sources(&self.readings, &mut encoder)?;
        parts::sets(&self.readings, &mut encoder)?;
        parts::experiments(&self.readings, &mut encoder)?;
        parts::guards(&self.readings, self.max_paths, &mut encoder)?;
        parts::pods(&self.readings, &mut encoder)?;
        parts::sinks(&self.readings, &mut encoder)?;
        parts::traces(&self.readings, &mut encoder)?;
        parts::otlp(&self.readings, &mut encoder)?;
        parts::peers(&self.readings, &mut encoder)?;
        parts::page(&self.readings, &mut encoder)?;
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        single(&mut encoder, &BUILD, version)?;
        single(&mut encoder, &START, time(self.started))
    }
}

/// A clock before 1970 would make a strange time, not a failed scrape.
fn time(at: SystemTime) -> ConstGauge<f64> {
    ConstGauge::new(at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64())
}

/// Encodes a family with a series for each value, told apart by a label. A family has at least
/// one series: there is none where there is no value.
pub fn family<'v>(
    encoder: &mut DescriptorEncoder<'_>,
    definition: &Definition,
    label: &str,
    values: impl IntoIterator<Item = (&'v str, impl EncodeMetric)>,
) -> fmt::Result {
    let mut values = values.into_iter().peekable();
    let Some((_, first)) = values.peek() else { return Ok(()) };
    let mut family = descriptor(encoder, definition, first.metric_type())?;
    values.try_for_each(|(name, value)| value.encode(family.encode_family(&[(label, name)])?))
}

/// Encodes a metric that has one value.
pub fn single(
    encoder: &mut DescriptorEncoder<'_>,
    definition: &Definition,
    value: impl EncodeMetric,
) -> fmt::Result {
    let kind = value.metric_type();
    value.encode(descriptor(encoder, definition, kind)?)
}

fn histogram(family: &mut MetricEncoder, bounds: &[f64], of: &Histogram) -> fmt::Result {
    let bounds = bounds.iter().copied().chain([f64::INFINITY]);
    let buckets: Vec<_> = bounds.zip(of.buckets.iter().copied()).collect();
    family.encode_histogram::<NoLabelSet>(of.sum, of.count(), &buckets, None)
}

/// Begins a family.
pub fn descriptor<'e>(
    encoder: &'e mut DescriptorEncoder<'_>,
    definition: &'e Definition,
    kind: MetricType,
) -> Result<MetricEncoder<'e>, fmt::Error> {
    encoder.encode_descriptor(definition.name, definition.help, definition.unit.as_ref(), kind)
}
