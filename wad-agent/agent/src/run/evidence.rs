//! Experiments go from block to block: the policies of their paths are for all new connections,
//! or for none.

use std::{path::Path, sync::Arc, time::Duration};

use jiff::Timestamp;
use nix::time::{ClockId, clock_gettime};
use tokio::time::Instant;
use tracing::{debug, error, info, warn};
use wad_common::share;
use wad_evidence::{
    experiment::{Experiment, News},
    plan::Arm,
    saved,
    watch::{Clocks, Interruption},
};
use wad_observing::{events::experiment, sinks::Sinks};
use wad_policy::config::{ExperimentSettings, MOST_EXPERIMENTS, PathPolicy, subject};
use wad_toolbox::{
    causes::{told, with_causes},
    chance::chance,
    clock,
};
use wad_tuning::bpf::Tuning;

use crate::{
    evidence::{Begun, Experiments, Kept, at, end_words},
    guards::Guards,
    state_file::StateFile,
};

/// It is looked whether time goes on as it should.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Experiments that are kept, those that have ended included: the oldest of these go.
const MOST_KEPT: usize = 2 * MOST_EXPERIMENTS;

/// Holds the experiments, and when they are looked at.
pub struct Evidence {
    /// Shared with whoever follows flows, and whoever answers questions.
    pub experiments: Experiments,
    /// In a block in which one of these restrains a policy, nothing counts.
    guards: Guards,
    file: StateFile,
    sinks: Arc<Sinks>,
    /// A block begins then, or it is to be looked at the clocks.
    pub next_look: Instant,
}

/// A path that has an experiment, or has had one, as a configuration has it.
pub struct Wanted {
    path: String,
    subject: String,
    /// None where the configuration has no experiment for it.
    asked: Option<ExperimentSettings>,
}

impl Evidence {
    /// Knows what was found out before.
    pub fn new((state_dir, instance): (&Path, &str), sinks: Arc<Sinks>, guards: Guards) -> Self {
        let file = StateFile::new(state_dir, ("experiments", instance), saved::MOST_BYTES as u64);
        let kept = file.read(saved::read::<Vec<Kept>>).unwrap_or_else(|error| {
            warn!("{}; experiments begin anew", told(&error));
            None
        });
        let experiments = Experiments::new(kept.unwrap_or_default());
        Self { experiments, guards, file, sinks, next_look: Instant::now() }
    }

    /// Returns what a configuration that has these paths says of experiments.
    pub fn wanted(&self, paths: &[PathPolicy]) -> Vec<Wanted> {
        let kept = self.experiments.all();
        let is_meant = |path: &&PathPolicy| {
            path.experiment.is_some() || kept.iter().any(|kept| kept.path == path.name)
        };
        let wanted = paths.iter().filter(is_meant).map(|path| Wanted {
            path: path.name.clone(),
            subject: subject(path),
            asked: path.experiment.as_deref().cloned(),
        });
        wanted.collect()
    }

    /// Has experiments follow a configuration that has come into force: those that are about
    /// something else by now end, and new ones begin.
    pub fn follow(&mut self, wanted: &[Wanted], tuning: &Tuning) {
        let mut has_changed = false;
        for kept in self.experiments.all().iter_mut() {
            let of_path = wanted.iter().find(|wanted| wanted.path == kept.path);
            let Some(why) = why_over(kept, of_path) else { continue };
            let news = kept.experiment.stop();
            if !news.is_empty() {
                has_changed = true;
                info!(path = kept.path, "an experiment cannot go on: {why}");
                self.say(&kept.path, &news);
                self.give(tuning, &kept.path, Arm::Tuned);
            }
        }
        for Wanted { path, subject, asked } in wanted {
            let Some(asked) = asked else { continue };
            let is_it = |kept: &Kept| {
                kept.path == *path
                    && kept.subject == *subject
                    && kept.asked == *asked
                    && kept.begun == Begun::ByFile
            };
            let goes_on = self.experiments.all().iter().any(is_it);
            if goes_on {
                continue;
            }
            match self.begin(path, subject, asked, Begun::ByFile) {
                Ok(()) => has_changed = true,
                Err(why) => warn!(path, "there is no experiment: {why}"),
            }
        }
        if has_changed {
            self.keep();
        }
        self.look(tuning);
    }

    /// Begins an experiment by hand.
    pub fn start(
        &mut self,
        path: &PathPolicy,
        asked: &ExperimentSettings,
        tuning: &Tuning,
    ) -> Result<(), String> {
        let under_way = |kept: &&Kept| kept.experiment.end().is_none();
        let all = self.experiments.all();
        if all.iter().filter(under_way).any(|kept| kept.path == path.name) {
            return Err("one goes on: `wad experiment stop` ends it".to_owned());
        }
        if all.iter().filter(under_way).count() >= MOST_EXPERIMENTS {
            return Err(format!("{MOST_EXPERIMENTS} go on, and there are no more at a time"));
        }
        drop(all);
        self.begin(&path.name, &subject(path), asked, Begun::ByHand)?;
        self.look(tuning);
        self.keep();
        Ok(())
    }

    /// Ends an experiment by hand.
    pub fn stop(&mut self, path: &str, tuning: &Tuning) -> Result<(), String> {
        let mut all = self.experiments.all();
        let kept = all.iter_mut().find(|kept| kept.path == path);
        let news = kept.map(|kept| kept.experiment.stop()).unwrap_or_default();
        drop(all);
        if news.is_empty() {
            return Err(format!("no experiment goes on on a path {path:?}"));
        }
        self.say(path, &news);
        self.give(tuning, path, Arm::Tuned);
        self.keep();
        Ok(())
    }

    fn say(&self, path: &str, news: &[News]) {
        log(path, news);
        let now = Timestamp::now();
        for record in news.iter().filter_map(|news| experiment::record(path, *news, now)) {
            self.sinks.tell(&record);
        }
    }

    fn keep(&self) {
        let experiments = self.experiments.clone();
        self.file.keep(move || saved::text(&*experiments.all()));
    }

    /// Begins an experiment in the place of what is known of others on the path.
    fn begin(
        &self,
        path: &str,
        subject: &str,
        asked: &ExperimentSettings,
        begun: Begun,
    ) -> Result<(), String> {
        // Of 53 bits, as programs have them that read JSON.
        let seed = (chance() * (1_u64 << 53) as f64) as u64;
        let settings = asked.begin(clocks().wall, seed).map_err(|error| error.to_string())?;
        let plan = &settings.plan;
        info!(
            path,
            seed = plan.seed(),
            blocks = plan.blocks(),
            block_seconds = plan.length().as_secs_f64(),
            "an experiment begins at {}, and ends at {} at the latest",
            at(plan.start()),
            at(plan.end())
        );
        let mut all = self.experiments.all();
        all.retain(|kept| kept.path != path);
        let over = all.iter().position(|kept| kept.experiment.end().is_some());
        if let (true, Some(oldest)) = (all.len() >= MOST_KEPT, over) {
            all.remove(oldest);
        }
        let (path, subject, asked) = (path.to_owned(), subject.to_owned(), asked.clone());
        let experiment = Experiment::new(settings);
        all.push(Kept { path, begun, subject, asked, experiment });
        drop(all);
        Ok(())
    }

    /// Looks at the clocks, and has new connections get what the blocks say that begin.
    pub fn look(&mut self, tuning: &Tuning) {
        let now = clocks();
        let mut has_news = false;
        let mut next_look = LOOK_INTERVAL;
        for Kept { path, experiment, .. } in self.experiments.all().iter_mut() {
            let news = experiment.look(now);
            has_news |= !news.is_empty();
            self.say(path, &news);
            for news in news {
                match news {
                    News::Began(block) => self.give(tuning, path, block.arm),
                    News::Ended(_) => self.give(tuning, path, Arm::Tuned),
                    News::Counted { .. } | News::Thrown { .. } | News::Settled { .. } => {}
                }
            }
            if self.guards.restrain(path) {
                experiment.spoil(Interruption::HeldBack);
            }
            if let Some(next) = experiment.next_look(now.wall) {
                next_look = next_look.min(next.saturating_sub(now.wall));
            }
        }
        self.next_look = Instant::now() + next_look;
        if has_news {
            self.keep();
        }
    }

    /// Returns the share of new flows that a path's policy is for by its experiment, if one goes on.
    pub fn share_of(&self, path: &str) -> Option<u32> {
        let all = self.experiments.all();
        let kept = all.iter().find(|kept| kept.path == path)?;
        let goes_on = kept.experiment.end().is_none();
        goes_on.then(|| share_of(kept.experiment.arm(clocks().wall)))
    }

    /// Has new connections of a path get its policy, or the kernel's defaults. Those that get
    /// something else, as this has failed, do not count. What a guard has to say goes before.
    fn give(&self, tuning: &Tuning, path: &str, arm: Arm) {
        if self.guards.restrain(path) {
            return;
        }
        if let Err(error) = tuning.set_share(path, share_of(arm)) {
            let why = with_causes(&error.into());
            error!(path, "new connections get what they got before: {why}");
        }
    }

    /// Writes down what is known, at last. Nobody goes from block to block any more: tuning that
    /// stays is for all connections.
    pub fn end(&self, tuning: &Tuning) {
        let all = self.experiments.all();
        for kept in all.iter().filter(|kept| kept.experiment.end().is_none()) {
            self.give(tuning, &kept.path, Arm::Tuned);
        }
        if !all.is_empty() {
            self.file.keep_now(saved::text(&*all));
        }
    }
}

/// Says why an experiment cannot go on, as its path is in the configuration now.
fn why_over(kept: &Kept, wanted: Option<&Wanted>) -> Option<&'static str> {
    let Some(wanted) = wanted else { return Some("its path is gone") };
    match (&wanted.asked, kept.begun) {
        _ if wanted.subject != kept.subject => Some("the policy of its path is another one"),
        (None, Begun::ByFile) => Some("the configuration has it no more"),
        (Some(_), Begun::ByHand) => Some("the configuration has one now"),
        (Some(asked), Begun::ByFile) if *asked != kept.asked => {
            Some("the configuration has another one")
        }
        _ => None,
    }
}

/// Returns the share of new flows that get the policy.
const fn share_of(arm: Arm) -> u32 {
    match arm {
        Arm::Tuned => share::ALL,
        Arm::Default => 0,
    }
}

/// Logs what has happened. Of many blocks that do not count it says so once.
fn log(path: &str, news: &[News]) {
    let thrown: Vec<_> = news
        .iter()
        .filter_map(|news| match news {
            News::Thrown { block, reason } => Some((*block, *reason)),
            _ => None,
        })
        .collect();
    if let (Some((first, reason)), Some((last, _))) = (thrown.first(), thrown.last()) {
        if first == last {
            warn!(path, block = first, "a block does not count: {reason}");
        } else {
            warn!(path, "blocks {first} to {last} do not count: {reason}");
        }
    }
    for news in news {
        match news {
            News::Began(block) => {
                let gets = match block.arm {
                    Arm::Tuned => "the path's policy",
                    Arm::Default => "the kernel's defaults",
                };
                info!(path, block = block.number, "new connections get {gets}");
            }
            News::Counted { block, flows, .. } => debug!(path, block, flows, "a block counts"),
            News::Thrown { .. } => {}
            News::Settled { metric, verdict, pairs } => {
                info!(path, pairs, "verdict on {metric}: {verdict}");
            }
            News::Ended(end) => info!(path, "the experiment is over: {}", end_words(*end)),
        }
    }
}

/// Returns the clocks as they are.
pub fn clocks() -> Clocks {
    let now = |clock| clock_gettime(clock).map(Duration::from).unwrap_or_default();
    Clocks {
        wall: now(ClockId::CLOCK_REALTIME),
        since_boot: clock::now(),
        awake: now(ClockId::CLOCK_MONOTONIC),
    }
}

#[cfg(test)]
mod tests {
    use wad_policy::config::AskedExperiment;

    use super::*;

    fn asked(seed: u64) -> ExperimentSettings {
        let asked = AskedExperiment { seed: Some(seed), ..AskedExperiment::default() };
        asked.settle(&PathPolicy::default()).unwrap()
    }

    fn kept(begun: Begun) -> Kept {
        let asked = asked(1);
        let experiment = Experiment::new(asked.begin(Duration::from_secs(1), 0).unwrap());
        let (path, subject) = ("bob".to_owned(), "all".to_owned());
        Kept { path, begun, subject, asked, experiment }
    }

    #[test]
    fn an_experiment_ends_with_what_it_is_about() {
        let wanted = |subject: &str, asked| Wanted {
            path: "bob".to_owned(),
            subject: subject.to_owned(),
            asked,
        };
        let (by_file, by_hand) = (kept(Begun::ByFile), kept(Begun::ByHand));
        assert_eq!(why_over(&by_file, Some(&wanted("all", Some(asked(1))))), None);
        assert_eq!(why_over(&by_hand, Some(&wanted("all", None))), None);
        for (kept, wanted, why) in [
            (&by_file, None, "its path is gone"),
            (&by_hand, Some(wanted("other", None)), "the policy of its path is another one"),
            (&by_file, Some(wanted("all", None)), "the configuration has it no more"),
            (&by_file, Some(wanted("all", Some(asked(2)))), "the configuration has another one"),
            (&by_hand, Some(wanted("all", Some(asked(1)))), "the configuration has one now"),
        ] {
            assert_eq!(why_over(kept, wanted.as_ref()), Some(why));
        }
    }

    #[test]
    fn what_is_kept_is_read_again() {
        let all = vec![kept(Begun::ByFile), kept(Begun::ByHand)];
        let read = saved::read::<Vec<Kept>>(&saved::text(&all)).unwrap();
        let paths = |all: &[Kept]| all.iter().map(|kept| kept.begun).collect::<Vec<_>>();
        assert_eq!(paths(&read), paths(&all));
        assert_eq!(read[0].asked, all[0].asked);
    }
}
