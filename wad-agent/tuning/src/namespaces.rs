//! Settings that no option of a socket gives are made in the network namespaces that the
//! paths' flows are in: room for buffers that the kernel sizes, metrics of routes, the lengths of
//! transmit queues. Which those are is seen from the flows themselves. A namespace that
//! has had none for a while is left as it was found.

mod standing;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ops::ControlFlow,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow, ensure};
use tokio::sync::watch;
use tracing::{info, warn};
use wad_common::growth::Holding;
use wad_linux::{
    netns::{self, Identity, Skipped, Which},
    privileges,
};
use wad_policy::config::{
    PathPolicy, TransmitQueue,
    route_rules::{RouteMetrics, Selected},
};
use wad_toolbox::{causes::with_causes, mutex::locked, shortage};

pub use self::standing::{Place, Standing};
use crate::{
    ceilings::Ceilings,
    journal::{Journal, JournalError},
    routes::{self, Follower},
};

/// Namespaces have something of ours at a time, at most: each with routes has a thread and
/// a process that sees to them.
pub const MAX_NAMESPACES: usize = 64;

/// To follow routes in a namespace takes so many descriptors, rounded up.
const DESCRIPTORS_EACH: u64 = 8;
/// All else that the agent does takes about so many.
const DESCRIPTORS_BESIDE: u64 = 64;
/// A namespace is left so long after its last flow: others may come soon.
const STAY: Duration = Duration::from_secs(60);
/// A namespace gets what is wanted of it again after so long: that may have failed, or a container
/// was restarted, whose new namespace has the number of the one before.
const AGAIN: Duration = Duration::from_secs(60);

/// A path needs this where its flows are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    path: Arc<str>,
    /// Either buffer, where the kernel sizes both.
    tuned_bytes: u64,
    has_metrics: bool,
}

impl Needs {
    /// Returns what a path needs; None for nothing.
    pub fn of(path: &PathPolicy, has_routes: bool) -> Option<Self> {
        let tuned_bytes = Ceilings::of(std::slice::from_ref(path)).tuned_bytes;
        let has_metrics = has_routes && !RouteMetrics::of(path).is_nothing();
        (tuned_bytes > 0 || has_metrics).then(|| Self {
            path: Arc::from(path.name.as_str()),
            tuned_bytes,
            has_metrics,
        })
    }
}

/// Paths' flows need this where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Paths need these, by the index of their policy.
    pub needs: HashMap<u32, Needs>,
    /// Any flow's namespace gets these lengths.
    pub queues: Vec<TransmitQueue>,
}

/// A namespace is to have this, of all paths whose flows are in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    paths: BTreeSet<Arc<str>>,
    tuned_bytes: u64,
    has_metrics: bool,
}

impl Wants {
    fn is_nothing(&self) -> bool {
        self.needs.is_empty() && self.queues.is_empty()
    }

    /// Returns what the namespaces of these flows are to have, by inode.
    fn of(&self, flows: &[Holding]) -> HashMap<u64, Wanted> {
        let mut all: HashMap<u64, Wanted> = HashMap::new();
        let pairs: HashSet<(u32, u32)> =
            flows.iter().map(|flow| (flow.netns, flow.holder.policy)).collect();
        for (inode, policy) in pairs {
            let needs = self.needs.get(&policy);
            if needs.is_none() && self.queues.is_empty() {
                continue;
            }
            let wanted = all.entry(inode.into()).or_default();
            if let Some(needs) = needs {
                wanted.paths.insert(Arc::clone(&needs.path));
                wanted.tuned_bytes = wanted.tuned_bytes.max(needs.tuned_bytes);
                wanted.has_metrics |= needs.has_metrics;
            }
        }
        all
    }
}

/// A pass goes with these, in which others have a hand meanwhile.
#[derive(Debug)]
pub struct Means {
    pub wants: Arc<Wants>,
    /// The rules of routes, as they are at any time.
    pub rules: watch::Receiver<Vec<Selected>>,
    /// It is had for one namespace at a time.
    pub journal: Arc<Mutex<Journal>>,
    /// Says that no other namespace is to be gone to.
    pub stop: Arc<AtomicBool>,
}

/// A pass came to this.
#[derive(Clone, Copy, Debug, Default)]
pub struct Followed {
    pub skipped: Skipped,
    /// The journal has changed.
    pub has_changed: bool,
}

/// A namespace that has something of ours, or is to have it.
#[derive(Debug)]
struct Held {
    wanted: Wanted,
    /// The last flow was seen then.
    seen: Instant,
    /// It gets what is wanted again then.
    again: Instant,
    /// It has been told of.
    is_told: bool,
    /// The last try ended so: what failed, in words.
    failed: Option<String>,
    follower: Option<Follower>,
    routes: routes::Standing,
}

#[derive(Debug, Default)]
pub struct Namespaces {
    /// By inode.
    held: HashMap<u64, Held>,
    /// These were wanted at the last pass; None before the first.
    wants: Option<Arc<Wants>>,
    /// So many more were wanted when it was said last.
    said_beyond: usize,
    standing: Standing,
}

impl Namespaces {
    /// Holds those that an agent before this one has changed. How it stands is told from
    /// now on.
    pub fn new(changed: &HashSet<Identity>, standing: Standing) -> Self {
        let now = Instant::now();
        let held = changed.iter().map(|place| (place.inode(), Held::new(now))).collect();
        Self { held, wants: None, said_beyond: 0, standing }
    }

    /// Whether a pass would do nothing, wherever flows are.
    #[must_use]
    pub fn is_idle(&self, wants: &Wants) -> bool {
        wants.is_nothing() && self.held.is_empty()
    }

    /// Puts in force where flows are what is to be there, and leaves namespaces as they were
    /// where none are: a pass, of one namespace at a time.
    pub fn follow(&mut self, flows: &[Holding], means: &Means) -> Followed {
        let now = Instant::now();
        let Ok(own) = Identity::own() else { return Followed::default() };
        let is_another = self.wants.as_ref() != Some(&means.wants);
        let mut wanted = means.wants.of(flows);
        // Its own is the host's.
        wanted.remove(&own.inode());
        let gone = self.gone(&wanted, is_another, now);
        let (changing, beyond) = self.changing(wanted, is_another, now);
        let mut followed = Followed::default();
        if !gone.is_empty() || !changing.is_empty() {
            followed.has_changed = true;
            followed.skipped = self.visit(gone, changing, means);
        }
        if !means.stop.load(Ordering::Relaxed) {
            self.wants = Some(Arc::clone(&means.wants));
        }
        self.say_beyond(beyond.len());
        self.tell(beyond);
        followed
    }

    /// Returns those that are to be left: without flows for long, or since something else is
    /// wanted, or kept alive by nobody but who follows routes there.
    fn gone(&self, wanted: &HashMap<u64, Wanted>, is_another: bool, now: Instant) -> HashSet<u64> {
        let idle = || self.held.iter().filter(|(inode, _)| !wanted.contains_key(inode));
        let followed: HashSet<u64> =
            idle().filter_map(|(inode, held)| held.follower.is_some().then_some(*inode)).collect();
        let alive =
            if followed.is_empty() { Ok(HashSet::new()) } else { netns::held_by_others(&followed) };
        let is_alone = |inode: &u64| {
            followed.contains(inode) && alive.as_ref().is_ok_and(|alive| !alive.contains(inode))
        };
        let is_gone = |inode: &u64, held: &Held| {
            is_another || is_alone(inode) || now.duration_since(held.seen) >= STAY
        };
        idle().filter_map(|(inode, held)| is_gone(inode, held).then_some(*inode)).collect()
    }

    /// Returns those that are to get something, and those that there is no room for.
    fn changing(
        &mut self,
        wanted: HashMap<u64, Wanted>,
        is_another: bool,
        now: Instant,
    ) -> (HashMap<u64, Wanted>, Vec<(u64, Wanted)>) {
        let (mut changing, mut beyond) = (HashMap::new(), Vec::new());
        let mut room = MAX_NAMESPACES.saturating_sub(self.held.len());
        for (inode, wanted) in wanted {
            match self.held.get_mut(&inode) {
                Some(held) => {
                    held.seen = now;
                    let is_due = now >= held.again;
                    if held.wanted != wanted || is_another || is_due {
                        changing.insert(inode, wanted);
                    }
                }
                None if room == 0 => beyond.push((inode, wanted)),
                None => {
                    room -= 1;
                    changing.insert(inode, wanted);
                }
            }
        }
        (changing, beyond)
    }

    /// Goes to those that are to be left, and those that are to get something. Those that
    /// it should have gone to, and has not, are counted.
    fn visit(
        &mut self,
        mut gone: HashSet<u64>,
        mut changing: HashMap<u64, Wanted>,
        means: &Means,
    ) -> Skipped {
        // Nobody puts routes back from here on; their threads and processes end together.
        let ending = self.held.iter_mut().filter(|(inode, _)| gone.contains(inode));
        let mut followers: Vec<_> = ending.filter_map(|(_, held)| held.follower.take()).collect();
        followers.iter_mut().for_each(Follower::end_soon);
        drop(followers);
        let all: HashSet<u64> = gone.iter().chain(changing.keys()).copied().collect();
        let mut skipped = Skipped::default();
        let walked = netns::at_each(Which::These(&all), |place, entered| {
            if means.stop.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            let inode = place.inode();
            let entered = entered.map_err(|source| JournalError::Entering { inode, source });
            if let Some(wanted) = changing.remove(&inode) {
                skipped.closed += u64::from(entered.is_err());
                self.take(inode, wanted, |held, may_follow| {
                    entered?;
                    held.put(place, may_follow, means)
                });
            } else if gone.remove(&inode) {
                self.leave(place, entered, means);
            }
            ControlFlow::Continue(())
        });
        match walked {
            Ok(_) if means.stop.load(Ordering::Relaxed) => {}
            Ok(walked) => {
                skipped.unseen = walked.unseen;
                skipped.missing = changing.len() as u64;
                for (inode, wanted) in changing {
                    self.take(inode, wanted, |_, _| Err(anyhow!(UNSEEN)));
                }
                for inode in gone {
                    self.forget(inode, means);
                }
            }
            Err(error) => {
                shortage::note(&error);
                let reason = with_causes(&error.into());
                for (inode, wanted) in changing {
                    self.take(inode, wanted, |_, _| Err(anyhow!(reason.clone())));
                    // It is for want of something that may come at any time.
                    self.held.entry(inode).and_modify(|held| held.again = held.seen);
                }
            }
        }
        skipped
    }

    /// Has a namespace get what is wanted of it. `put` is told whether one more may have its
    /// routes followed.
    fn take(
        &mut self,
        inode: u64,
        wanted: Wanted,
        put: impl FnOnce(&mut Held, bool) -> Result<()>,
    ) {
        let now = Instant::now();
        let followers = self.held.values().filter(|held| held.follower.is_some()).count();
        let held = self.held.entry(inode).or_insert_with(|| Held::new(now));
        held.wanted = wanted;
        held.again = now + AGAIN;
        let failed = put(held, followers < most_followers()).err();
        held.say(inode, failed.as_ref().map(with_causes));
        if let Some(error) = failed {
            shortage::note(error.as_ref());
        }
    }

    /// Leaves a namespace, which the calling thread is in, as it was found.
    fn leave(&mut self, place: Identity, entered: Result<(), JournalError>, means: &Means) {
        self.held.remove(&place.inode());
        match entered.and_then(|()| locked(&means.journal).leave(place)) {
            Ok(left) => left.into_iter().for_each(|left| warn!("{left}")),
            Err(error) => warn!(
                namespace = place.inode(),
                "what was changed in a network namespace stays: {}",
                with_causes(&error.into())
            ),
        }
    }

    /// A namespace is gone, or out of sight.
    fn forget(&mut self, inode: u64, means: &Means) {
        self.held.remove(&inode);
        let forgotten = Identity::of_inode(inode)
            .map_err(|source| JournalError::Namespace { source })
            .and_then(|place| locked(&means.journal).forget(place));
        if let Err(error) = forgotten {
            warn!("{}", with_causes(&error.into()));
        }
    }

    fn say_beyond(&mut self, beyond: usize) {
        if beyond > self.said_beyond {
            warn!(
                namespaces = beyond,
                "flows of paths are in more than {MAX_NAMESPACES} other network namespaces: what \
                 no option of a socket gives does not hold in the rest"
            );
        }
        self.said_beyond = beyond;
    }

    fn tell(&self, beyond: Vec<(u64, Wanted)>) {
        let too_many = || Some(format!("no more than {MAX_NAMESPACES} are taken at a time"));
        let held = self.held.iter().map(|(inode, held)| Place {
            inode: *inode,
            paths: held.wanted.paths.iter().cloned().collect(),
            failed: held.failed.clone(),
            routes: held.routes.clone(),
        });
        let beyond = beyond.into_iter().map(|(inode, wanted)| Place {
            inode,
            paths: wanted.paths.into_iter().collect(),
            failed: too_many(),
            routes: routes::Standing::default(),
        });
        self.standing.set(held.chain(beyond).collect());
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        // Together, not one after the other.
        let followers = self.held.values_mut().filter_map(|held| held.follower.as_mut());
        followers.for_each(Follower::end_soon);
    }
}

const UNSEEN: &str = "it cannot be found: neither is a process in it that can be seen, nor does a \
                      mount lead to it";

/// So many namespaces have their routes followed at a time.
fn most_followers() -> usize {
    let descriptors = privileges::descriptors().saturating_sub(DESCRIPTORS_BESIDE);
    usize::try_from(descriptors / DESCRIPTORS_EACH).unwrap_or(usize::MAX)
}

impl Held {
    fn new(now: Instant) -> Self {
        Self {
            wanted: Wanted::default(),
            seen: now,
            again: now,
            is_told: false,
            failed: None,
            follower: None,
            routes: routes::Standing::default(),
        }
    }

    fn has_lost_follower(&self) -> bool {
        self.follower.as_ref().is_some_and(Follower::has_ended)
    }

    /// Puts in force what is wanted, in the namespace that the calling thread is in. What
    /// fails does not keep the rest from it.
    fn put(&mut self, place: Identity, may_follow: bool, means: &Means) -> Result<()> {
        if !self.wanted.has_metrics || self.has_lost_follower() {
            self.follower = None;
        }
        let follows = self.wanted.has_metrics && (self.follower.is_some() || may_follow);
        let ceilings = Ceilings { tuned_bytes: self.wanted.tuned_bytes, ..Ceilings::default() };
        let [raised, queues, routes] = locked(&means.journal).at(place, |journal| {
            [
                ceilings.raise(journal).and_then(|_raised| ceilings.lower(journal)),
                set_queues(journal, &means.wants.queues),
                if follows { journal.note_routes() } else { journal.leave_routes() },
            ]
        });
        if follows && routes.is_ok() && self.follower.is_none() {
            let (rules, standing) = (means.rules.clone(), self.routes.clone());
            self.follower = Some(Follower::start(rules, standing, Some(place.inode()))?);
        }
        raised?;
        queues?;
        routes?;
        ensure!(
            follows || !self.wanted.has_metrics,
            "its routes are left alone: the descriptors of this process (RLIMIT_NOFILE) are enough \
             to follow those of {} namespaces",
            most_followers()
        );
        Ok(())
    }

    fn say(&mut self, inode: u64, failed: Option<String>) {
        let path = self.wanted.paths.iter().next().map(|path| path.to_string());
        match &failed {
            Some(reason) if self.failed != failed => warn!(
                namespace = inode,
                path,
                "what no option of a socket gives does not hold in a network namespace that flows \
                 of paths are in: {reason}"
            ),
            None if self.failed.is_some() || !self.is_told => info!(
                namespace = inode,
                path, "what no option of a socket gives holds in one more network namespace"
            ),
            _ => {}
        }
        self.is_told = true;
        self.failed = failed;
    }
}

/// Not every namespace has every interface.
fn set_queues(journal: &mut Journal, queues: &[TransmitQueue]) -> Result<(), JournalError> {
    journal.restore_transmit_queues_but(queues)?;
    queues.iter().try_for_each(|queue| match journal.set_transmit_queue(queue) {
        Err(JournalError::NoInterface { .. }) => Ok(()),
        set => set,
    })
}

#[cfg(test)]
mod tests;
