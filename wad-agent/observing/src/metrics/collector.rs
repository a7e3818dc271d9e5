//! Readings turned into samples, as prometheus-client asks for them.

use std::{fmt, time::SystemTime};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge, info::Info},
};
use wad_common::stats::PathStats;
use wad_toolbox::shortage::Shortage;
use wad_tuning::{attachment::Part, readings::ProgramRuns};

use super::{
    Ended, PathNow, PathReading, PathState, Readings, Seconds, TraceReading,
    definitions::{
        BUILD, DERIVED, Definition, EVENTS, HOST, HostMetric, HostValue, OTLP_EXPORTS,
        OTLP_REJECTED, OTLP_SUCCESS, PATH, PODS_ADOPTED, PODS_FAILING, PODS_FLOWS, PODS_KNOWN,
        PathMetric, PathValue, SET_FAILING, SET_PREFIXES, SET_READ, SINK_LOST, SINK_REFUSED,
        SINK_SENT, SINK_SPOOLED, SOURCE_ERRORS, SOURCE_POLLS, SOURCE_REFUSED, SOURCE_SUCCESS,
        START, TRACE_FAILING, TRACE_LINES, TRACE_LOST, TRACE_MISSED, TRACE_WRITTEN,
    },
    ends::Histogram,
    live::LIMITS,
};

/// The label of the sum of all paths that have no series of their own.
const OTHER: &str = "other";

/// Namespaces of Kubernetes that have a series of their own. A node has 110 pods by default,
/// mostly several of a namespace.
const MAX_NAMESPACES: usize = 100;

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
        self.encode_sources(&mut encoder)?;
        self.encode_sets(&mut encoder)?;
        self.encode_pods(&mut encoder)?;
        self.encode_sinks(&mut encoder)?;
        self.encode_traces(&mut encoder)?;
        self.encode_otlp(&mut encoder)?;
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        version.encode(descriptor(&mut encoder, &BUILD, MetricType::Info)?)?;
        time(self.started).encode(descriptor(&mut encoder, &START, MetricType::Gauge)?)
    }
}

impl Scrape {
    fn encode_sources(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let sources = &self.readings.sources;
        // A family has at least one series.
        if sources.is_empty() {
            return Ok(());
        }
        let mut polls = descriptor(encoder, &SOURCE_POLLS, MetricType::Counter)?;
        for source in sources {
            let labels = [("source", source.name.as_str())];
            ConstCounter::new(source.polls).encode(polls.encode_family(&labels)?)?;
        }
        let mut errors = descriptor(encoder, &SOURCE_ERRORS, MetricType::Counter)?;
        for source in sources {
            for (kind, count) in &source.errors {
                let labels = [("source", source.name.as_str()), ("kind", kind)];
                ConstCounter::new(*count).encode(errors.encode_family(&labels)?)?;
            }
        }
        let mut refused = descriptor(encoder, &SOURCE_REFUSED, MetricType::Counter)?;
        for source in sources {
            for (reason, count) in &source.refused {
                let labels = [("source", source.name.as_str()), ("reason", reason)];
                ConstCounter::new(*count).encode(refused.encode_family(&labels)?)?;
            }
        }
        if sources.iter().all(|source| source.last_success.is_none()) {
            return Ok(());
        }
        let mut success = descriptor(encoder, &SOURCE_SUCCESS, MetricType::Gauge)?;
        for source in sources {
            let Some(at) = source.last_success else { continue };
            let labels = [("source", source.name.as_str())];
            time(at).encode(success.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn encode_sets(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let sets = &self.readings.sets;
        if sets.is_empty() {
            return Ok(());
        }
        let mut prefixes = descriptor(encoder, &SET_PREFIXES, MetricType::Gauge)?;
        for set in sets {
            let labels = [("set", set.name.as_str())];
            ConstGauge::new(set.prefixes).encode(prefixes.encode_family(&labels)?)?;
        }
        let mut failing = descriptor(encoder, &SET_FAILING, MetricType::Gauge)?;
        for set in sets {
            let labels = [("set", set.name.as_str())];
            let is_failing = u64::from(set.failing.is_some());
            ConstGauge::new(is_failing).encode(failing.encode_family(&labels)?)?;
        }
        if sets.iter().all(|set| set.read_at.is_none()) {
            return Ok(());
        }
        let mut read = descriptor(encoder, &SET_READ, MetricType::Gauge)?;
        for set in sets {
            let Some(at) = set.read_at else { continue };
            time(at).encode(read.encode_family(&[("set", set.name.as_str())])?)?;
        }
        Ok(())
    }

    fn encode_pods(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let Some(pods) = &self.readings.pods else { return Ok(()) };
        let known = ConstGauge::new(pods.known);
        known.encode(descriptor(encoder, &PODS_KNOWN, MetricType::Gauge)?)?;
        let failing = ConstGauge::new(u64::from(pods.is_failing));
        failing.encode(descriptor(encoder, &PODS_FAILING, MetricType::Gauge)?)?;
        let adopted = ConstCounter::new(pods.adopted);
        adopted.encode(descriptor(encoder, &PODS_ADOPTED, MetricType::Counter)?)?;
        if pods.flows.is_empty() {
            return Ok(());
        }
        let mut family = descriptor(encoder, &PODS_FLOWS, MetricType::Gauge)?;
        let mut sample = |namespace: &str, flows: u64| {
            ConstGauge::new(flows).encode(family.encode_family(&[("namespace", namespace)])?)
        };
        let mut other = 0;
        for (number, (namespace, flows)) in pods.flows.iter().enumerate() {
            if number < MAX_NAMESPACES && **namespace != *OTHER {
                sample(namespace, *flows)?;
            } else {
                other += flows;
            }
        }
        if other == 0 { Ok(()) } else { sample(OTHER, other) }
    }

    fn encode_sinks(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let Readings { events, sinks, .. } = &self.readings;
        if !events.is_empty() {
            let mut told = descriptor(encoder, &EVENTS, MetricType::Counter)?;
            for (event, count) in events {
                ConstCounter::new(*count).encode(told.encode_family(&[("event", *event)])?)?;
            }
        }
        if sinks.is_empty() {
            return Ok(());
        }
        let mut sent = descriptor(encoder, &SINK_SENT, MetricType::Counter)?;
        for sink in sinks {
            let labels = [("sink", sink.name.as_str())];
            ConstCounter::new(sink.sent).encode(sent.encode_family(&labels)?)?;
        }
        let mut refused = descriptor(encoder, &SINK_REFUSED, MetricType::Counter)?;
        for sink in sinks {
            let labels = [("sink", sink.name.as_str())];
            ConstCounter::new(sink.refused).encode(refused.encode_family(&labels)?)?;
        }
        let mut lost = descriptor(encoder, &SINK_LOST, MetricType::Counter)?;
        for sink in sinks {
            for (reason, count) in &sink.lost {
                let labels = [("sink", sink.name.as_str()), ("reason", *reason)];
                ConstCounter::new(*count).encode(lost.encode_family(&labels)?)?;
            }
        }
        let mut spooled = descriptor(encoder, &SINK_SPOOLED, MetricType::Gauge)?;
        for sink in sinks {
            let labels = [("sink", sink.name.as_str())];
            ConstGauge::new(sink.spooled_bytes).encode(spooled.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn encode_otlp(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let Some(otlp) = &self.readings.otlp else { return Ok(()) };
        let mut exports = descriptor(encoder, &OTLP_EXPORTS, MetricType::Counter)?;
        for (result, count) in [("sent", otlp.sent), ("failed", otlp.failed)] {
            ConstCounter::new(count).encode(exports.encode_family(&[("result", result)])?)?;
        }
        let rejected = ConstCounter::new(otlp.rejected_points);
        rejected.encode(descriptor(encoder, &OTLP_REJECTED, MetricType::Counter)?)?;
        match otlp.last_success {
            None => Ok(()),
            Some(at) => time(at).encode(descriptor(encoder, &OTLP_SUCCESS, MetricType::Gauge)?),
        }
    }

    fn encode_traces(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        type Count = fn(&TraceReading) -> u64;

        let traces = &self.readings.traces;
        if traces.is_empty() {
            return Ok(());
        }
        let counters: [(_, Count); 4] = [
            (&TRACE_LINES, |trace| trace.lines),
            (&TRACE_WRITTEN, |trace| trace.bytes),
            (&TRACE_LOST, |trace| trace.lost_lines),
            (&TRACE_MISSED, |trace| trace.missed_readings),
        ];
        for (definition, value) in counters {
            let mut family = descriptor(encoder, definition, MetricType::Counter)?;
            for trace in traces {
                let labels = [("trace", trace.name.as_str())];
                ConstCounter::new(value(trace)).encode(family.encode_family(&labels)?)?;
            }
        }
        let mut failing = descriptor(encoder, &TRACE_FAILING, MetricType::Gauge)?;
        for trace in traces {
            let labels = [("trace", trace.name.as_str())];
            let is_failing = u64::from(trace.failing.is_some());
            ConstGauge::new(is_failing).encode(failing.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn host(
    metric: &HostMetric,
    readings: &Readings,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let definition = &metric.definition;
    match metric.value {
        HostValue::Counter(value) => ConstCounter::new(value(readings)).encode(descriptor(
            encoder,
            definition,
            MetricType::Counter,
        )?),
        HostValue::Duration(value) => ConstCounter::new(value(readings).as_secs_f64())
            .encode(descriptor(encoder, definition, MetricType::Counter)?),
        HostValue::Gauge(value) => ConstGauge::new(value(readings)).encode(descriptor(
            encoder,
            definition,
            MetricType::Gauge,
        )?),
        HostValue::Results(results) => {
            let mut family = descriptor(encoder, definition, MetricType::Counter)?;
            results.iter().try_for_each(|(result, value)| {
                let labels = [("result", *result)];
                ConstCounter::new(value(readings)).encode(family.encode_family(&labels)?)
            })
        }
        HostValue::Parts(value) => {
            let mut family = descriptor(encoder, definition, MetricType::Gauge)?;
            Part::ALL.iter().try_for_each(|part| {
                let labels = [("part", part.name())];
                let value = value(&readings.attachment, *part);
                ConstGauge::new(value).encode(family.encode_family(&labels)?)
            })
        }
        HostValue::CountedParts(value) => {
            let mut family = descriptor(encoder, definition, MetricType::Counter)?;
            Part::ALL.iter().try_for_each(|part| {
                let labels = [("part", part.name())];
                let value = value(&readings.attachment, *part);
                ConstCounter::new(value).encode(family.encode_family(&labels)?)
            })
        }
        HostValue::Shortages => {
            let mut family = descriptor(encoder, definition, MetricType::Counter)?;
            Shortage::ALL.iter().zip(readings.shortages).try_for_each(|(shortage, count)| {
                let labels = [("of", shortage.name())];
                ConstCounter::new(count).encode(family.encode_family(&labels)?)
            })
        }
        HostValue::Programs(value) => {
            let values =
                readings.programs.iter().map(|runs| (runs, ConstCounter::new(value(runs))));
            programs(values, definition, encoder)
        }
        HostValue::TimedPrograms(value) => {
            let seconds = |runs| ConstCounter::new(value(runs).as_secs_f64());
            let values = readings.programs.iter().map(|runs| (runs, seconds(runs)));
            programs(values, definition, encoder)
        }
        HostValue::Histogram(bounds, of) => {
            let mut family = descriptor(encoder, definition, MetricType::Histogram)?;
            histogram(&mut family, bounds, of(readings))
        }
        HostValue::Told(value) => value(readings).map_or(Ok(()), |value| {
            ConstGauge::new(value).encode(descriptor(encoder, definition, MetricType::Gauge)?)
        }),
        HostValue::ToldDuration(value) => value(readings).map_or(Ok(()), |value| {
            let family = descriptor(encoder, definition, MetricType::Counter)?;
            ConstCounter::new(value.as_secs_f64()).encode(family)
        }),
        HostValue::Time(value) => match value(readings) {
            None => Ok(()),
            Some(at) => time(at).encode(descriptor(encoder, definition, MetricType::Gauge)?),
        },
    }
}

/// Encodes a counter of programs, of which there may be none.
fn programs<'r>(
    values: impl Iterator<Item = (&'r ProgramRuns, impl EncodeMetric)>,
    definition: &Definition,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let mut values = values.peekable();
    if values.peek().is_none() {
        return Ok(());
    }
    let mut family = descriptor(encoder, definition, MetricType::Counter)?;
    values.try_for_each(|(runs, value)| {
        value.encode(family.encode_family(&[("program", runs.name.as_str())])?)
    })
}

/// A clock before 1970 would make a strange time, not a failed scrape.
fn time(at: SystemTime) -> ConstGauge<f64> {
    ConstGauge::new(at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64())
}

/// Holds what there is to say of a path.
#[derive(Clone, Default)]
struct Counted {
    stats: PathStats,
    /// How flows ended; None where no flow has ended yet.
    ended: Option<Ended>,
    /// The times flows were limited; None where none has been seen running.
    limited: Option<Seconds>,
    state: Option<PathState>,
    /// None of the others, of which it could not be summed up.
    now: Option<PathNow>,
}

impl Counted {
    fn of(path: &PathReading, readings: &Readings) -> Self {
        Self {
            stats: path.stats,
            ended: readings.ended.get(&path.name).copied(),
            limited: readings.limited.get(&*path.name).copied(),
            state: Some(path.state),
            now: readings.now.get(&path.name).cloned(),
        }
    }

    fn add(&mut self, other: &Self) {
        add(&mut self.stats, &other.stats);
        if let Some(ended) = &other.ended {
            self.ended.get_or_insert_default().merge(ended);
        }
        if let Some(limited) = &other.limited {
            let sum = self.limited.get_or_insert_default();
            sum.iter_mut().zip(limited).for_each(|(sum, seconds)| *sum += seconds);
        }
    }
}

/// The paths that get series: those of their own, and the sum of the others.
struct Series<'a> {
    named: Vec<(&'a str, Counted)>,
    other: Option<Counted>,
}

impl<'a> Series<'a> {
    fn new(readings: &'a Readings, max_paths: usize) -> Self {
        let mut series = Self { named: Vec::new(), other: None };
        for (index, path) in readings.paths.iter().enumerate() {
            let counted = Counted::of(path, readings);
            if index < max_paths && *path.name != *OTHER {
                series.named.push((&path.name, counted));
            } else {
                series.other.get_or_insert_default().add(&counted);
            }
        }
        series
    }

    fn all(&self) -> impl Iterator<Item = (&str, &Counted)> {
        let named = self.named.iter().map(|(name, counted)| (*name, counted));
        named.chain(self.other.iter().map(|other| (OTHER, other)))
    }

    fn known(&self) -> impl Iterator<Item = (&str, &PathNow)> {
        self.named.iter().filter_map(|(name, counted)| Some((*name, counted.now.as_ref()?)))
    }

    fn encode(&self, metric: &PathMetric, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let kind = match metric.value {
            PathValue::Counter(_) | PathValue::Reasons(_) | PathValue::Limited => {
                MetricType::Counter
            }
            PathValue::Gauge(_) | PathValue::Now(_) => MetricType::Gauge,
            PathValue::About => MetricType::Info,
            PathValue::Histogram(..) => MetricType::Histogram,
        };
        // A family has at least one series.
        let is_empty = match metric.value {
            PathValue::Now(value) => self.known().all(|(_, now)| value(now).is_none()),
            PathValue::About => self.known().next().is_none(),
            _ => false,
        };
        if is_empty {
            return Ok(());
        }
        let mut family = descriptor(encoder, &metric.definition, kind)?;
        self.all().try_for_each(|(name, counted)| sample(&mut family, name, counted, &metric.value))
    }

    /// Encodes the derived means of the paths that are shown, not of the others: a
    /// mean of means tells of none of them.
    fn encode_derived(&self, readings: &Readings, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let derived = &readings.derived;
        if derived.means.values().flatten().all(Option::is_none) {
            return Ok(());
        }
        let mut family = descriptor(encoder, &DERIVED, MetricType::Gauge)?;
        for (path, _) in &self.named {
            let Some(means) = derived.means.get(*path) else { continue };
            for (name, mean) in derived.names.iter().zip(means) {
                let Some(mean) = mean else { continue };
                let labels = [("path", *path), ("name", name.as_str())];
                ConstGauge::new(*mean).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

fn sample(
    family: &mut MetricEncoder,
    path: &str,
    counted: &Counted,
    value: &PathValue,
) -> fmt::Result {
    let (labels, stats) = ([("path", path)], &counted.stats);
    match value {
        PathValue::Counter(value) => {
            ConstCounter::new(value(stats)).encode(family.encode_family(&labels)?)
        }
        PathValue::Gauge(value) => {
            ConstGauge::new(value(stats)).encode(family.encode_family(&labels)?)
        }
        PathValue::Reasons(reasons) => reasons.iter().try_for_each(|(reason, value)| {
            let labels = [("path", path), ("reason", *reason)];
            ConstCounter::new(value(stats)).encode(family.encode_family(&labels)?)
        }),
        PathValue::Histogram(bounds, of) => match &counted.ended {
            None => Ok(()),
            Some(ended) => {
                let mut family = family.encode_family(&labels)?;
                histogram(&mut family, bounds, of(ended))
            }
        },
        PathValue::Now(value) => match counted.now.as_ref().and_then(value) {
            None => Ok(()),
            Some(value) => ConstGauge::new(value).encode(family.encode_family(&labels)?),
        },
        PathValue::About => match counted.now.as_ref().zip(counted.state) {
            None => Ok(()),
            Some((now, state)) => {
                let labels = [
                    ("path", path),
                    ("congestion", now.congestion.as_str()),
                    ("state", state.name()),
                ];
                family.encode_info(&labels)
            }
        },
        PathValue::Limited => counted.limited.iter().try_for_each(|limited| {
            LIMITS.iter().zip(limited).try_for_each(|(factor, seconds)| {
                let labels = [("path", path), ("factor", *factor)];
                ConstCounter::new(*seconds).encode(family.encode_family(&labels)?)
            })
        }),
    }
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

/// Adds up what has a sum; saturating, as a count that stands still says less
/// wrong than one that starts anew.
fn add(sum: &mut PathStats, stats: &PathStats) {
    let PathStats {
        matched,
        opened,
        closed,
        admitted,
        released,
        too_many,
        refused,
        bytes_acked,
        bytes_received,
        data_segs_out,
        segs_retrans,
        srtt_us: _,
        senders: _,
        drift,
        unseen,
        walk: _,
    } = stats;
    for (sum, value) in [
        (&mut sum.matched, matched),
        (&mut sum.opened, opened),
        (&mut sum.closed, closed),
        (&mut sum.admitted, admitted),
        (&mut sum.released, released),
        (&mut sum.too_many, too_many),
        (&mut sum.refused, refused),
        (&mut sum.bytes_acked, bytes_acked),
        (&mut sum.bytes_received, bytes_received),
        (&mut sum.data_segs_out, data_segs_out),
        (&mut sum.segs_retrans, segs_retrans),
        (&mut sum.drift, drift),
        (&mut sum.unseen, unseen),
    ] {
        *sum = sum.saturating_add(*value);
    }
}
