//! A policy that its guard holds back is put in force by hand.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::GuardTold;

/// Where orders go.
pub const RELEASE_AT: &str = "/v1/guards/release";

/// Says which path's policy is to be in force again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    pub path: String,
}

/// Says what has come of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum ReleaseOutcome {
    Done { guard: Box<GuardTold> },
    Refused { reason: String },
}

/// Says where to answer.
pub type ReleaseAnswer = oneshot::Sender<ReleaseOutcome>;
