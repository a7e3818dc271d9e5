//! The lists of prefixes that paths are for. A list that is broken, empty or gone never
//! counts: the last good one holds, which is kept across restarts.

mod addresses;
mod cache;
mod look;

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
};

use ipnet::IpNet;
use tokio::{sync::mpsc, task::JoinSet};
use tracing::{info, warn};
use wad_observing::metrics::SetReading;
use wad_policy::config::{HostChanges, PathPolicy, Prefixes, Set, SetPlace, fill, fit};
use wad_toolbox::{causes::told, mutex::locked};

pub use self::{
    cache::Cache,
    look::{InUse, News, SetError},
};
use self::{
    cache::Good,
    look::{Stamp, look_on, look_up_on, read_file},
};

/// The sets of a configuration.
pub struct Sets {
    held: Vec<Held>,
    cache: Cache,
    news: mpsc::Receiver<News>,
    /// For the tasks, until they are started.
    sender: Option<mpsc::Sender<News>>,
    /// They end with it.
    tasks: JoinSet<()>,
    /// Shared with those who answer questions.
    told: Arc<Mutex<Vec<SetReading>>>,
}

/// A set, and what is known of it.
struct Held {
    set: Set,
    /// The last good list; None where none has ever been read.
    good: Option<Good>,
    /// The version of its file that was read last.
    seen: Option<Stamp>,
    /// Why its list does not count, if it does not.
    failing: Option<String>,
}

impl Sets {
    /// Knows what was known before, or else what is on the disk; files are read. Nobody is
    /// asked yet.
    pub fn new(sets: &[Set], cache: Cache, before: Option<&Self>) -> Self {
        let mut kept = cache.read(sets).unwrap_or_else(|error| {
            warn!("{}; sets are read again", told(&error));
            BTreeMap::new()
        });
        let held = sets.iter().enumerate().map(|(place, set)| {
            let is_same =
                |other: &&Held| other.set.name == set.name && other.set.origin() == set.origin();
            let other = before.and_then(|before| before.held.iter().find(is_same));
            let mut own = Held {
                set: set.clone(),
                good: other.and_then(|it| it.good.clone()).or_else(|| kept.remove(&place)),
                seen: None,
                failing: other.and_then(|it| it.failing.clone()),
            };
            if let SetPlace::File(file) = &set.place
                && let Some(list) = read_file(set, file, &mut own.seen)
            {
                match list {
                    Ok(list) => own.takes(Good::now(list)),
                    Err(error) => own.refuses(&error),
                }
            }
            own
        });
        let held = held.collect();
        let (sender, news) = mpsc::channel(1);
        let told = before.map_or_else(Arc::default, |before| Arc::clone(&before.told));
        Self { held, cache, news, sender: Some(sender), tasks: JoinSet::new(), told }
    }

    /// Looks for the lists from now on. Needs a tokio runtime.
    pub fn start(&mut self, in_use: &InUse) {
        let Some(sender) = self.sender.take() else { return };
        for (place, held) in self.held.iter().enumerate() {
            let (set, sender) = (held.set.clone(), sender.clone());
            if held.set.place == SetPlace::Host {
                let known = held.good.as_ref().map_or_else(Vec::new, |it| it.prefixes.to_vec());
                let in_use = Arc::clone(in_use);
                self.tasks.spawn(look_up_on(place, (set, known), in_use, sender));
            } else {
                self.tasks.spawn(look_on(place, set, held.seen, sender));
            }
        }
        self.keep();
        self.tell();
    }

    /// Waits for news; for ever where there are no sets.
    pub async fn next(&mut self) -> News {
        match self.news.recv().await {
            Some(news) => news,
            None => std::future::pending().await,
        }
    }

    /// Gives paths the prefixes that their sets hold. A list that does not fit with the
    /// others holds no more.
    pub fn fill(&mut self, paths: &mut Vec<PathPolicy>, host: &HostChanges) {
        if paths.iter().all(|path| path.origin.lists().next().is_none()) {
            return;
        }
        let of_file = paths.clone();
        fill(paths, &self.prefixes());
        if fit(paths, host).is_ok() {
            return;
        }
        let mut fitting = Prefixes::new();
        for held in &mut self.held {
            let Some(good) = &held.good else { continue };
            fitting.insert(held.set.name.clone(), Arc::clone(&good.prefixes));
            let mut filled = of_file.clone();
            fill(&mut filled, &fitting);
            if let Err(unfit) = fit(&filled, host) {
                fitting.remove(&held.set.name);
                held.good = None;
                held.refuses(&unfit.into());
            }
        }
        paths.clone_from(&of_file);
        fill(paths, &fitting);
    }

    /// Takes in news, with the paths as the file has them. Returns what the set held before,
    /// if it holds something else now that is to be put in force.
    pub fn hear(
        &mut self,
        news: News,
        (paths, host): (&[PathPolicy], &HostChanges),
    ) -> Option<Before> {
        let News { place, list } = news;
        let held = &mut self.held[place];
        let before = match list {
            Err(error) => {
                held.refuses(&error);
                None
            }
            Ok(list) if held.good.as_ref().is_some_and(|good| *good.prefixes == *list) => {
                held.takes(Good::now(list));
                None
            }
            Ok(list) => {
                let good = held.good.replace(Good::now(list));
                let mut filled = paths.to_vec();
                fill(&mut filled, &self.prefixes());
                let before = Before { place, good };
                match fit(&filled, host) {
                    Ok(()) => return Some(before),
                    Err(unfit) => Some((before, unfit)),
                }
            }
        };
        match before {
            Some((before, unfit)) => self.put_back(before, &unfit.into()),
            None => self.tell(),
        }
        None
    }

    /// Returns the name of the set that has changed.
    pub fn name(&self, before: &Before) -> &str {
        &self.held[before.place].set.name
    }

    /// Says that what a set holds now is in force.
    pub fn is_in_force(&mut self, before: &Before) {
        let held = &mut self.held[before.place];
        if let Some(good) = held.good.clone() {
            let prefixes = good.prefixes.len();
            info!(set = held.set.name, prefixes, "the set has changed, and is in force");
            held.takes(good);
        }
        self.keep();
        self.tell();
    }

    /// Has a set hold what it held before, as the rest could not be put in force.
    pub fn put_back(&mut self, before: Before, error: &SetError) {
        let held = &mut self.held[before.place];
        held.good = before.good;
        held.refuses(error);
        self.tell();
    }

    /// Shares how the sets are.
    pub fn told(&self) -> Arc<Mutex<Vec<SetReading>>> {
        Arc::clone(&self.told)
    }

    fn prefixes(&self) -> Prefixes {
        let good = |held: &Held| {
            let good = held.good.as_ref()?;
            Some((held.set.name.clone(), Arc::clone(&good.prefixes)))
        };
        self.held.iter().filter_map(good).collect()
    }

    fn keep(&self) {
        if !self.held.is_empty() {
            let good = self.held.iter().filter_map(|held| Some((&held.set, held.good.as_ref()?)));
            self.cache.keep(good);
        }
    }

    fn tell(&self) {
        let reading = |Held { set, good, failing, .. }: &Held| SetReading {
            name: set.name.clone(),
            prefixes: good.as_ref().map_or(0, |good| good.prefixes.len() as u64),
            read_at: good.as_ref().map(|good| good.read_at),
            failing: failing.clone(),
        };
        *locked(&self.told) = self.held.iter().map(reading).collect();
    }
}

/// The list that a set held before.
pub struct Before {
    place: usize,
    good: Option<Good>,
}

impl Held {
    fn takes(&mut self, good: Good) {
        self.good = Some(good);
        if self.failing.take().is_some() {
            info!(set = self.set.name, "its list is as it should be again");
        }
    }

    /// Keeps the list before. What is wrong is said once.
    fn refuses(&mut self, error: &SetError) {
        let why = told(error);
        if self.failing.as_ref() != Some(&why) {
            let instead = match self.good {
                Some(_) => "the last good list holds",
                None => "no connection is its paths' by it until there is a good one",
            };
            warn!(set = self.set.name, "{why}; {instead}");
        }
        self.failing = Some(why);
    }
}

/// Reads a set's file as it is now.
///
/// # Errors
/// Tells why its list does not count.
pub fn read_now(set: &Set, file: &Path) -> Result<Vec<IpNet>, String> {
    let list = read_file(set, file, &mut None).expect("no version of it was seen");
    list.map_err(|error| told(&error))
}

/// Returns what sets hold without an agent: by their files, or what one before has kept.
pub fn without_agent(sets: &[Set], state_dir: &Path, instance: &str) -> Prefixes {
    // Others may not be allowed to read it.
    let mut kept = Cache::new(state_dir, instance).read(sets).unwrap_or_default();
    let known = sets.iter().enumerate().filter_map(|(place, set)| {
        let of_file = match &set.place {
            SetPlace::File(file) => read_now(set, file).ok(),
            SetPlace::Url(_) | SetPlace::Host => None,
        };
        let kept = kept.remove(&place).map(|good| good.prefixes);
        Some((set.name.clone(), of_file.map(Arc::from).or(kept)?))
    });
    known.collect()
}

#[cfg(test)]
mod tests;
