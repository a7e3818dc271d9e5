//! Learns paths: which prefixes have larger buffers than the kernel's, from what their
//! connections showed. It is a function of what was found and of the time.
//!
//! A path is learned once and stays so: what it gives makes its connections look as if
//! nothing held them back. It grows where buffers still do, and goes when nothing has used it
//! for long, when others need its place, or when a path of the file is for it.

mod change;
mod kept;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

use ipnet::IpNet;
use jiff::Timestamp;
use wad_policy::{
    config::{AutoBuffers, Learn},
    learned::{Covered, LearnedPath},
};

#[cfg(feature = "fuzz")]
pub use self::kept::fuzz;
pub use self::{
    change::{Change, Why},
    kept::{KeptError, bytes as kept_bytes, parse as parse_kept},
};
use crate::suggest::{Found, are_rates_alike, are_rtts_alike, common, shortest};

/// A learned path gets larger buffers where they are larger by this factor: less is covered
/// by the room that it has.
const LEAST_GROWTH: f64 = 1.25;
/// A path that no connection has used for so long gives its place to another that needs one.
const IDLE: Duration = Duration::from_secs(3_600);
/// A path that no connection has used for so long is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(30 * 24 * 3_600);

/// The learned paths.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Learner {
    /// By prefix; none is within another.
    known: BTreeMap<IpNet, Known>,
}

/// A learned path, and how it came to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    pub path: LearnedPath,
    /// It says what was seen of its connections.
    pub evidence: String,
    /// The last time that it had a connection.
    pub used_at: Timestamp,
    pub changed_at: Timestamp,
}

/// Connections showed this until now.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'s> {
    pub found: &'s [Found],
    /// Learned paths that have connections.
    pub used: &'s [IpNet],
    pub now: Timestamp,
}

impl Learner {
    /// Returns what is learned, in the order of the prefixes.
    pub fn known(&self) -> impl Iterator<Item = &Known> {
        self.known.values()
    }

    /// Returns the paths that are learned.
    #[must_use]
    pub fn paths(&self) -> Vec<LearnedPath> {
        self.known().map(|known| known.path).collect()
    }

    /// Returns the prefixes that are learned.
    #[must_use]
    pub fn remotes(&self) -> Vec<IpNet> {
        self.known.keys().copied().collect()
    }

    /// Whether a prefix is within one that is learned.
    #[must_use]
    pub fn holds(&self, remote: IpNet) -> bool {
        self.known.keys().any(|known| known.contains(&remote))
    }

    /// Takes in what connections showed. Each path changes at most once in the interval.
    /// Returns what has changed.
    pub fn take(&mut self, shown: Shown<'_>, learn: Learn, interval: Duration) -> Vec<Change> {
        let Shown { found, used, now } = shown;
        for remote in used {
            if let Some(known) = self.known.get_mut(remote) {
                known.used_at = now;
            }
        }
        let mut changes = Vec::new();
        self.known.retain(|remote, known| {
            let is_kept = since(known.used_at, now) < FORGOTTEN;
            if !is_kept {
                changes.push(Change::Dropped { remote: *remote, why: Why::Forgotten });
            }
            is_kept
        });
        changes.extend(self.bound(learn));
        for found in found {
            let remote = found.path.remote;
            match self.known.values_mut().find(|known| known.path.remote.contains(&remote)) {
                Some(known) => changes.extend(known.grow(found, now, interval)),
                None => self.learn(found, (now, learn), &mut changes),
            }
        }
        changes
    }

    /// Drops paths beyond the bound, those first that have had no connection for longest.
    pub fn bound(&mut self, learn: Learn) -> Vec<Change> {
        let Learn { max_paths } = learn;
        let beyond = self.known.len().saturating_sub(max_paths);
        let mut idlest: Vec<_> =
            self.known().map(|known| (known.used_at, known.path.remote)).collect();
        idlest.sort_unstable();
        let dropped = idlest.into_iter().take(beyond).map(|(_, remote)| {
            self.known.remove(&remote);
            Change::Dropped { remote, why: Why::Bound { max_paths } }
        });
        dropped.collect()
    }

    /// Drops what paths of the file are for now.
    pub fn drop_covered(&mut self, covered: &[Covered]) -> Vec<Change> {
        let dropped = covered.iter().filter_map(|Covered { remote, path, by: _ }| {
            self.known.remove(remote)?;
            Some(Change::Dropped { remote: *remote, why: Why::Covered { path: path.clone() } })
        });
        dropped.collect()
    }

    /// Learns a path for a prefix that none is for yet: a new one, or one together with its
    /// neighbours that are alike.
    fn learn(
        &mut self,
        found: &Found,
        (now, learn): (Timestamp, Learn),
        changes: &mut Vec<Change>,
    ) {
        let remote = self.joint_prefix(&found.path);
        let mut path = LearnedPath { remote, ..found.path };
        let joined: Vec<_> =
            self.known.keys().copied().filter(|inner| remote.contains(inner)).collect();
        for inner in &joined {
            if let Some(known) = self.known.remove(inner) {
                path = larger(path, known.path);
            }
        }
        if self.known.len() >= learn.max_paths && !self.drop_idle(now, changes) {
            return changes.push(Change::Full { remote, max_paths: learn.max_paths });
        }
        let evidence = found.evidence.clone();
        self.known.insert(
            remote,
            Known { path, evidence: evidence.clone(), used_at: now, changed_at: now },
        );
        changes.push(Change::Learned { path, joined, evidence });
    }

    /// Returns the longest prefix that a path shares with a neighbour that is alike, and with
    /// no other one; its own where there is none.
    fn joint_prefix(&self, path: &LearnedPath) -> IpNet {
        let is_same_family = |other: &&LearnedPath| {
            other.remote.network().is_ipv4() == path.remote.network().is_ipv4()
        };
        let others = || self.known.values().map(|known| &known.path).filter(is_same_family);
        let joint = others().filter(|other| are_alike(path, other)).map(|other| {
            let both = common(path.remote.network(), other.remote.network());
            let bits =
                both.prefix_len().min(path.remote.prefix_len()).min(other.remote.prefix_len());
            IpNet::new_assert(both.addr(), bits).trunc()
        });
        let joint = joint.filter(|joint| {
            let is_apart =
                |other: &LearnedPath| !joint.contains(&other.remote) || are_alike(path, other);
            joint.prefix_len() >= shortest(joint.network()) && others().all(is_apart)
        });
        joint.max_by_key(IpNet::prefix_len).unwrap_or(path.remote)
    }

    /// Makes place for another path, if one has had no connection for long.
    fn drop_idle(&mut self, now: Timestamp, changes: &mut Vec<Change>) -> bool {
        let idlest = self.known.values().min_by_key(|known| known.used_at);
        let idle = idlest.filter(|known| since(known.used_at, now) >= IDLE);
        let Some(remote) = idle.map(|known| known.path.remote) else { return false };
        self.known.remove(&remote);
        changes.push(Change::Dropped { remote, why: Why::Replaced });
        true
    }
}

impl Known {
    /// Makes buffers larger, or adds one, where that is worth it and not too soon.
    fn grow(&mut self, found: &Found, now: Timestamp, interval: Duration) -> Option<Change> {
        let before = self.path;
        let path = larger(before, found.path);
        let is_more =
            path.buffers != before.buffers || path.bdp_bytes() >= LEAST_GROWTH * before.bdp_bytes();
        let is_soon = now >= self.changed_at && since(self.changed_at, now) < interval;
        if !is_more || is_soon {
            return None;
        }
        let evidence = found.evidence.clone();
        *self = Self { path, evidence: evidence.clone(), changed_at: now, ..*self };
        Some(Change::Grown { before, path, evidence })
    }
}

/// Returns a path with the prefix of the first, whose buffers are enough for both.
fn larger(path: LearnedPath, other: LearnedPath) -> LearnedPath {
    let more = if other.bdp_bytes() > path.bdp_bytes() { other } else { path };
    let buffers = AutoBuffers {
        sndbuf: path.buffers.sndbuf || other.buffers.sndbuf,
        rcvbuf: path.buffers.rcvbuf || other.buffers.rcvbuf,
        autotune: false,
    };
    LearnedPath { remote: path.remote, buffers, ..more }
}

fn are_alike(a: &LearnedPath, b: &LearnedPath) -> bool {
    let sorted = |a: f64, b: f64| (a.min(b), a.max(b));
    let (least_rtt, most_rtt) = sorted(a.rtt_seconds, b.rtt_seconds);
    let (least_rate, most_rate) = sorted(a.bits_per_second, b.bits_per_second);
    a.buffers == b.buffers
        && are_rtts_alike(least_rtt, most_rtt)
        && are_rates_alike(least_rate, most_rate)
}

/// Returns the time that has passed since then: none where the clock was set back.
fn since(then: Timestamp, now: Timestamp) -> Duration {
    now.duration_since(then).try_into().unwrap_or_default()
}
