//! Encodes the metrics of the host and of the agent.

use std::fmt;

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};
use wad_toolbox::shortage::Shortage;
use wad_tuning::{attachment::Part, readings::ProgramRuns};

use super::{
    super::{
        Readings,
        definitions::{Definition, HostMetric, HostValue},
    },
    descriptor, histogram, time,
};

pub fn host(
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
