//! A configuration read again while the agent runs: by `wad reload`, on SIGHUP,
//! and when the file changes. It is put in force whole, or nothing is changed.

mod diff;
mod show;
mod watch;

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::{Duration, SystemTime},
};

use anyhow::{Result, bail};
use hyper::Method;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

pub use self::{
    diff::{Diff, Fingerprints, InForce},
    watch::Watch,
};
use crate::{
    cli, output,
    status::client::{self, Request},
};

/// Room for a configuration of 100,000 paths on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where to answer whoever asked for a reload.
pub type Answer = oneshot::Sender<Outcome>;

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Outcome {
    /// The file's paths and limits are in force.
    Applied {
        policy_set: u64,
        #[serde(flatten)]
        diff: Diff,
    },
    /// The file is wrong, or changes what takes a restart. Nothing was changed.
    Refused { reason: String },
    /// This host would not have it. What had been changed was put back.
    Failed { reason: String },
}

/// Why a file is not put in force.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("{}", restart_only(.0))]
    RestartOnly(Vec<&'static str>),
}

fn restart_only(fields: &[&str]) -> String {
    let (s, them) = if fields.len() == 1 { ("s", "it") } else { ("", "them") };
    format!(
        "{} change{s}, which takes a restart: restart the agent, or set {them} back",
        fields.join(", ")
    )
}

/// Reloads since the start, by what came of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reloads {
    pub applied: u64,
    pub refused: u64,
    pub failed: u64,
    /// Whether the last one was not applied: what runs is not what the file says.
    pub is_behind: bool,
    /// When the configuration in force was read.
    pub loaded: Option<SystemTime>,
}

impl Reloads {
    /// None so far: the start has just read the configuration.
    #[must_use]
    pub fn start() -> Self {
        Self { loaded: Some(SystemTime::now()), ..Self::default() }
    }

    pub fn count(&mut self, outcome: &Outcome) {
        let count = match outcome {
            Outcome::Applied { .. } => {
                self.loaded = Some(SystemTime::now());
                &mut self.applied
            }
            Outcome::Refused { .. } => &mut self.refused,
            Outcome::Failed { .. } => &mut self.failed,
        };
        *count += 1;
        self.is_behind = !matches!(outcome, Outcome::Applied { .. });
    }
}

/// By which a text is known again; None for one that could not be read.
pub fn fingerprint<E>(text: &Result<String, E>) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    text.as_ref().ok()?.hash(&mut hasher);
    Some(hasher.finish())
}

/// `wad reload`.
pub fn run(args: &cli::Ask) -> Result<()> {
    let request =
        Request { method: Method::POST, patience: PATIENCE, ..Request::get("/v1/reload") };
    let outcome: Outcome = client::ask_instance(&args.instance.name, &request)?;
    if args.json {
        output::print_json(&outcome)?;
    }
    match outcome {
        Outcome::Applied { policy_set, diff } if !args.json => show::print(policy_set, &diff),
        Outcome::Applied { .. } => Ok(()),
        Outcome::Refused { reason } => bail!("nothing was changed: {reason}"),
        Outcome::Failed { reason } => bail!("put back as it was: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_counted_and_a_good_one_ends_the_lag() {
        let mut reloads = Reloads::default();
        reloads.count(&Outcome::Failed { reason: String::new() });
        reloads.count(&Outcome::Refused { reason: String::new() });
        assert!(reloads.is_behind && reloads.loaded.is_none());
        reloads.count(&Outcome::Applied { policy_set: 2, diff: Diff::default() });
        assert_eq!((reloads.applied, reloads.refused, reloads.failed), (1, 1, 1));
        assert!(!reloads.is_behind && reloads.loaded.is_some());
    }

    #[test]
    fn an_outcome_is_read_back_from_its_json() {
        let diff = Diff { added: vec!["bob".to_owned()], unchanged: 3, ..Diff::default() };
        let applied = Outcome::Applied { policy_set: 4, diff };
        let json = serde_json::to_value(&applied).unwrap();
        assert_eq!(json["result"], "applied");
        assert_eq!(json["added"][0], "bob");
        assert_eq!(serde_json::from_value::<Outcome>(json).unwrap(), applied);
    }

    #[test]
    fn what_takes_a_restart_is_named() {
        let said = |fields: &[&'static str]| Refusal::RestartOnly(fields.to_vec()).to_string();
        assert_eq!(
            said(&["metrics.listen"]),
            "metrics.listen changes, which takes a restart: restart the agent, or set it back"
        );
        assert!(said(&["log.format", "metrics.listen"]).starts_with("log.format, metrics.listen"));
    }

    #[test]
    fn a_text_is_known_again() {
        let text = |text: &str| Ok::<_, ()>(text.to_owned());
        assert_eq!(fingerprint(&text("a")), fingerprint(&text("a")));
        assert_ne!(fingerprint(&text("a")), fingerprint(&text("")));
        assert_eq!(fingerprint::<()>(&Err(())), None);
    }
}
