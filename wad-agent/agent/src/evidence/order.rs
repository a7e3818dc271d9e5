//! An experiment is begun, or ended, by hand.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use wad_policy::config::AskedExperiment;

use super::ExperimentTold;

/// Where orders go.
pub const ORDERS_AT: &str = "/v1/experiments/order";

/// Says what is to be done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum ExperimentOrder {
    Start { path: String, asked: Box<AskedExperiment> },
    Stop { path: String },
}

/// Says what has come of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum ExperimentOutcome {
    Done { experiment: Box<ExperimentTold> },
    Refused { reason: String },
}

/// Says where to answer.
pub type ExperimentAnswer = oneshot::Sender<ExperimentOutcome>;
