//! Locks that runs take, shared or exclusively, all that they need at once.

use std::collections::HashMap;

use wad_policy::config::Hold;

use super::{Run, RunId};

/// A lock that a run takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The name of what others are to keep away from, as `host-cpu` or `path:tokyo`.
    pub name: String,
    /// Nobody else has it meanwhile; those who share it have it together.
    pub is_exclusive: bool,
}

impl Lock {
    /// Returns the lock of a name that is held in that way, if it is.
    pub fn of(name: String, hold: Hold) -> Option<Self> {
        match hold {
            Hold::None => None,
            Hold::Shared => Some(Self { name, is_exclusive: false }),
            Hold::Exclusive => Some(Self { name, is_exclusive: true }),
        }
    }

    pub fn shared(name: impl Into<String>) -> Self {
        Self { name: name.into(), is_exclusive: false }
    }

    pub fn exclusive(name: impl Into<String>) -> Self {
        Self { name: name.into(), is_exclusive: true }
    }
}

/// Holds who has which locks.
#[derive(Debug, Default)]
pub struct Held(HashMap<String, Vec<Holder>>);

/// A run that has a lock.
#[derive(Debug)]
pub struct Holder {
    pub run: Run,
    is_exclusive: bool,
}

impl Held {
    pub fn take(&mut self, run: &Run, locks: &[Lock]) {
        for lock in locks {
            debug_assert!(self.others(lock).next().is_none(), "{lock:?}");
            let holder = Holder { run: run.clone(), is_exclusive: lock.is_exclusive };
            self.0.entry(lock.name.clone()).or_default().push(holder);
        }
    }

    pub fn give_back(&mut self, run: RunId, locks: &[Lock]) {
        for lock in locks {
            let Some(holders) = self.0.get_mut(&lock.name) else { continue };
            holders.retain(|holder| holder.run.id != run);
            if holders.is_empty() {
                self.0.remove(&lock.name);
            }
        }
    }

    /// Says that nobody has any.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns those that have to give this lock back before it can be taken.
    pub fn others(&self, lock: &Lock) -> impl Iterator<Item = &Holder> {
        let (holders, is_exclusive) = (self.0.get(&lock.name), lock.is_exclusive);
        let holders = holders.map_or(&[][..], Vec::as_slice);
        holders.iter().filter(move |holder| is_exclusive || holder.is_exclusive)
    }
}
