//! Changes in other network namespaces than the agent's own. One that is gone took its
//! settings along: there is nothing to undo.

use std::{collections::HashSet, ops::ControlFlow};

use wad_linux::{
    netns::{self, Identity, Which},
    sysctl::Sysctl,
};

use super::{Change, Entry, Journal, JournalError, Left};

impl Journal {
    /// Has the settings of another network namespace meant for as long as `work` lasts,
    /// which the calling thread is in.
    pub fn at<T>(&mut self, place: Identity, work: impl FnOnce(&mut Self) -> T) -> T {
        self.place = Some(place);
        let done = work(self);
        self.place = None;
        done
    }

    /// Returns the other network namespaces in which anything was changed.
    pub fn others(&self) -> Result<HashSet<Identity>, JournalError> {
        let own = own()?;
        Ok(self.changes().filter_map(|change| change.place(own)).collect())
    }

    /// Takes note of a setting that a network namespace was born with while it was raised
    /// in the agent's: what it would have been born with otherwise is what it goes back to.
    pub fn inherit(&mut self, key: &str, now: &str) -> Result<(), JournalError> {
        if self.place.is_none() || self.has(key) {
            return Ok(());
        }
        let own = self.entries.iter().find(|entry| entry.is_setting(None, key));
        let Some(before) = own.and_then(|entry| entry.before_of(now)) else { return Ok(()) };
        let before = before.to_owned();
        let (namespace, key, after) = (self.place, key.to_owned(), now.to_owned());
        self.record(Change::Sysctl { namespace, key, before, after })
    }

    /// Undoes all that was changed in a network namespace, which the calling thread is in.
    /// What fails stays, for another try.
    pub fn leave(&mut self, namespace: Identity) -> Result<Vec<Left>, JournalError> {
        self.take_out(namespace, Entry::undo)
    }

    /// Takes out what was changed in a network namespace that is gone.
    pub fn forget(&mut self, namespace: Identity) -> Result<(), JournalError> {
        self.take_out(namespace, |_, _| Ok(None)).map(drop)
    }

    fn take_out(
        &mut self,
        namespace: Identity,
        undo: impl Fn(&Entry, &Sysctl) -> Result<Option<Left>, JournalError>,
    ) -> Result<Vec<Left>, JournalError> {
        let own = own()?;
        let is_there = |entry: &Entry| entry.change.place(own) == Some(namespace);
        let mut left = Vec::new();
        while let Some(place) = self.entries.iter().rposition(is_there) {
            left.extend(undo(&self.entries[place], &self.sysctl)?);
            match self.entries[place].change.undone() {
                Some(undone) => self.record(undone)?,
                None => drop(self.entries.remove(place)),
            }
        }
        Ok(left)
    }

    /// Undoes these entries, the latest first, in one network namespace after the other. An
    /// error does not keep the rest from it.
    pub(super) fn undo_those(
        &self,
        is_meant: impl Fn(&Entry) -> bool + Sync,
    ) -> Result<Vec<Left>, JournalError> {
        let own = own()?;
        let meant = || self.entries.iter().rev().filter(|entry| is_meant(entry));
        let undo = |place: Option<Identity>| {
            let there = meant().filter(move |entry| entry.change.place(own) == place);
            there.map(|entry| entry.undo(&self.sysctl)).collect::<Vec<_>>()
        };
        let others = meant().filter_map(|entry| Some(entry.change.place(own)?.inode())).collect();
        let mut undone = Vec::new();
        let walked = netns::at_each(Which::These(&others), |place, entered| {
            undone.extend(entered.map_or_else(
                |source| vec![Err(JournalError::Entering { inode: place.inode(), source })],
                |()| undo(Some(place)),
            ));
            ControlFlow::Continue(())
        });
        undone.extend(walked.err().map(|source| Err(JournalError::Namespaces { source })));
        undone.extend(undo(None));
        let left = undone.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(left.into_iter().flatten().collect())
    }
}

pub fn own() -> Result<Identity, JournalError> {
    Identity::own().map_err(|source| JournalError::Namespace { source })
}
