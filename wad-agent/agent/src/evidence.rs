//! Experiments on paths: what is known of them is shared by whoever follows flows, whoever goes
//! from block to block, and whoever answers questions.

mod flow_end;
mod order;
#[cfg(test)]
pub mod testing;
mod told;

use std::sync::{Arc, Mutex, MutexGuard};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use wad_common::event::Event;
use wad_evidence::{
    experiment::{End, Experiment},
    metric::Kind,
    plan::Moment,
};
use wad_observing::metrics::{ExperimentReading, Readings};
use wad_policy::config::ExperimentSettings;
use wad_toolbox::mutex::locked;

use self::flow_end::{arm_of, ended};
pub use self::{
    order::{ExperimentAnswer, ExperimentOrder, ExperimentOutcome, ORDERS_AT},
    told::{Begun, BlockTold, ExperimentTold, ExperimentsTold, State},
};

/// Where the agent tells of experiments.
pub const AT: &str = "/v1/experiments";

/// Where it tells in short of these, and of guards.
pub const SUMMED_UP_AT: &str = "/v1/evidence";

/// An experiment, with what it is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    pub path: String,
    pub begun: Begun,
    /// Whom the path is for and what its connections get, in words: with anything else it would
    /// be another experiment.
    pub subject: String,
    pub asked: ExperimentSettings,
    pub experiment: Experiment,
}

/// All experiments, those included that have ended. Clones are of the same.
#[derive(Clone, Debug, Default)]
pub struct Experiments(Arc<Mutex<Vec<Kept>>>);

impl Experiments {
    #[must_use]
    pub fn new(kept: Vec<Kept>) -> Self {
        Self(Arc::new(Mutex::new(kept)))
    }

    pub fn all(&self) -> MutexGuard<'_, Vec<Kept>> {
        locked(&self.0)
    }

    /// Takes a flow that has closed, if its path has an experiment, or is a neighbour of one.
    pub fn flow_ended(&self, path: &str, event: &Event) {
        for kept in self.all().iter_mut().filter(|kept| kept.experiment.end().is_none()) {
            let kind = if kept.path == path {
                Kind::Own(arm_of(event))
            } else if kept.asked.neighbours.iter().any(|neighbour| neighbour == path) {
                Kind::Neighbour
            } else {
                continue;
            };
            if let Some(flow) = ended(event, kind) {
                kept.experiment.flow_ended(&flow);
            }
        }
    }

    /// Tells of all of them, in the order in which they were begun. To find the limits of what is
    /// possible takes some time.
    #[must_use]
    pub fn told(&self) -> ExperimentsTold {
        let all = self.all().clone();
        ExperimentsTold { experiments: all.iter().map(ExperimentTold::of).collect() }
    }

    /// Adds to the readings what the metrics and the status tell of them.
    pub fn read(&self, readings: &mut Readings) {
        readings.experiments = self.readings();
    }

    /// Returns what is told of them in short.
    #[must_use]
    pub fn readings(&self) -> Vec<ExperimentReading> {
        let reading = |kept: &Kept| {
            let experiment = &kept.experiment;
            let counts = experiment.counts();
            ExperimentReading {
                path: kept.path.clone(),
                is_over: experiment.end().is_some(),
                ends: at(experiment.settings().plan.end()),
                arm: experiment.open().map(|(block, _)| block.arm),
                pairs: counts.pairs,
                blocks: counts.blocks,
                thrown: counts.thrown.values().sum(),
                verdict: experiment.verdict(),
            }
        };
        self.all().iter().map(reading).collect()
    }
}

/// Returns the same as a time of day; the end of all times where there is none.
#[must_use]
pub fn at(moment: Moment) -> Timestamp {
    let since = SignedDuration::try_from(moment).unwrap_or(SignedDuration::MAX);
    Timestamp::from_duration(since).unwrap_or(Timestamp::MAX)
}

/// Says how an experiment has ended.
#[must_use]
pub const fn end_words(end: End) -> &'static str {
    match end {
        End::Time => "its time is over",
        End::Verdict => "it has its verdict",
        End::Hand => "somebody ended it",
    }
}

/// Reads what an agent before this one has left of experiments, and goes on with it.
#[cfg(feature = "fuzz")]
pub fn fuzz(bytes: &[u8]) {
    use std::time::Duration;

    use wad_evidence::{saved, watch::Clocks};

    let Ok(mut kept) = saved::read::<Vec<Kept>>(bytes) else { return };
    // Another agent would know the same.
    assert_eq!(saved::read::<Vec<Kept>>(&saved::text(&kept)).ok().as_ref(), Some(&kept));
    let since_boot = Duration::from_secs(1_000);
    let wall = Duration::from_secs(1_800_000_000);
    for kept in &mut kept {
        kept.experiment.look(Clocks { wall, since_boot, awake: since_boot });
    }
    let told = serde_json::to_vec(&Experiments::new(kept).told()).expect("it is JSON");
    assert!(serde_json::from_slice::<ExperimentsTold>(&told).is_ok());
}
