//! Settings that no option of a socket gives are made in the network namespaces that the
//! paths' flows are in: room for buffers that the kernel sizes, metrics of routes, the lengths of
//! transmit queues. Which those are is seen from the flows themselves. A namespace that
//! has had none for a while is left as it was found.

mod standing;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use tracing::{info, warn};
use wad_common::growth::Holding;
use wad_linux::netns::{self, Identity, Netns};
use wad_policy::config::{PathPolicy, TransmitQueue, route_rules::Selected};
use wad_toolbox::causes::with_causes;

pub use self::standing::{Place, Standing};
use crate::{
    ceilings::Ceilings,
    journal::{Journal, JournalError},
    routes::{self, Follower},
};

/// Namespaces have something of ours at a time, at most: each with routes has a thread and
/// a process that sees to them.
pub const MAX_NAMESPACES: usize = 64;

/// It is looked at most so often where flows are.
const LOOK: Duration = Duration::from_secs(1);
/// A namespace is left so long after its last flow: others may come soon.
const STAY: Duration = Duration::from_secs(60);
/// A change that failed is tried again after so long.
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
        let has_metrics = has_routes
            && !path.observe
            && (path.reorder_segments.is_some() || path.no_delayed_acks);
        (tuned_bytes > 0 || has_metrics).then(|| Self {
            path: Arc::from(path.name.as_str()),
            tuned_bytes,
            has_metrics,
        })
    }
}

/// A namespace is to have this, of all paths whose flows are in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    paths: BTreeSet<Arc<str>>,
    tuned_bytes: u64,
    has_metrics: bool,
}

/// It takes these to put anything in force.
pub struct Means<'m> {
    pub journal: &'m mut Journal,
    pub queues: &'m [TransmitQueue],
    pub rules: &'m dyn Fn() -> Vec<Selected>,
}

/// A namespace that has something of ours.
#[derive(Debug)]
struct Held {
    wanted: Wanted,
    identity: Option<Identity>,
    /// The last flow was seen then.
    seen: Instant,
    tried: Instant,
    /// The last try ended so: what failed, in words.
    failed: Option<String>,
    follower: Option<Follower>,
    routes: routes::Standing,
}

#[derive(Debug, Default)]
pub struct Namespaces {
    /// Paths need these, by the index of their policy.
    needs: HashMap<u32, Needs>,
    /// Any flow's namespace has something to get: the lengths of queues.
    takes_all: bool,
    /// By inode.
    held: HashMap<u64, Held>,
    /// Something else may be wanted than was put in force.
    is_another: bool,
    /// So many more were wanted when it was said last.
    said_beyond: usize,
    next: Option<Instant>,
    pub standing: Standing,
}

impl Namespaces {
    /// Wants from now on what paths need, by the index of their policy; and for any path's
    /// flows, if it takes all.
    pub fn want(&mut self, needs: HashMap<u32, Needs>, takes_all: bool) {
        self.needs = needs;
        self.takes_all = takes_all;
        self.is_another = true;
        self.next = None;
    }

    /// The rules of routes have changed.
    pub fn follow_rules(&self, rules: &dyn Fn() -> Vec<Selected>) {
        for follower in self.held.values().filter_map(|held| held.follower.as_ref()) {
            follower.want(rules());
        }
    }

    /// Puts in force where flows are what is to be there. Whether the journal has changed.
    pub fn follow(&mut self, flows: &[Holding], means: &mut Means<'_>, now: Instant) -> bool {
        let is_idle = self.needs.is_empty() && !self.takes_all && self.held.is_empty();
        if is_idle || self.next.is_some_and(|next| now < next) {
            return false;
        }
        self.next = Some(now + LOOK);
        let Ok(own) = Identity::own().map(|own| own.inode()) else { return false };
        let mut wanted = self.wanted(flows);
        // Its own is the host's.
        wanted.remove(&own);
        let mut beyond = Vec::new();
        let mut changing = HashMap::new();
        let mut room = MAX_NAMESPACES.saturating_sub(self.held.len());
        for (inode, wanted) in wanted {
            match self.held.get_mut(&inode) {
                Some(held) => {
                    held.seen = now;
                    let again = held.failed.is_some() && now.duration_since(held.tried) >= AGAIN;
                    if held.wanted != wanted || self.is_another || again {
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
        let gone = self.gone(now);
        self.is_another = false;
        let has_changed = !changing.is_empty() || !gone.is_empty();
        for inode in gone {
            self.leave(inode, means.journal);
        }
        self.put_all(changing, means, now);
        self.say_beyond(beyond.len());
        self.tell(beyond);
        has_changed
    }

    fn wanted(&self, flows: &[Holding]) -> HashMap<u64, Wanted> {
        let mut all: HashMap<u64, Wanted> = HashMap::new();
        let pairs: HashSet<(u32, u32)> =
            flows.iter().map(|flow| (flow.netns, flow.holder.policy)).collect();
        for (inode, policy) in pairs {
            let needs = self.needs.get(&policy);
            if needs.is_none() && !self.takes_all {
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

    /// Returns those that are to be left: without flows for long, of paths that need nothing
    /// any more, or kept alive by nobody but who follows routes there.
    fn gone(&self, now: Instant) -> Vec<u64> {
        let needy: Option<HashSet<&str>> = (self.is_another && !self.takes_all)
            .then(|| self.needs.values().map(|needs| &*needs.path).collect());
        let followed: HashSet<u64> = self
            .held
            .iter()
            .filter_map(|(inode, held)| held.follower.is_some().then_some(*inode))
            .collect();
        let alive =
            if followed.is_empty() { Ok(HashSet::new()) } else { netns::held_by_others(&followed) };
        let is_gone = |inode: &u64, held: &Held| {
            let is_alone = followed.contains(inode)
                && alive.as_ref().is_ok_and(|alive| !alive.contains(inode));
            let is_needed = needy
                .as_ref()
                .is_none_or(|needy| held.wanted.paths.iter().any(|path| needy.contains(&**path)));
            is_alone || !is_needed || now.duration_since(held.seen) >= STAY
        };
        let gone = self.held.iter().filter(|(inode, held)| is_gone(inode, held));
        gone.map(|(inode, _)| *inode).collect()
    }

    fn leave(&mut self, inode: u64, journal: &mut Journal) {
        let Some(held) = self.held.remove(&inode) else { return };
        // Its thread and its process are gone after this.
        drop(held.follower);
        let Some(identity) = held.identity else { return };
        match journal.leave(identity) {
            Ok(left) => left.into_iter().for_each(|left| warn!("{left}")),
            Err(error) => warn!(
                namespace = inode,
                "what was changed in a network namespace stays: {}",
                with_causes(&error.into())
            ),
        }
    }

    fn put_all(&mut self, changing: HashMap<u64, Wanted>, means: &mut Means<'_>, now: Instant) {
        if changing.is_empty() {
            return;
        }
        let inodes: HashSet<u64> = changing.keys().copied().collect();
        let mut found: HashMap<u64, Netns> = HashMap::new();
        for netns in netns::of_inodes(&inodes).unwrap_or_default() {
            if let Ok(identity) = netns.identity() {
                found.insert(identity.inode(), netns);
            }
        }
        for (inode, wanted) in changing {
            let is_new = !self.held.contains_key(&inode);
            let held = self.held.entry(inode).or_insert_with(|| Held {
                wanted: Wanted::default(),
                identity: None,
                seen: now,
                tried: now,
                failed: None,
                follower: None,
                routes: routes::Standing::default(),
            });
            held.wanted = wanted;
            held.tried = now;
            let failed = match found.remove(&inode) {
                Some(netns) => held.put(netns, means).err().map(|error| with_causes(&error)),
                None => Some(UNSEEN.to_owned()),
            };
            held.say(inode, failed, is_new);
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
        let place = |inode, wanted: &Wanted, failed| Place {
            inode,
            paths: wanted.paths.iter().cloned().collect(),
            failed,
        };
        let held = self.held.iter().map(|(inode, held)| place(*inode, &held.wanted, held.failed()));
        let too_many = format!("no more than {MAX_NAMESPACES} are taken at a time");
        let beyond =
            beyond.iter().map(|(inode, wanted)| place(*inode, wanted, Some(too_many.clone())));
        self.standing.set(held.chain(beyond).collect());
    }
}

const UNSEEN: &str = "it cannot be found: neither is a process in it that can be seen, nor does a \
                      mount lead to it";

impl Held {
    /// Puts in force what is wanted. What fails does not keep the rest from it.
    fn put(&mut self, netns: Netns, means: &mut Means<'_>) -> anyhow::Result<()> {
        self.identity = Some(netns.identity()?);
        let (wanted, queues) = (&self.wanted, means.queues);
        let [ceilings, lengths, noted] = means.journal.inside(&netns, |journal| {
            let ceilings = Ceilings { tuned_bytes: wanted.tuned_bytes, ..Ceilings::default() };
            [
                ceilings.raise(journal).and_then(|_raised| ceilings.lower(journal)),
                queues.iter().try_for_each(|queue| set_queue(journal, queue)),
                if wanted.has_metrics { journal.note_routes() } else { Ok(()) },
            ]
        })?;
        let noted = noted.map_err(anyhow::Error::from);
        let followed = if !wanted.has_metrics {
            self.follower = None;
            Ok(())
        } else {
            noted.and_then(|()| self.follow_routes(netns, means))
        };
        ceilings?;
        lengths?;
        followed
    }

    fn follow_routes(&mut self, netns: Netns, means: &Means<'_>) -> anyhow::Result<()> {
        let rules = (means.rules)();
        match &self.follower {
            Some(follower) => follower.want(rules),
            None => {
                let follower = Follower::start(rules, self.routes.clone(), Some(netns))?;
                self.follower = Some(follower);
            }
        }
        Ok(())
    }

    fn say(&mut self, inode: u64, failed: Option<String>, is_new: bool) {
        let path = self.wanted.paths.iter().next().map(|path| path.to_string());
        match &failed {
            Some(reason) if self.failed != failed => warn!(
                namespace = inode,
                path,
                "what no option of a socket gives does not hold in a network namespace that flows \
                 of paths are in: {reason}"
            ),
            None if self.failed.is_some() || is_new => info!(
                namespace = inode,
                path, "what no option of a socket gives holds in one more network namespace"
            ),
            _ => {}
        }
        self.failed = failed;
    }

    /// Returns what does not hold, in words.
    fn failed(&self) -> Option<String> {
        self.failed.clone().or_else(|| match self.routes.get() {
            routes::RoutesState::Failed(reason) if self.wanted.has_metrics => {
                Some(format!("its routes are left alone: {reason}"))
            }
            _ => None,
        })
    }
}

/// Not every namespace has every interface.
fn set_queue(journal: &mut Journal, queue: &TransmitQueue) -> Result<(), JournalError> {
    match journal.set_transmit_queue(queue) {
        Err(JournalError::NoInterface { .. }) => Ok(()),
        set => set,
    }
}

#[cfg(test)]
mod tests;
