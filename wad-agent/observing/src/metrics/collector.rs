//! Readings turned into samples, as prometheus-client asks for them.

mod host;
mod parts;
mod series;

use std::{fmt, time::SystemTime};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _, MetricEncoder, NoLabelSet},
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
        parts::pods(&self.readings, &mut encoder)?;
        parts::sinks(&self.readings, &mut encoder)?;
        parts::traces(&self.readings, &mut encoder)?;
        parts::otlp(&self.readings, &mut encoder)?;
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        version.encode(descriptor(&mut encoder, &BUILD, MetricType::Info)?)?;
        time(self.started).encode(descriptor(&mut encoder, &START, MetricType::Gauge)?)
    }
}

/// A clock before 1970 would make a strange time, not a failed scrape.
fn time(at: SystemTime) -> ConstGauge<f64> {
    ConstGauge::new(at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64())
}

fn histogram(family: &mut MetricEncoder, bounds: &[f64], of: &Histogram) -> fmt::Result {
    let bounds = bounds.iter().copied().chain([f64::INFINITY]);
    let buckets: Vec<_> = bounds.zip(of.buckets.iter().copied()).collect();
    family.encode_histogram::<NoLabelSet>(of.sum, of.count(), &buckets, None)
}

fn descriptor<'e>(
    encoder: &'e mut DescriptorEncoder<'_>,
    definition: &'e Definition,
    kind: MetricType,
) -> Result<MetricEncoder<'e>, fmt::Error> {
    encoder.encode_descriptor(definition.name, definition.help, definition.unit.as_ref(), kind)
}
