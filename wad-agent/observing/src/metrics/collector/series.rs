//! Encodes the metrics of paths: a series for each, up to a bound, and one for all others.

use std::fmt;

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric as _, MetricEncoder},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};
use wad_common::stats::PathStats;

use super::{
    super::{
        Ended, PathNow, PathReading, PathState, Readings, Seconds,
        definitions::{DERIVED, PathMetric, PathValue},
        live::LIMITS,
    },
    OTHER, descriptor, histogram,
};

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
pub struct Series<'a> {
    named: Vec<(&'a str, Counted)>,
    other: Option<Counted>,
}

impl<'a> Series<'a> {
    pub fn new(readings: &'a Readings, max_paths: usize) -> Self {
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

    pub fn encode(&self, metric: &PathMetric, encoder: &mut DescriptorEncoder) -> fmt::Result {
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
    pub fn encode_derived(
        &self,
        readings: &Readings,
        encoder: &mut DescriptorEncoder,
    ) -> fmt::Result {
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
        jumps,
        retreats,
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
        (&mut sum.jumps, jumps),
        (&mut sum.retreats, retreats),
    ] {
        *sum = sum.saturating_add(*value);
    }
}
