//! The outcome is what comes of `wad disable` and `wad enable`, as the agent answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use wad_policy::switch::Disabled;

/// Says where to answer whoever asked for the switch.
pub type Answer = oneshot::Sender<SwitchOutcome>;

/// An outcome says what came of the order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum SwitchOutcome {
    Done {
        policy_set: u64,
        disabled: Disabled,
        /// Why it will not outlive the agent.
        #[serde(skip_serializing_if = "Option::is_none")]
        warning: Option<String>,
    },
    Refused {
        reason: String,
    },
    Failed {
        reason: String,
    },
}
