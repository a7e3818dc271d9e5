//! `/metrics`: the last results of tasks, and what the service counts. Series are bounded:
//! one set for each of so many tasks, which are named in the configuration.

pub(super) mod definitions;

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};
use wad_observing::metrics::{Format, descriptor, encode_collector, family, single};

pub use self::definitions::Counts;
use self::definitions::{SERVICE, Service, TASK, TaskMetric};
use crate::archive::Latest;

/// Tasks that get series of their own.
pub const MAX_TASKS: usize = 1_000;

/// Writes one scrape. Of more tasks than there may be, the first by name have series.
pub fn encode(
    mut latest: Vec<Latest>,
    counts: Counts,
    format: Format,
) -> Result<String, fmt::Error> {
    latest.sort_by(|one, other| one.last.task.cmp(&other.last.task));
    latest.truncate(MAX_TASKS);
    encode_collector(Box::new(Scrape { latest, counts }), format)
}

#[derive(Debug)]
struct Scrape {
    latest: Vec<Latest>,
    counts: Counts,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        TASK.iter().try_for_each(|metric| self.of_tasks(metric, &mut encoder))?;
        for (definition, value) in SERVICE {
            let counts = &self.counts;
            match value {
                Service::Counter(of) => {
                    single(&mut encoder, definition, ConstCounter::new(of(counts)))?;
                }
                Service::Gauge(of) => {
                    single(&mut encoder, definition, ConstGauge::new(of(counts)))?;
                }
                Service::Counters(label, of) => {
                    let counter = |(word, count)| (word, ConstCounter::new(count));
                    family(&mut encoder, definition, label, of(counts).into_iter().map(counter))?;
                }
                Service::Gauges(label, of) => {
                    let gauge = |(word, value)| (word, ConstGauge::new(value));
                    family(&mut encoder, definition, label, of(counts).into_iter().map(gauge))?;
                }
            }
        }
        Ok(())
    }
}

impl Scrape {
    fn of_tasks(&self, metric: &TaskMetric, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let value = |latest| Some((latest, (metric.value)(latest)?));
        let mut values = self.latest.iter().filter_map(value).peekable();
        if values.peek().is_none() {
            return Ok(());
        }
        let mut family = descriptor(encoder, &metric.definition, MetricType::Gauge)?;
        values.try_for_each(|(latest, value)| {
            let row = &latest.last;
            let labels = [
                ("task", row.task.as_str()),
                ("path", row.path.as_deref().unwrap_or_default()),
                ("host", &row.host),
                ("tool", &row.tool),
            ];
            ConstGauge::new(value).encode(family.encode_family(&labels)?)
        })
    }
}
