//! A preview says what a reload would change, in the kernel and on the host, and changes
//! nothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use wad_policy::config::Value;
use wad_tuning::preview::HostPreview;

use super::Diff;

/// Says where to answer whoever asked for a preview.
pub type PreviewAnswer = oneshot::Sender<ReloadPreview>;

/// An outcome says what would come of a reload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum ReloadPreview {
    /// The file would be in force.
    WouldApply(Box<Changes>),
    /// The file is wrong, or changes what takes a stop and a start.
    WouldRefuse { reason: String },
}

/// All that would change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct Changes {
    #[serde(flatten)]
    pub diff: Diff,
    /// Paths in force whose flows would get other settings.
    pub flows: Vec<PathPreview>,
    pub host: HostPreview,
}

/// The settings of a path that would change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathPreview {
    pub path: String,
    pub settings: Vec<SettingPreview>,
}

/// A setting that would change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SettingPreview {
    /// The name as `wad explain` has it.
    pub name: String,
    /// The value in force; null where it is left to the kernel.
    pub before: Option<Value>,
    pub after: Option<Value>,
}
