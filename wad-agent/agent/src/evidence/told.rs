//! An experiment as the agent tells of it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wad_evidence::{
    experiment::{Counts, End, Found},
    plan::Arm,
    watch::Interruption,
};

use super::{Kept, at};

/// Says who has begun an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Begun {
    /// The configuration has it.
    ByFile,
    /// Somebody asked the agent for it.
    ByHand,
}

/// Says how far an experiment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It waits for its first block; or, where the clock was set back, for one that is not over.
    Waits,
    Runs,
    Ended,
}

/// All experiments, those that have ended included, in the order in which they were begun.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExperimentsTold {
    pub experiments: Vec<ExperimentTold>,
}

/// An experiment, with all that is known of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExperimentTold {
    pub path: String,
    pub begun: Begun,
    pub state: State,
    pub ended_by: Option<End>,
    /// Whom the path is for and what its connections get.
    pub subject: String,
    /// With it, each block can be told before it begins.
    pub seed: u64,
    pub begins: Timestamp,
    /// The last of its blocks ended then that are over.
    pub reached: Timestamp,
    /// It ends then at the latest.
    pub ends: Timestamp,
    pub ends_by_verdict: bool,
    pub block_seconds: f64,
    pub burn_in_seconds: f64,
    pub blocks: u64,
    /// The probability, at most, that any of the verdicts is wrong.
    pub alpha: f64,
    /// Paths of others on the same way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<String>,
    /// The block that it is in.
    pub block: Option<BlockTold>,
    pub counts: Counts,
    /// The metrics with what was found out, the one that it is about first.
    pub found: Vec<Found>,
}

/// A block that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockTold {
    /// They are counted from 0.
    pub number: u64,
    /// New connections get this.
    pub arm: Arm,
    pub begins: Timestamp,
    pub ends: Timestamp,
    /// Why it will count for nothing, if that is known.
    pub thrown: Option<Interruption>,
}

impl ExperimentTold {
    /// Tells of one.
    #[must_use]
    pub fn of(kept: &Kept) -> Self {
        let Kept { path, begun, subject, asked, experiment } = kept;
        let settings = experiment.settings();
        let plan = &settings.plan;
        let open = experiment.open();
        Self {
            path: path.clone(),
            begun: *begun,
            state: match (experiment.end(), open) {
                (Some(_), _) => State::Ended,
                (None, None) => State::Waits,
                (None, Some(_)) => State::Runs,
            },
            ended_by: experiment.end(),
            subject: subject.clone(),
            seed: plan.seed(),
            begins: at(plan.start()),
            reached: at(experiment.reached()),
            ends: at(plan.end()),
            ends_by_verdict: settings.ends_by_verdict,
            block_seconds: plan.length().as_secs_f64(),
            burn_in_seconds: plan.burn_in().as_secs_f64(),
            blocks: plan.blocks(),
            alpha: settings.alpha,
            neighbours: asked.neighbours.clone(),
            block: open.map(|(block, thrown)| BlockTold {
                number: block.number,
                arm: block.arm,
                begins: at(block.begin),
                ends: at(block.end),
                thrown,
            }),
            counts: experiment.counts().clone(),
            found: experiment.found(),
        }
    }
}
