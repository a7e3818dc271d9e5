//! An experiment as it is kept. What can be made of it is made again: bets, scales, limits.

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use super::{Counts, End, Experiment, OfClass, Settings};
use crate::{
    metric::{CLASSES, METRICS, Metric},
    tally::{MOST_LN, Tally},
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
    #[serde(deserialize_with = "valid_counts")]
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

fn valid_counts<'de, D: Deserializer<'de>>(from: D) -> Result<Counts, D::Error> {
    let counts = Counts::deserialize(from)?;
    let can_be = counts.can_be();
    can_be.then_some(counts).ok_or_else(|| D::Error::custom("a count is too great"))
}

fn valid_metrics<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<RawMetric>, D::Error> {
    let metrics = Vec::<RawMetric>::deserialize(from)?;
    if !metrics.iter().map(|kept| kept.metric).eq(METRICS.iter().map(|row| row.metric)) {
        return Err(D::Error::custom("its metrics are others"));
    }
    let can_be = |kept: &RawMetric| {
        let is_class = |class: &OfClass| {
            (0.0..=f64::MAX).contains(&class.weights)
                && class.sum.abs() <= class.weights * MOST_LN
                && (class.pairs > 0) == (class.weights > 0.0)
        };
        kept.differences.iter().all(|difference| difference.abs() <= MOST_LN)
            && kept.classes.iter().all(is_class)
    };
    let can_all_be = metrics.iter().all(can_be);
    can_all_be.then_some(metrics).ok_or_else(|| D::Error::custom("a difference is none"))
}
