//! Encodes what a configuration may have several of, or none. A family has at least one series.

use std::fmt;

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

use super::{
    super::{
        Readings, TraceReading,
        definitions::{
            EVENTS, OTLP_EXPORTS, OTLP_REJECTED, OTLP_SUCCESS, PODS_ADOPTED, PODS_FAILING,
            PODS_FLOWS, PODS_KNOWN, SET_FAILING, SET_PREFIXES, SET_READ, SINK_LOST, SINK_REFUSED,
            SINK_SENT, SINK_SPOOLED, SOURCE_ERRORS, SOURCE_POLLS, SOURCE_REFUSED, SOURCE_SUCCESS,
            TRACE_FAILING, TRACE_LINES, TRACE_LOST, TRACE_MISSED, TRACE_WRITTEN,
        },
    },
    OTHER, descriptor, time,
};

/// Namespaces of Kubernetes that have a series of their own. A node has 110 pods by default,
/// mostly several of a namespace.
const MAX_NAMESPACES: usize = 100;

pub fn sources(readings: &Readings, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let sources = &readings.sources;
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

pub fn sets(readings: &Readings, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let sets = &readings.sets;
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

pub fn pods(readings: &Readings, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let Some(pods) = &readings.pods else { return Ok(()) };
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

pub fn sinks(readings: &Readings, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let Readings { events, sinks, .. } = readings;
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

pub fn otlp(readings: &Readings, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let Some(otlp) = &readings.otlp else { return Ok(()) };
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

pub fn traces(readings: &Readings, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    type Count = fn(&TraceReading) -> u64;

    let traces = &readings.traces;
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
