//! `wad cleanup`: takes out of the kernel what an agent that died left there,
//! and undoes what it changed on the host.

use std::{
    fmt::{self, Display},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use wad_agent::own_lock::{self, Folders};
use wad_linux::{bpffs, lock::Lock, sysctl::Sysctl};
use wad_observing::log;
use wad_policy::config::{Agent, Config, Host, Log};
use wad_toolbox::own_folder;
use wad_tuning::{
    bpf::{self, Pins},
    disabled_note::Note,
    journal::Journal,
    state_dir::{StateDir, remove_unfinished},
};

use crate::{
    arguments::{Ask, ConfigFile},
    error::CommandError,
    output,
    progress::Progress,
};

#[derive(Debug, Args)]
pub struct Cleanup {
    /// Only rules and routes, which lead astray once nobody follows the host's own;
    /// tuning goes on
    #[arg(long, conflicts_with = "json")]
    pub routes: bool,
    #[command(flatten)]
    pub config: ConfigFile,
    #[command(flatten)]
    pub ask: Ask,
}

/// Says what was taken out and undone, as `--json` prints it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Cleaned {
    instance: String,
    /// Tuning was in the kernel, and is removed.
    tuning_removed: bool,
    /// Changes to the host were left, and are undone.
    changes_undone: bool,
    /// The journal of changes could not be read to its end: there may have been more.
    changes_unknown: bool,
    /// Changes that are left as they are, as others had a hand in them; a sentence each.
    left: Vec<String>,
    /// Disabled paths are enabled again from the next start on.
    enabled_again: bool,
}

impl Display for Cleaned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.left.iter().try_for_each(|left| writeln!(f, "{left}"))?;
        if self.enabled_again {
            writeln!(f, "what was disabled is enabled again from the next start on")?;
        }
        let tuning = tuning(self.tuning_removed);
        let changes = match (self.changes_undone, self.changes_unknown) {
            (true, false) => "changes to the host undone",
            (true, true) => "changes to the host undone as far as they are known",
            (false, false) => "no change to the host was left",
            (false, true) => "changes to the host are not known",
        };
        writeln!(f, "instance `{}`: {tuning}, {changes}", self.instance)
    }
}

const fn tuning(is_removed: bool) -> &'static str {
    if is_removed { "tuning removed from the kernel" } else { "no tuning was in the kernel" }
}

/// Does it all; where nothing was left, says so.
pub fn run(args: &Cleanup) -> Result<()> {
    let _log = log::init(Log::default())?;
    let instance = &args.ask.instance.name;
    // Not while an agent runs: it would be left with nothing.
    let lock = own_lock::take(&Folders::of_host(), instance)?;
    if args.routes {
        return remove_routes(&lock, args);
    }
    // The kernel first: that has to work whatever the configuration is like.
    let tuning_removed = bpffs::is_mounted() && bpf::exist(instance);
    if bpffs::is_mounted() {
        Pins::new(&lock, instance).remove()?;
    }
    let noted = StateDir::of(&lock);
    let state_dir = state_dir(&noted, &args.config.file).with_context(|| {
        let tuning = tuning(tuning_removed);
        format!(
            "{tuning}, but [agent] state_dir is not known, so the journal of changes to the host \
             was not looked at; correct the configuration, or remove it if state_dir is the \
             default, and run `wad cleanup` again"
        )
    })?;
    own_folder::guard(&state_dir)?;
    remove_unfinished(&state_dir, instance.name());
    let mut journal = Journal::open(&state_dir, instance.name(), Sysctl::default())?;
    let progress = Progress::of("undoing what was changed");
    let changes_undone = journal.changes().next().is_some();
    let left = journal.undo_at_end(&lock)?.iter().map(ToString::to_string).collect();
    drop(progress);
    noted.forget()?;
    let cleaned = Cleaned {
        instance: instance.name().to_owned(),
        tuning_removed,
        changes_undone,
        changes_unknown: journal.damage().is_some(),
        left,
        enabled_again: Note::of(&state_dir, instance.name()).remove()?,
    };
    if args.ask.json { output::print_json(&cleaned) } else { output::print(&cleaned) }?;
    journal.damage().map_or(Ok(()), |damage| Err(CommandError::Journal(damage.clone()).into()))
}

/// Removes the routes, as the agent would have, had it not been killed.
fn remove_routes(lock: &Lock, args: &Cleanup) -> Result<()> {
    let state_dir = state_dir(&StateDir::of(lock), &args.config.file)?;
    Ok(Journal::open(&state_dir, args.ask.instance.name.name(), Sysctl::default())?
        .undo_routes()?)
}

/// Returns where the journal is: as the agent noted it, as configured, or the default
/// where the configuration has been removed already.
fn state_dir(noted: &StateDir, config: &Path) -> Result<PathBuf> {
    if let Some(dir) = noted.noted()? {
        Ok(dir)
    } else if config.exists() {
        Ok(Config::load(config, &Host::read()?)?.agent.state_dir)
    } else {
        Ok(Agent::default().state_dir)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_journal_is_found_under_a_configuration_that_is_bad_or_gone() {
        let run = tempfile::tempdir().unwrap();
        let lock = Lock::take(run.path(), "default", "version 1").unwrap();
        let noted = StateDir::of(&lock);
        let config = run.path().join("wad.toml");
        assert_eq!(state_dir(&noted, &config).unwrap(), Agent::default().state_dir);
        fs::write(&config, "[agent]\nstate_dir = '/srv/wad'\n").unwrap();
        assert_eq!(state_dir(&noted, &config).unwrap(), Path::new("/srv/wad"));

        let path = "[[path]]\nname = 'p'\nremote = '192.0.2.1'\ncongestion = 'wad_gone'\n";
        fs::write(&config, path).unwrap();
        assert!(state_dir(&noted, &config).unwrap_err().to_string().contains("wad_gone"));
        noted.note(Path::new("/srv/wad")).unwrap();
        assert_eq!(state_dir(&noted, &config).unwrap(), Path::new("/srv/wad"));
    }
}
