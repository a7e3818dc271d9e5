//! Guards get their ticks: it is read how flows get on, beside the event loop, and what guards say of
//! that is done.

mod guarded;
mod tell;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use tokio::time::{Interval, MissedTickBehavior, interval_at};
use tracing::{error, info, warn};
use wad_common::{health::Health, share};
use wad_evidence::{
    guard::{Change, Guard, Part, Sample, State, Step},
    saved,
};
use wad_observing::{events::guard, sinks::Sinks};
use wad_policy::{config::PathGuards, switch::LeftAlone};
use wad_toolbox::{causes::with_causes, mutex::locked, seldom::Seldom, shortage};
use wad_tuning::bpf::{HealthReader, Tuning, TuningError};

pub use self::guarded::{Guarded, Subjects};
use self::tell::tell;
use super::{
    adopting::Pass,
    beside::Beside,
    evidence::{Evidence, clocks},
    force::Force,
};
use crate::{
    guards::{Flows, Guards, Kept, Looked, Trip},
    state_file::StateFile,
};

/// The state of guards is kept at each change of theirs, and as often as this.
const KEEP_INTERVAL: Duration = Duration::from_secs(300);

/// How flows get on, read beside the event loop.
pub type Read = Result<Vec<Health>, TuningError>;

/// Gives guards their ticks.
pub struct Guarding {
    /// Shared with whoever answers questions, and whoever has experiments.
    pub guards: Guards,
    /// The paths that are guarded, in the order of the guards.
    guarded: Vec<Guarded>,
    every: Duration,
    /// None until they begin.
    ticks: Option<Interval>,
    reader: Arc<Mutex<Option<HealthReader>>>,
    reading: Beside<Read>,
    flows: Flows,
    /// Shares of new flows that policies have been given for the sake of a guard.
    given: HashMap<String, u32>,
    file: StateFile,
    kept_at: Instant,
    sinks: Arc<Sinks>,
    blind: Seldom,
}

impl Guarding {
    /// Knows what guards knew before.
    pub fn new((state_dir, instance): (&Path, &str), sinks: Arc<Sinks>) -> Self {
        let file = StateFile::new(state_dir, ("guards", instance), saved::MOST_BYTES as u64);
        let kept = file.read(saved::read::<Vec<Kept>>).unwrap_or_else(|error| {
            warn!("{}; guards begin anew", wad_toolbox::causes::told(&error));
            None
        });
        let every = PathGuards::default().every;
        Self {
            guards: Guards::new(kept.unwrap_or_default()),
            guarded: Vec::new(),
            every,
            ticks: None,
            reader: Arc::default(),
            reading: Beside::idle(),
            flows: Flows::default(),
            given: HashMap::new(),
            file,
            kept_at: Instant::now(),
            sinks,
            blind: Seldom::new(),
        }
    }

    /// Reads how flows get on, when it is time. Dropped before, it goes on at the next call.
    pub async fn next(&mut self, tuning: &Arc<Tuning>) -> Read {
        if !self.reading.is_busy() {
            if self.guarded.is_empty() {
                return std::future::pending().await;
            }
            self.ticks.get_or_insert_with(|| ticks(self.every)).tick().await;
            let (tuning, reader) = (Arc::clone(tuning), Arc::clone(&self.reader));
            self.reading.start(move || read(&mut locked(&reader), &tuning));
        }
        self.reading.done().await
    }

    /// Has guards follow what has come into force.
    pub fn follow(
        &mut self,
        guarded: Vec<Guarded>,
        config: &PathGuards,
        (force, evidence): (&mut Force<'_>, &Evidence),
    ) {
        let mut all = self.guards.all();
        let mut before: BTreeMap<String, Kept> =
            all.drain(..).map(|kept| (kept.path.clone(), kept)).collect();
        let mut changes = Vec::new();
        for Guarded { path, subject, .. } in &guarded {
            let mut kept = before.remove(path).unwrap_or_else(|| Kept {
                path: path.clone(),
                subject: subject.clone(),
                guard: Guard::new(config.settings),
                tripped: None,
            });
            kept.guard.set(config.settings);
            if kept.subject != *subject {
                kept.subject.clone_from(subject);
                let change = kept.guard.policy_is_another();
                changes.extend(change.map(|change| (path.clone(), change)));
            }
            all.push(kept);
        }
        drop(all);
        self.guarded = guarded;
        if !before.is_empty() {
            // The next agent is to hold nothing back that has no guard any more.
            self.keep();
        }
        if self.every != config.every {
            (self.every, self.ticks) = (config.every, None);
            self.flows.forget();
        }
        self.tell(&changes);
        self.apply(force, evidence);
    }

    /// Takes how flows get on, and does what guards say of that.
    pub fn tick(&mut self, read: Read, force: &mut Force<'_>, evidence: &Evidence) {
        let flows = match read {
            Ok(flows) => flows,
            Err(error) => {
                shortage::note(&error);
                self.flows.forget();
                if self.blind.may_say() {
                    warn!("guards see no connections: {}", with_causes(&error.into()));
                }
                return;
            }
        };
        let Looked { mut steps, passed } = self.flows.look(flows, Instant::now());
        let names = force.tuning().names_of(&steps.keys().copied().collect::<HashSet<_>>());
        let named = names.iter().filter_map(|(index, name)| Some((&**name, steps.remove(index)?)));
        let steps: HashMap<&str, Vec<(bool, Step)>> = named.collect();
        let is_at_rest = force.adopting.is_at_rest();
        let now = clocks().since_boot;
        let mut changes = Vec::new();
        for (kept, guarded) in self.guards.all().iter_mut().zip(&self.guarded) {
            // All have followed that are to.
            let back = if is_at_rest { kept.guard.is_back() } else { None };
            let change = kept.guard.tick(now, &sample(guarded, &steps, passed));
            for change in [back, change].into_iter().flatten() {
                if let Some(harm) = change.harm {
                    kept.tripped = Some(Trip { at: Timestamp::now(), harm });
                }
                changes.push((kept.path.clone(), change));
            }
        }
        self.tell(&changes);
        self.apply(force, evidence);
        if changes.iter().any(|(_, change)| matches!(change.to, State::InForce { .. })) {
            // Those that run come under it as well.
            force.adopt(Pass::All);
        }
        if !changes.is_empty() || self.kept_at.elapsed() >= KEEP_INTERVAL {
            self.keep();
        }
    }

    /// Has a policy in force that its guard holds back.
    pub fn release(
        &mut self,
        path: &str,
        force: &mut Force<'_>,
        evidence: &Evidence,
    ) -> Result<(), String> {
        let mut all = self.guards.all();
        let kept = all.iter_mut().find(|kept| kept.path == path);
        let kept = kept.ok_or_else(|| format!("no guard is over a path {path:?}"))?;
        let change = kept.guard.release();
        drop(all);
        let change = change.ok_or_else(|| "its guard does not hold it back".to_owned())?;
        info!(path, "somebody has ended what its guard did");
        self.tell(&[(path.to_owned(), change)]);
        self.apply(force, evidence);
        force.adopt(Pass::All);
        self.keep();
        Ok(())
    }

    /// Has the kernel side do what guards say by now.
    fn apply(&mut self, force: &mut Force<'_>, evidence: &Evidence) {
        // Before it is in force again: it is not to be for all at first.
        self.give_shares(force.tuning(), evidence);
        let held_back = self.guards.held_back();
        if held_back == force.left_alone.held_back {
            return;
        }
        let left_alone = LeftAlone { held_back, ..force.left_alone.clone() };
        match force.leave_alone(left_alone) {
            Ok(policy_set) => info!(policy_set, "guards have changed which policies are in force"),
            Err(error) => {
                // The next tick tries again.
                shortage::note(&error);
                error!("no guard is heeded: {}", with_causes(&error.into()));
            }
        }
    }

    fn give_shares(&mut self, tuning: &Tuning, evidence: &Evidence) {
        let all = self.guards.all();
        for Kept { path, guard, .. } in all.iter() {
            let own = (guard.share() * f64::from(share::ALL)).round() as u32;
            let of_experiment = evidence.share_of(path).filter(|_| !guard.restrains());
            // What is held back has its share when it comes back.
            let wanted = if guard.holds_back() { share::ALL } else { own };
            give(tuning, path, of_experiment.unwrap_or(wanted), &mut self.given);
        }
        let is_guarded = |path: &String| all.iter().any(|kept| kept.path == *path);
        let gone: Vec<_> = self.given.keys().filter(|path| !is_guarded(path)).cloned().collect();
        for path in gone {
            // An experiment that goes on gives it another at its next block.
            give(tuning, &path, share::ALL, &mut self.given);
        }
    }

    fn tell(&self, changes: &[(String, Change)]) {
        let dry_run = |path: &str| {
            let all = self.guards.all();
            all.iter().any(|kept| kept.path == path && kept.guard.settings().dry_run)
        };
        for (path, change) in changes {
            let is_dry = dry_run(path);
            tell(path, change, is_dry);
            if let Some(record) = guard::record(path, *change, is_dry, Timestamp::now()) {
                self.sinks.tell(&record);
            }
        }
    }

    fn keep(&mut self) {
        self.kept_at = Instant::now();
        let guards = self.guards.clone();
        self.file.keep(move || saved::text(&*guards.all()));
    }

    /// Writes down what is known, at last. Nobody watches any more: what is held back stays so.
    pub fn end(&self) {
        let all = self.guards.all();
        if !all.is_empty() {
            self.file.keep_now(saved::text(&*all));
        }
    }
}

fn ticks(every: Duration) -> Interval {
    let mut ticks = interval_at(tokio::time::Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Reads how flows get on; the first time it loads what does so.
fn read(reader: &mut Option<HealthReader>, tuning: &Tuning) -> Read {
    if reader.is_none() {
        *reader = Some(tuning.health_reader()?);
    }
    reader.as_ref().map_or_else(|| Ok(Vec::new()), HealthReader::read)
}

/// Gives a policy to a share of new flows, if it has another.
fn give(tuning: &Tuning, path: &str, wanted: u32, given: &mut HashMap<String, u32>) {
    if given.get(path).copied().unwrap_or(share::ALL) == wanted {
        return;
    }
    match tuning.set_share(path, wanted) {
        Ok(()) if wanted == share::ALL => _ = given.remove(path),
        Ok(()) => _ = given.insert(path.to_owned(), wanted),
        Err(error) => error!(path, "a guard is not heeded: {}", with_causes(&error.into())),
    }
}

/// Returns what the flows of a path and its neighbours have shown.
fn sample(guarded: &Guarded, steps: &HashMap<&str, Vec<(bool, Step)>>, passed: Duration) -> Sample {
    let of = |path: &str| steps.get(path).map_or(&[][..], Vec::as_slice);
    let own = of(&guarded.path)
        .iter()
        .map(|(is_tuned, step)| (if *is_tuned { Part::Tuned } else { Part::Untuned }, *step));
    let neighbours = guarded.neighbours.iter().flat_map(|path| of(path));
    let neighbours = neighbours.map(|(_, step)| (Part::Neighbours, *step));
    Sample::of(own.chain(neighbours), passed)
}
