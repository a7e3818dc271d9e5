//! Encodes what a configuration may have several of, or none.

use std::{collections::HashSet, fmt};

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};
use wad_evidence::{plan::Arm, verdict::Verdict};

use super::{
    super::{
        Readings, TraceReading,
        definitions::{
            EVENTS, EXPERIMENT_PAIRS, EXPERIMENT_THROWN, EXPERIMENT_TUNED, EXPERIMENT_VERDICT,
            GUARD_SHARE, GUARD_SUSPICION, GUARD_TRIPS, OTLP_EXPORTS, OTLP_REJECTED, OTLP_SUCCESS,
            PAGE_REFUSED, PEER_AGE, PEER_CERTIFICATE, PEER_FAILED, PEER_HEARD, PEER_REFUSED,
            PEER_UP, PEERS_CERTIFICATE, PEERS_FAILING, PEERS_FILE_ERRORS, PEERS_STRANGERS,
            PODS_ADOPTED, PODS_FAILING, PODS_FLOWS, PODS_KNOWN, SET_FAILING, SET_PREFIXES,
            SET_READ, SINK_LOST, SINK_REFUSED, SINK_SENT, SINK_SPOOLED, SOURCE_ERRORS,
            SOURCE_POLLS, SOURCE_REFUSED, SOURCE_SUCCESS, TRACE_FAILING, TRACE_LINES, TRACE_LOST,
            TRACE_MISSED, TRACE_WRITTEN,
        },
    },
    OTHER, descriptor, family, single, time,
};

/// Namespaces of Kubernetes that have a series of their own. A node has 110 pods by default,
/// mostly several of a namespace.
const MAX_NAMESPACES: usize = 100;

pub fn sources(readings: &Readings, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let sources = &readings.sources;
    if sources.is_empty() {
        return Ok(());
    }
    let polls = sources.iter().map(|it| (it.name.as_str(), ConstCounter::new(it.polls)));
    family(encoder, &SOURCE_POLLS, "source", polls)?;
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
    let success = sources.iter().filter_map(|it| Some((it.name.as_str(), time(it.last_success?))));
    family(encoder, &SOURCE_SUCCESS, "source", success)
}

pub fn sets(readings: &Readings, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let sets = || readings.sets.iter();
    let prefixes = sets().map(|set| (set.name.as_str(), ConstGauge::new(set.prefixes)));
    family(encoder, &SET_PREFIXES, "set", prefixes)?;
    let failing = sets().map(|set| (set.name.as_str(), is(set.failing.is_some())));
    family(encoder, &SET_FAILING, "set", failing)?;
    let read = sets().filter_map(|set| Some((set.name.as_str(), time(set.read_at?))));
    family(encoder, &SET_READ, "set", read)
}

pub fn experiments(readings: &Readings, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let all = || readings.experiments.iter();
    let under_way = all().filter(|it| !it.is_over);
    let tuned = under_way.map(|it| (it.path.as_str(), is(it.arm != Some(Arm::Default))));
    family(encoder, &EXPERIMENT_TUNED, "path", tuned)?;
    let pairs = all().map(|it| (it.path.as_str(), ConstGauge::new(it.pairs)));
    family(encoder, &EXPERIMENT_PAIRS, "path", pairs)?;
    let thrown = all().map(|it| (it.path.as_str(), ConstGauge::new(it.thrown)));
    family(encoder, &EXPERIMENT_THROWN, "path", thrown)?;
    let verdicts = all().filter_map(|it| Some((it.path.as_str(), sign(it.verdict?)?)));
    family(encoder, &EXPERIMENT_VERDICT, "path", verdicts)
}

/// Encodes those of paths that have series of their own.
pub fn guards(
    readings: &Readings,
    max_paths: usize,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let paths = readings.paths.iter().take(max_paths).map(|path| &*path.name);
    let named: HashSet<&str> = paths.filter(|name| *name != OTHER).collect();
    let guards = || readings.guards.iter().filter(|guard| named.contains(guard.path.as_str()));
    let share = guards().map(|guard| (guard.path.as_str(), ConstGauge::new(guard.share)));
    family(encoder, &GUARD_SHARE, "path", share)?;
    let trips = guards().map(|guard| (guard.path.as_str(), ConstCounter::new(guard.trips)));
    family(encoder, &GUARD_TRIPS, "path", trips)?;
    let suspicion = guards().map(|guard| (guard.path.as_str(), ConstGauge::new(guard.suspicion)));
    family(encoder, &GUARD_SUSPICION, "path", suspicion)
}

/// Returns the number that stands for a verdict; None for those that are none yet.
fn sign(verdict: Verdict) -> Option<ConstGauge<i64>> {
    let sign = match verdict {
        Verdict::Better => 1,
        Verdict::Equal => 0,
        Verdict::Worse => -1,
        Verdict::GoOn | Verdict::Inconclusive => return None,
    };
    Some(ConstGauge::new(sign))
}

pub fn pods(readings: &Readings, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let Some(pods) = &readings.pods else { return Ok(()) };
    single(encoder, &PODS_KNOWN, ConstGauge::new(pods.known))?;
    single(encoder, &PODS_FAILING, is(pods.is_failing))?;
    single(encoder, &PODS_ADOPTED, ConstCounter::new(pods.adopted))?;
    let mut flows = Vec::new();
    let mut other = 0;
    for (number, (namespace, count)) in pods.flows.iter().enumerate() {
        if number < MAX_NAMESPACES && **namespace != *OTHER {
            flows.push((&**namespace, ConstGauge::new(*count)));
        } else {
            other += count;
        }
    }
    flows.extend((other != 0).then(|| (OTHER, ConstGauge::new(other))));
    family(encoder, &PODS_FLOWS, "pod_namespace", flows)
}

pub fn sinks(readings: &Readings, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let Readings { events, sinks, .. } = readings;
    let events = events.iter().map(|(event, count)| (*event, ConstCounter::new(*count)));
    family(encoder, &EVENTS, "event", events)?;
    if sinks.is_empty() {
        return Ok(());
    }
    let sent = sinks.iter().map(|sink| (sink.name.as_str(), ConstCounter::new(sink.sent)));
    family(encoder, &SINK_SENT, "sink", sent)?;
    let refused = sinks.iter().map(|sink| (sink.name.as_str(), ConstCounter::new(sink.refused)));
    family(encoder, &SINK_REFUSED, "sink", refused)?;
    let mut lost = descriptor(encoder, &SINK_LOST, MetricType::Counter)?;
    for sink in sinks {
        for (reason, count) in &sink.lost {
            let labels = [("sink", sink.name.as_str()), ("reason", *reason)];
            ConstCounter::new(*count).encode(lost.encode_family(&labels)?)?;
        }
    }
    let spooled =
        sinks.iter().map(|sink| (sink.name.as_str(), ConstGauge::new(sink.spooled_bytes)));
    family(encoder, &SINK_SPOOLED, "sink", spooled)
}

pub fn otlp(readings: &Readings, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let Some(otlp) = &readings.otlp else { return Ok(()) };
    let exports = [("sent", otlp.sent), ("failed", otlp.failed)];
    let exports = exports.map(|(result, count)| (result, ConstCounter::new(count)));
    family(encoder, &OTLP_EXPORTS, "result", exports)?;
    single(encoder, &OTLP_REJECTED, ConstCounter::new(otlp.rejected_points))?;
    match otlp.last_success {
        None => Ok(()),
        Some(at) => single(encoder, &OTLP_SUCCESS, time(at)),
    }
}

pub fn peers(readings: &Readings, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let Some(reading) = &readings.peers else { return Ok(()) };
    if let Some(ends) = reading.certificate_ends {
        single(encoder, &PEERS_CERTIFICATE, time(ends))?;
    }
    single(encoder, &PEERS_FAILING, is(reading.files_failing.is_some()))?;
    single(encoder, &PEERS_FILE_ERRORS, ConstCounter::new(reading.file_errors))?;
    let strangers = reading.strangers.iter();
    let strangers = strangers.map(|(reason, count)| (*reason, ConstCounter::new(*count)));
    family(encoder, &PEERS_STRANGERS, "reason", strangers)?;
    let peers = || reading.peers.iter().map(|peer| (peer.name.as_str(), peer));
    let up = peers().map(|(name, peer)| (name, is(peer.age_seconds.is_some())));
    family(encoder, &PEER_UP, "peer", up)?;
    let ages = peers().filter_map(|(name, peer)| Some((name, ConstGauge::new(peer.age_seconds?))));
    family(encoder, &PEER_AGE, "peer", ages)?;
    let heard = peers().map(|(name, peer)| (name, ConstCounter::new(peer.heard)));
    family(encoder, &PEER_HEARD, "peer", heard)?;
    let failed = peers().map(|(name, peer)| (name, ConstCounter::new(peer.failed)));
    family(encoder, &PEER_FAILED, "peer", failed)?;
    if !reading.peers.is_empty() {
        let mut refused = descriptor(encoder, &PEER_REFUSED, MetricType::Counter)?;
        for (name, peer) in peers() {
            for (reason, count) in &peer.refused {
                let labels = [("peer", name), ("reason", *reason)];
                ConstCounter::new(*count).encode(refused.encode_family(&labels)?)?;
            }
        }
    }
    let ends = peers().filter_map(|(name, peer)| Some((name, time(peer.certificate_ends?))));
    family(encoder, &PEER_CERTIFICATE, "peer", ends)
}

pub fn page(readings: &Readings, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let Some(page) = &readings.page else { return Ok(()) };
    let refused = page.refused.iter();
    let refused = refused.map(|(reason, count)| (*reason, ConstCounter::new(*count)));
    family(encoder, &PAGE_REFUSED, "reason", refused)
}

pub fn traces(readings: &Readings, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    type Count = fn(&TraceReading) -> u64;

    let traces = || readings.traces.iter();
    let counters: [(_, Count); 4] = [
        (&TRACE_LINES, |trace| trace.lines),
        (&TRACE_WRITTEN, |trace| trace.bytes),
        (&TRACE_LOST, |trace| trace.lost_lines),
        (&TRACE_MISSED, |trace| trace.missed_readings),
    ];
    for (definition, value) in counters {
        let counts = traces().map(|trace| (trace.name.as_str(), ConstCounter::new(value(trace))));
        family(encoder, definition, "trace", counts)?;
    }
    let failing = traces().map(|trace| (trace.name.as_str(), is(trace.failing.is_some())));
    family(encoder, &TRACE_FAILING, "trace", failing)
}

/// Whether something is so, as 1 or 0.
fn is(so: bool) -> ConstGauge<u64> {
    ConstGauge::new(u64::from(so))
}
