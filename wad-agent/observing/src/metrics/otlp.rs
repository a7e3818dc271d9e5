//! OTLP: the page of metrics as requests of the OpenTelemetry protocol, and what a service
//! answers to them.
//!
//! The page is turned over line by line, so that nothing on it can be missing, under the
//! names and with the units that the OpenTelemetry specification has for Prometheus' metrics
//! ("Prometheus and OpenMetrics Compatibility"): a series keeps its name whole.

mod answer;
mod sample;
#[cfg(test)]
mod tests;

use std::{
    collections::HashSet,
    fmt,
    str::Lines,
    time::{Duration, SystemTime},
};

use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsServiceRequest,
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value},
    metrics::v1::{
        AggregationTemporality::Cumulative, Gauge, Histogram, HistogramDataPoint, Metric,
        NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, metric::Data,
        number_data_point::Value,
    },
    resource::v1::Resource,
};
use prost::Message as _;

#[cfg(feature = "fuzz")]
pub use self::answer::fuzz;
pub use self::answer::{NoAnswer, PartialSuccess, partial_success, reason};
use self::sample::Sample;
use super::{Format, Readings, definitions, encode};

/// The type of what is sent and answered.
pub const CONTENT_TYPE: &str = "application/x-protobuf";

/// Points of a request: some 2 MB. Collectors take 20 MiB, unless they are told otherwise.
const POINTS_AT_ONCE: usize = 10_000;

/// Says whose metrics they are, by the semantic conventions of OpenTelemetry.
#[derive(Clone, Debug)]
pub struct Origin {
    pub host: String,
    pub instance: String,
}

/// Says why readings are no requests.
#[derive(Debug, thiserror::Error)]
pub enum OtlpError {
    #[error("cannot write the metrics")]
    Write(#[from] fmt::Error),
    #[error("a line of the metrics is none: {line}")]
    Line { line: String },
}

/// The metrics of one moment, as a page that requests are made of.
pub struct Export {
    page: String,
    resource: Resource,
    times: Times,
}

/// Times in nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug)]
struct Times {
    now: u64,
    /// The start of the agent, with which its own counts begin.
    started: u64,
    /// Since when the kernel counts, for one agent after the other.
    counting: u64,
}

impl Export {
    pub fn new(
        readings: Readings,
        max_paths: usize,
        started: SystemTime,
        origin: &Origin,
    ) -> Result<Self, OtlpError> {
        let now = SystemTime::now();
        let counting = readings.counting_since.unwrap_or(started);
        // A clock that was set back makes no series that begins in the future.
        let nanoseconds = |at: SystemTime| {
            let since = at.min(now).duration_since(SystemTime::UNIX_EPOCH);
            u64::try_from(since.unwrap_or(Duration::ZERO).as_nanos()).unwrap_or(u64::MAX)
        };
        let times = Times {
            now: nanoseconds(now),
            started: nanoseconds(started),
            counting: nanoseconds(counting),
        };
        let page = encode(readings, max_paths, started, Format::OpenMetrics)?;
        Ok(Self { page, resource: resource(origin), times })
    }

    /// Returns the requests that all of the page comes to.
    pub fn requests(&self) -> Requests<'_> {
        Requests {
            export: self,
            lines: self.page.lines(),
            family: Family::default(),
            of_kernel: definitions::counted_by_the_kernel().collect(),
        }
    }
}

fn resource(origin: &Origin) -> Resource {
    let Origin { host, instance } = origin;
    let attributes = [
        ("service.name", "wad"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", &format!("{host}/{instance}")),
        ("host.name", host),
    ];
    let attributes = attributes.map(|(key, value)| attribute(key, value.to_owned()));
    Resource { attributes: attributes.to_vec(), ..Resource::default() }
}

fn attribute(key: &str, value: String) -> KeyValue {
    let value = AnyValue { value: Some(any_value::Value::StringValue(value)) };
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

/// The requests are made one after the other: all of them at once would take ten times the
/// room of the page.
pub struct Requests<'e> {
    export: &'e Export,
    lines: Lines<'e>,
    family: Family<'e>,
    /// Families that the kernel counts.
    of_kernel: HashSet<String>,
}

/// The family is what the page says of the samples that follow.
#[derive(Clone, Copy, Default)]
struct Family<'e> {
    name: &'e str,
    help: &'e str,
    kind: &'e str,
    unit: &'e str,
}

impl Iterator for Requests<'_> {
    /// A request as it is sent.
    type Item = Result<Vec<u8>, OtlpError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.metrics() {
            Ok(metrics) if metrics.is_empty() => None,
            Ok(metrics) => Some(Ok(self.request(metrics).encode_to_vec())),
            Err(line) => Some(Err(OtlpError::Line { line: line.to_owned() })),
        }
    }
}

impl<'e> Requests<'e> {
    fn request(&self, metrics: Vec<Metric>) -> ExportMetricsServiceRequest {
        let scope = InstrumentationScope {
            name: "wad".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let metrics = ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() };
        let resource = Some(self.export.resource.clone());
        let metrics =
            ResourceMetrics { resource, scope_metrics: vec![metrics], ..Default::default() };
        ExportMetricsServiceRequest { resource_metrics: vec![metrics] }
    }

    /// Returns what comes next on the page, up to so many points; where there is a line that
    /// cannot be, that.
    fn metrics(&mut self) -> Result<Vec<Metric>, &'e str> {
        let mut metrics: Vec<Metric> = Vec::new();
        let mut is_new = true;
        for _ in 0..POINTS_AT_ONCE {
            let Some((line, sample)) = self.next_sample(&mut is_new)? else { break };
            if is_new {
                metrics.push(self.metric(sample.name).ok_or(line)?);
                is_new = false;
            }
            let metric = metrics.last_mut().expect("it was just made");
            self.add(sample, metric).ok_or(line)?;
        }
        Ok(metrics)
    }

    /// Reads as far as the next sample, and notes whether it is one of another family.
    fn next_sample(&mut self, is_new: &mut bool) -> Result<Option<(&'e str, Sample<'e>)>, &'e str> {
        for line in self.lines.by_ref() {
            let Some(comment) = line.strip_prefix("# ") else {
                return Sample::read(line).map(|sample| Some((line, sample))).ok_or(line);
            };
            let mut words = comment.splitn(3, ' ');
            match (words.next(), words.next(), words.next()) {
                (Some("HELP"), Some(name), help) => {
                    *is_new = true;
                    self.family =
                        Family { name, help: help.unwrap_or_default(), kind: "", unit: "" };
                }
                (Some("TYPE"), _, Some(kind)) => self.family.kind = kind,
                (Some("UNIT"), _, Some(unit)) => self.family.unit = unit,
                (Some("EOF"), None, None) => {}
                _ => return Err(line),
            }
        }
        Ok(None)
    }

    /// Begins a metric of this family, whose first sample has this name.
    fn metric(&self, sample: &str) -> Option<Metric> {
        let sum = |is_monotonic| {
            let aggregation_temporality = Cumulative.into();
            Data::Sum(Sum { is_monotonic, aggregation_temporality, ..Sum::default() })
        };
        let (name, data) = match self.family.kind {
            "counter" => (sample, sum(true)),
            "info" => (sample, sum(false)),
            "gauge" => (sample, Data::Gauge(Gauge::default())),
            "histogram" => {
                let aggregation_temporality = Cumulative.into();
                let of = Histogram { aggregation_temporality, ..Histogram::default() };
                (self.family.name, Data::Histogram(of))
            }
            _ => return None,
        };
        Some(Metric {
            name: name.to_owned(),
            description: self.family.help.to_owned(),
            unit: ucum(self.family.unit).to_owned(),
            data: Some(data),
            ..Metric::default()
        })
    }

    /// Adds the point that begins with this sample.
    fn add(&mut self, sample: Sample<'e>, metric: &mut Metric) -> Option<()> {
        let Times { now, .. } = self.export.times;
        let start = self.start();
        let point = |start_time_unix_nano, sample: Sample<'_>| {
            Some(NumberDataPoint {
                start_time_unix_nano,
                time_unix_nano: now,
                value: Some(number(sample.value)?),
                attributes: sample.attributes(),
                ..NumberDataPoint::default()
            })
        };
        match metric.data.as_mut()? {
            Data::Sum(sum) => sum.data_points.push(point(start, sample)?),
            Data::Gauge(gauge) => gauge.data_points.push(point(0, sample)?),
            Data::Histogram(histogram) => {
                let point = self.histogram(&sample)?;
                histogram.data_points.push(HistogramDataPoint {
                    start_time_unix_nano: start,
                    time_unix_nano: now,
                    attributes: sample.attributes(),
                    ..point
                });
            }
            _ => return None,
        }
        Some(())
    }

    /// Reads the rest of a histogram, of which this is the sum: the count, and a sample for
    /// each bucket, in which those before it are counted too.
    fn histogram(&mut self, sum: &Sample<'_>) -> Option<HistogramDataPoint> {
        sum.name.strip_suffix("_sum")?;
        let count = Sample::read(self.lines.next()?)?;
        count.name.strip_suffix("_count")?;
        let mut point = HistogramDataPoint {
            sum: Some(sum.value.parse().ok()?),
            count: count.value.parse().ok()?,
            ..HistogramDataPoint::default()
        };
        let mut below = 0;
        loop {
            let bucket = Sample::read(self.lines.next()?)?;
            bucket.name.strip_suffix("_bucket")?;
            let up_to: u64 = bucket.value.parse().ok()?;
            point.bucket_counts.push(up_to.checked_sub(below)?);
            below = up_to;
            match bucket.label("le")? {
                "+Inf" => return Some(point),
                bound => point.explicit_bounds.push(bound.parse().ok()?),
            }
        }
    }

    /// Returns when the counts of this family began.
    fn start(&self) -> u64 {
        let Times { started, counting, .. } = self.export.times;
        if self.of_kernel.contains(self.family.name) { counting } else { started }
    }
}

/// Reads a value: what is counted is whole.
fn number(text: &str) -> Option<Value> {
    match text.parse() {
        Ok(whole) => Some(Value::AsInt(whole)),
        Err(_) => text.parse().ok().map(Value::AsDouble),
    }
}

/// Returns the unit as the Unified Code for Units of Measure has it.
fn ucum(unit: &str) -> &str {
    match unit {
        "bytes" => "By",
        "seconds" => "s",
        other => other,
    }
}
