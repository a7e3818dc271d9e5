//! A configuration read again while the agent runs: by `wad reload`, on SIGHUP,
//! and when the file changes. It is put in force whole, or nothing is changed.

mod diff;
mod preview;
mod watch;

use std::hash::{DefaultHasher, Hash, Hasher as _};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use wad_observing::metrics::Reloads;

pub use self::{
    diff::{Diff, Fingerprints, InForce, NamedDiff, Names},
    preview::{Changes, PathPreview, PreviewAnswer, ReloadPreview, SettingPreview},
    watch::Watch,
};

/// Says where to answer whoever asked for a reload.
pub type Answer = oneshot::Sender<ReloadOutcome>;

/// An outcome says what came of a reload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum ReloadOutcome {
    /// The file is in force.
    Applied {
        policy_set: u64,
        #[serde(flatten)]
        diff: Box<Diff>,
    },
    /// The file is wrong, or changes what takes a stop and a start. Nothing was changed.
    Refused { reason: String },
    /// This host would not have the configuration. What had been changed was put
    /// back.
    Failed { reason: String },
}

impl ReloadOutcome {
    /// Counts it among those since the start.
    pub fn count(&self, reloads: &mut Reloads) {
        match self {
            Self::Applied { .. } => reloads.applied(),
            Self::Refused { .. } => reloads.refused(),
            Self::Failed { .. } => reloads.failed(),
        }
    }
}

/// Says why a file is not put in force.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("{}", restart_only(.0))]
    RestartOnly(Vec<&'static str>),
}

fn restart_only(fields: &[&str]) -> String {
    let (s, them) = if fields.len() == 1 { ("s", "it") } else { ("", "them") };
    format!(
        "{} change{s}, which takes a stop and a start (a restart goes on with what is in use): stop \
         the agent and start it, or set {them} back",
        fields.join(", ")
    )
}

/// Returns the number by which texts are known again; None for those that could not be
/// read.
pub fn fingerprint<T: Hash, E>(texts: &Result<T, E>) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    texts.as_ref().ok()?.hash(&mut hasher);
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use wad_policy::config::Texts;

    use super::*;

    #[test]
    fn outcomes_are_counted_and_a_good_one_ends_the_lag() {
        let mut reloads = Reloads::default();
        ReloadOutcome::Failed { reason: String::new() }.count(&mut reloads);
        ReloadOutcome::Refused { reason: String::new() }.count(&mut reloads);
        assert!(reloads.is_behind && reloads.loaded.is_none());
        ReloadOutcome::Applied { policy_set: 2, diff: Box::default() }.count(&mut reloads);
        assert!(!reloads.is_behind && reloads.loaded.is_some());
        assert_eq!((reloads.applied, reloads.refused, reloads.failed), (1, 1, 1));
    }

    #[test]
    fn an_outcome_is_read_back_from_its_json() {
        let diff = Diff { added: vec!["bob".to_owned()], unchanged: 3, ..Diff::default() };
        let applied = ReloadOutcome::Applied { policy_set: 4, diff: diff.into() };
        let json = serde_json::to_value(&applied).unwrap();
        assert_eq!(json["result"], "applied");
        assert_eq!(json["added"][0], "bob");
        assert_eq!(serde_json::from_value::<ReloadOutcome>(json).unwrap(), applied);
    }

    #[test]
    fn what_takes_a_stop_and_a_start_is_named() {
        let said = |fields: &[&'static str]| Refusal::RestartOnly(fields.to_vec()).to_string();
        assert_eq!(
            said(&["agent.state_dir"]),
            "agent.state_dir changes, which takes a stop and a start (a restart goes on with what is \
             in use): stop the agent and start it, or set it back"
        );
        assert!(said(&["agent.a", "agent.b"]).starts_with("agent.a, agent.b change, which"));
    }

    #[test]
    fn texts_are_known_again() {
        let texts = |text: &str| Ok::<_, ()>(Texts::of("wad.toml", text));
        assert_eq!(fingerprint(&texts("a")), fingerprint(&texts("a")));
        assert_ne!(fingerprint(&texts("a")), fingerprint(&texts("")));
        assert_eq!(fingerprint::<Texts, ()>(&Err(())), None);
    }
}
