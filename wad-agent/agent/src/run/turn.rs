//! A turn is the time for which the agent has the place of its instance: from the journal that
//! it finds to what it leaves.

use std::sync::{Arc, Mutex};

use anyhow::Result;
use tracing::warn;
use wad_linux::{lock::Lock, sysctl::Sysctl};
use wad_observing::sinks::Sinks;
use wad_policy::{
    config::{Config, Texts},
    switch,
};
use wad_toolbox::{mutex::locked, own_folder, signals::Stop};
use wad_tuning::{
    bpf,
    disabled_note::Note,
    journal::Journal,
    state_dir::{self, StateDir},
};

use super::{
    Agent, Begin, Own, events::End, evidence::Evidence, guarding::Guarding, known_pods,
    learning::Learning,
};
use crate::{measured, pods, probes, sets};

/// Tunes by a configuration until the agent is stopped, or leaves its place.
pub fn take(
    own: &Own<'_>,
    lock: Lock,
    stop: &mut Stop,
    (config, texts): (Config, Texts),
) -> Result<End> {
    let Own { options, runtime, .. } = own;
    let instance = &options.instance;
    let noted = StateDir::of(&lock);
    let state_dir = noted.noted()?.unwrap_or_else(|| config.agent.state_dir.clone());
    if let Some(words) = state_dir::told_of_other(&state_dir, &config.agent.state_dir) {
        warn!("{words}");
    }
    own_folder::guard(&state_dir)?;
    state_dir::remove_unfinished(&state_dir, instance.name());
    let journal = Journal::open(&state_dir, instance.name(), Sysctl::default())?;
    let note = Note::of(&state_dir, instance.name());
    let disabled = note.read()?;
    if !disabled.is_nothing() {
        warn!("{}; `wad enable` ends that", switch::summary(&disabled));
    }
    noted.note(&state_dir)?;
    if let Some(damage) = journal.damage() {
        warn!("{damage}");
    }

    let journal = Arc::new(Mutex::new(journal));
    let cache = measured::cache(&state_dir, instance.name());
    let sets = sets::Cache::new(&state_dir, instance.name());
    let learning = Learning::new(&state_dir, instance.name(), config.learn);
    let sinks = Arc::new(Sinks::start(&config.sinks, &state_dir, instance.name())?);
    sinks.recent().keep(config.page.is_some());
    let kept_by = (&*state_dir, instance.name());
    let guarding = Guarding::new(kept_by, Arc::clone(&sinks));
    let evidence = Evidence::new(kept_by, Arc::clone(&sinks), guarding.guards.clone());
    let agent = Agent {
        options,
        cgroup: Arc::clone(&own.cgroup),
        lock: &lock,
        log: &own.log,
        privileges: own.privileges,
        note,
        cache,
        sets,
        probes: probes::archive(&state_dir, instance.name()),
        sinks: Arc::clone(&sinks),
        experiments: evidence.experiments.clone(),
        guards: guarding.guards.clone(),
    };
    let pods = pods::Cache::new(&state_dir, instance.name());
    let pods = known_pods::Followed::nothing(pods);
    let begin = Begin { config, texts, disabled, learning, evidence, guarding, pods };
    let ended = runtime.block_on(agent.serve(&journal, stop, begin));
    sinks.finish();
    let mut journal = locked(&journal);
    // Tuning that is to stay, or that a failed start could not take over, goes on and
    // keeps what it needs; but nobody follows routes any more.
    let left = if bpf::exist(instance) {
        journal.undo_routes().map_err(anyhow::Error::from)
    } else {
        undo(&mut journal, &noted, &lock)
    };
    drop(lock);
    match (ended, left) {
        // An exit that failed would have it started again, and ask for the place.
        (Ok(ended @ End::HandedOver(_)), Err(error)) => {
            warn!("{error:#}");
            Ok(ended)
        }
        (ended, left) => first_error(ended, left),
    }
}

fn undo(journal: &mut Journal, noted: &StateDir, lock: &Lock) -> Result<()> {
    for left in journal.undo_at_end(lock)? {
        warn!("{left}");
    }
    Ok(noted.forget()?)
}

/// Both, as far as an exit status can tell: the second goes to the log.
fn first_error<T>(first: Result<T>, second: Result<()>) -> Result<T> {
    if let (Err(_), Err(error)) = (&first, &second) {
        warn!("{error:#}");
    }
    first.and_then(|first| second.map(|()| first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_reported() {
        let failed = |what: &'static str| Err(anyhow::anyhow!(what));
        let said = |result: Result<()>| result.unwrap_err().to_string();
        assert_eq!(said(first_error(failed("start"), failed("undo"))), "start");
        assert_eq!(said(first_error(Ok(()), failed("undo"))), "undo");
        assert_eq!(said(first_error(failed("start"), Ok(()))), "start");
        assert!(first_error(Ok(()), Ok(())).is_ok());
    }
}
