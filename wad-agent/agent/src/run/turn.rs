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
    both(ended, left)
}

fn undo(journal: &mut Journal, noted: &StateDir, lock: &Lock) -> Result<()> {
    for left in journal.undo_at_end(lock)? {
        warn!("{left}");
    }
    Ok(noted.forget()?)
}

/// Returns how it ended, with what came after that, as far as an exit status can tell both: else
/// the second goes to the log. So it does where another agent has the place: an exit that failed
/// would have this one started again, and ask for it.
pub fn both(ended: Result<End>, after: Result<()>) -> Result<End> {
    match (ended, after) {
        (ended @ (Err(_) | Ok(End::HandedOver(_))), Err(error)) => {
            warn!("{error:#}");
            ended
        }
        (ended, after) => ended.and_then(|ended| after.map(|()| ended)),
    }
}

#[cfg(test)]
mod tests {
    use wad_policy::config::Texts;

    use super::*;

    #[test]
    fn the_first_error_is_reported_and_none_where_another_agent_has_the_place() {
        let failed = |what: &'static str| Err(anyhow::anyhow!(what));
        let said =
            |ended: Result<End>, after| both(ended, after).err().expect("an error").to_string();
        assert_eq!(said(Err(anyhow::anyhow!("start")), failed("undo")), "start");
        assert_eq!(said(Ok(End::Stopped), failed("undo")), "undo");
        assert_eq!(said(Err(anyhow::anyhow!("start")), Ok(())), "start");
        assert!(both(Ok(End::Stopped), Ok(())).is_ok());
        let handed_over = || Ok(End::HandedOver(Texts::of("wad.toml", "")));
        assert!(matches!(both(handed_over(), failed("undo")), Ok(End::HandedOver(_))));
    }
}
