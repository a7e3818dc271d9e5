//! Encodes the metrics of the host and of the agent.

use std::fmt;

use prometheus_client::{
    encoding::DescriptorEncoder,
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};
use wad_toolbox::shortage::Shortage;
use wad_tuning::attachment::Part;

use super::{
    super::{
        Readings,
        definitions::{HostMetric, HostValue},
    },
    descriptor, family, histogram, single, time,
};

pub fn host(
    metric: &HostMetric,
    readings: &Readings,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let definition = &metric.definition;
    match metric.value {
        HostValue::Counter(value) => {
            single(encoder, definition, ConstCounter::new(value(readings)))
        }
        HostValue::Duration(value) => {
            single(encoder, definition, ConstCounter::new(value(readings).as_secs_f64()))
        }
        HostValue::Gauge(value) => single(encoder, definition, ConstGauge::new(value(readings))),
        HostValue::Results(results) => {
            let values =
                results.iter().map(|(result, of)| (*result, ConstCounter::new(of(readings))));
            family(encoder, definition, "result", values)
        }
        HostValue::Parts(value) => {
            let value = |part| ConstGauge::new(value(&readings.attachment, part));
            family(encoder, definition, "part", Part::ALL.iter().map(|it| (it.name(), value(*it))))
        }
        HostValue::CountedParts(value) => {
            let value = |part| ConstCounter::new(value(&readings.attachment, part));
            family(encoder, definition, "part", Part::ALL.iter().map(|it| (it.name(), value(*it))))
        }
        HostValue::Shortages => {
            let counts = Shortage::ALL.iter().zip(readings.shortages);
            let values = counts.map(|(of, count)| (of.name(), ConstCounter::new(count)));
            family(encoder, definition, "of", values)
        }
        HostValue::Programs(value) => {
            let programs = readings.programs.iter();
            let values = programs.map(|runs| (runs.name.as_str(), ConstCounter::new(value(runs))));
            family(encoder, definition, "program", values)
        }
        HostValue::TimedPrograms(value) => {
            let seconds = |runs| ConstCounter::new(value(runs).as_secs_f64());
            let values = readings.programs.iter().map(|runs| (runs.name.as_str(), seconds(runs)));
            family(encoder, definition, "program", values)
        }
        HostValue::Histogram(bounds, of) => {
            let mut family = descriptor(encoder, definition, MetricType::Histogram)?;
            histogram(&mut family, bounds, of(readings))
        }
        HostValue::Told(value) => match value(readings) {
            None => Ok(()),
            Some(value) => single(encoder, definition, ConstGauge::new(value)),
        },
        HostValue::ToldDuration(value) => match value(readings) {
            None => Ok(()),
            Some(value) => single(encoder, definition, ConstCounter::new(value.as_secs_f64())),
        },
        HostValue::Time(value) => match value(readings) {
            None => Ok(()),
            Some(at) => single(encoder, definition, time(at)),
        },
    }
}
