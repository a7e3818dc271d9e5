//! An experiment as it is kept. What can be made of it is made again: bets, scales, limits.

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use super::{Counts, End, Experiment, OfClass, Settings};
use crate::{
    metric::{CLASSES, METRICS, Metric},
    tally::Tally,
};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Raw {
    #[serde(deserialize_with = "valid_settings")]
    settings: Settings,
    done: u64,
    open: Option<u64>,
    #[serde(deserialize_with = "valid_first")]
    first: Option<(u64, Tally)>,
    #[serde(deserialize_with = "valid_metrics")]
    metrics: Vec<RawMetric>,
    counts: Counts,
    end: Option<End>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMetric {
    metric: Metric,
    differences: Vec<f64>,
    classes: [OfClass; CLASSES.len()],
}

impl From<Experiment> for Raw {
    fn from(experiment: Experiment) -> Self {
        let metrics = experiment.judged.iter().map(|judged| RawMetric {
            metric: judged.metric,
            differences: judged.series.differences().values().to_vec(),
            classes: judged.classes,
        });
        Self {
            settings: experiment.settings,
            done: experiment.done,
            open: experiment.open.as_ref().map(|open| open.block.number).or(experiment.lost),
            first: experiment.first,
            metrics: metrics.collect(),
            counts: experiment.counts,
            end: experiment.end,
        }
    }
}

impl From<Raw> for Experiment {
    fn from(raw: Raw) -> Self {
        let mut experiment = Self::new(raw.settings);
        for (judged, kept) in experiment.judged.iter_mut().zip(raw.metrics) {
            kept.differences.into_iter().for_each(|difference| {
                judged.series.add(difference);
            });
            judged.classes = kept.classes;
        }
        let may_be_open = |open: &u64| *open == raw.done && *open < raw.settings.plan.blocks();
        Self {
            is_resumed: true,
            // What cannot have been open is as nothing.
            lost: raw.open.filter(may_be_open),
            done: raw.done,
            first: raw.first,
            counts: raw.counts,
            end: raw.end,
            ..experiment
        }
    }
}

fn valid_settings<'de, D: Deserializer<'de>>(from: D) -> Result<Settings, D::Error> {
    let settings = Settings::deserialize(from)?;
    settings.plan.check().map_err(D::Error::custom)?;
    let is_probability = settings.alpha > 0.0 && settings.alpha < 1.0;
    is_probability.then_some(settings).ok_or_else(|| D::Error::custom("alpha is no probability"))
}

fn valid_first<'de, D: Deserializer<'de>>(from: D) -> Result<Option<(u64, Tally)>, D::Error> {
    let first = Option::<(u64, Tally)>::deserialize(from)?;
    let is_valid = first.is_none_or(|(_, tally)| tally.is_valid());
    is_valid.then_some(first).ok_or_else(|| D::Error::custom("a mean is no number"))
}

fn valid_metrics<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<RawMetric>, D::Error> {
    let metrics = Vec::<RawMetric>::deserialize(from)?;
    if !metrics.iter().map(|kept| kept.metric).eq(METRICS.iter().map(|row| row.metric)) {
        return Err(D::Error::custom("its metrics are others"));
    }
    let numbers = metrics.iter().flat_map(|kept| {
        let classes = kept.classes.iter().flat_map(|class| [class.sum, class.weights]);
        kept.differences.iter().copied().chain(classes)
    });
    let are_finite = { numbers }.all(f64::is_finite);
    are_finite.then_some(metrics).ok_or_else(|| D::Error::custom("a difference is no number"))
}
