//! Learns paths while the agent runs: it looks at the connections beside the event loop, and
//! says which paths are to be in force beside those of the file.

mod watcher;

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use ipnet::IpNet;
use jiff::Timestamp;
use tokio::time::{Instant, sleep_until};
use tracing::{error, info, warn};
use wad_observing::{
    learn::{Change, Known, Learner, Shown, kept_bytes, parse_kept},
    suggest::Found,
};
use wad_policy::{
    config::{Learn, PathPolicy},
    learned::{Covered, LearnedPath, covered},
};
use wad_toolbox::{causes::told, mutex::locked, seldom::Seldom};
use wad_tuning::{bpf::Tuning, journal::Journal};

pub use self::watcher::Seen;
use self::watcher::Watcher;
use super::{beside::Beside, bound::kernel_buffers, buffers::processor_time};
use crate::state_file::StateFile;

/// Connections are looked at so often...
const PAUSE: Duration = Duration::from_secs(2);
/// ...but looks take no more than this part of a processor's time.
const PART: u32 = 100;
/// How often it is written down which paths have connections.
const SAVE_INTERVAL: Duration = Duration::from_secs(3_600);
/// The most paths that can be learned take less than one MiB.
const MAX_BYTES: u64 = 4 << 20;

/// It holds what is learned, and learns more.
pub struct Learning {
    learner: Learner,
    /// As the configuration in force has it: None where nothing is learned.
    learn: Option<Learn>,
    file: StateFile,
    saved_at: Instant,
    watcher: Arc<Mutex<Watcher>>,
    looking: Beside<(Option<Seen>, Duration)>,
    next_look: Instant,
    /// Prefixes of the file's paths that are known to be around what was found: nothing is
    /// learned there.
    barred: Vec<IpNet>,
    /// That no more can be learned, or not be put in force.
    at_bound: Seldom,
    failed: Seldom,
    /// Shared with those who answer questions.
    told: Arc<Mutex<Vec<Known>>>,
}

impl Learning {
    /// Knows what was learned before, and looks at nothing yet.
    pub fn new(state_dir: &Path, instance: &str, learn: Option<Learn>) -> Self {
        let file = StateFile::new(state_dir, ("learned", instance), MAX_BYTES);
        let kept = file.read(parse_kept).unwrap_or_else(|error| {
            if learn.is_some() {
                warn!("{}; paths are learned anew", told(&error));
            }
            None
        });
        let learner = kept.unwrap_or_default();
        let now = Instant::now();
        Self {
            learner,
            learn: None,
            file,
            saved_at: now,
            watcher: Arc::default(),
            looking: Beside::idle(),
            next_look: now,
            barred: Vec::new(),
            at_bound: Seldom::new(),
            failed: Seldom::new(),
            told: Arc::default(),
        }
    }

    /// Returns the paths that are to be in force under a configuration that has this to say.
    pub fn paths(&self, learn: Option<Learn>) -> Vec<LearnedPath> {
        let Some(learn) = learn else { return Vec::new() };
        let mut learner = self.learner.clone();
        learner.bound(learn);
        learner.paths()
    }

    /// Takes for known what has been put in force: how paths are learned from now on, and
    /// which of them paths of the file are for.
    pub fn is_in_force(&mut self, learn: Option<Learn>, covered: &[Covered]) {
        if self.learn.is_some() && learn.is_none() {
            info!("paths are learned no more, and those that were are not in force");
        }
        self.learn = learn;
        self.barred.clear();
        if let Some(learn) = learn {
            let mut changes = self.learner.drop_covered(covered);
            changes.extend(self.learner.bound(learn));
            self.say(&changes);
            if changes.is_empty() { self.tell() } else { self.keep() }
        } else {
            locked(&self.told).clear();
        }
    }

    /// Shares what is learned.
    pub fn told(&self) -> Arc<Mutex<Vec<Known>>> {
        Arc::clone(&self.told)
    }

    /// Returns what connections showed, when it is time; never where nothing is learned.
    /// Whoever waits no longer may wait again.
    pub async fn next(&mut self, tuning: &Arc<Tuning>, journal: &Arc<Mutex<Journal>>) -> Seen {
        loop {
            if self.learn.is_none() {
                return std::future::pending().await;
            }
            if !self.looking.is_busy() {
                sleep_until(self.next_look).await;
                let (watcher, tuning) = (Arc::clone(&self.watcher), Arc::clone(tuning));
                let (journal, remotes) = (Arc::clone(journal), self.learner.remotes());
                self.looking.start(move || {
                    let begun = processor_time();
                    let kernel = kernel_buffers(&locked(&journal));
                    let seen = locked(&watcher).look(&tuning, &remotes, kernel);
                    (seen, processor_time().saturating_sub(begun))
                });
            }
            let (seen, took) = self.looking.done().await;
            self.next_look = Instant::now() + PAUSE.max(took.saturating_mul(PART));
            if let Some(seen) = seen {
                return seen;
            }
        }
    }

    /// Returns what was found where nothing is known to bar it. `paths` are asked for where
    /// there is news: those of the file, with the prefixes of their sets.
    pub fn allowed(
        &mut self,
        found: Vec<Found>,
        paths: impl FnOnce() -> Vec<PathPolicy>,
    ) -> Vec<Found> {
        let mut found = self.unbarred(found);
        let is_new = |it: &&Found| !self.learner.holds(it.path.remote);
        let new: Vec<_> = found.iter().filter(is_new).map(|it| it.path.remote).collect();
        if !new.is_empty() {
            self.barred.extend(covered(&new, &paths()).into_iter().map(|it| it.by));
            found = self.unbarred(found);
        }
        found
    }

    fn unbarred(&self, mut found: Vec<Found>) -> Vec<Found> {
        found.retain(|it| !self.barred.iter().any(|around| around.contains(&it.path.remote)));
        found
    }

    /// Takes in what connections showed. Returns what is to be in force then, if that is
    /// something else: it is to be told by [`Learning::has_changed`] that it is.
    pub fn hear(&mut self, found: &[Found], used: &[IpNet], interval: Duration) -> Option<News> {
        let learn = self.learn?;
        let mut learner = self.learner.clone();
        let shown = Shown { found, used, now: Timestamp::now() };
        let changes = learner.take(shown, learn, interval);
        if changes.iter().any(Change::is_one) {
            return Some(News { learner, changes });
        }
        self.learner = learner;
        self.say(&changes);
        if self.saved_at.elapsed() >= SAVE_INTERVAL {
            self.keep();
        } else {
            self.tell();
        }
        None
    }

    /// Says that what was heard is in force now.
    pub fn has_changed(&mut self, news: News) {
        let News { learner, changes } = news;
        self.learner = learner;
        self.failed.forget();
        let mut watcher = locked(&self.watcher);
        changes.iter().for_each(|change| watcher.forget(change.remote()));
        drop(watcher);
        self.say(&changes);
        self.keep();
    }

    /// Says that what was heard could not be put in force: it is tried again.
    pub fn stays_as_it_was(&mut self, reason: &str) {
        if self.failed.may_say() {
            error!("learned paths stay as they were, which is tried again: {reason}");
        }
    }

    /// Writes down what is learned, at last.
    pub fn save(&self) {
        if self.learn.is_some() {
            self.file.keep_now(kept_bytes(&self.learner));
        }
    }

    fn say(&mut self, changes: &[Change]) {
        for change in changes {
            let path = change.path();
            match change {
                Change::Full { .. } if !self.at_bound.may_say() => {}
                Change::Full { .. } => warn!(path, "{change}"),
                _ => info!(path, "{change}"),
            }
        }
    }

    fn keep(&mut self) {
        self.saved_at = Instant::now();
        let content = kept_bytes(&self.learner);
        self.file.keep(|| content);
        self.tell();
    }

    fn tell(&self) {
        *locked(&self.told) = self.learner.known().cloned().collect();
    }
}

/// This is learned once it is in force.
pub struct News {
    learner: Learner,
    changes: Vec<Change>,
}

impl News {
    /// Returns the paths that are to be in force.
    pub fn paths(&self) -> Vec<LearnedPath> {
        self.learner.paths()
    }
}
