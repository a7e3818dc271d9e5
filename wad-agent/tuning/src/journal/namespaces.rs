//! Changes in other network namespaces than the agent's own. One that is gone took its
//! settings along: there is nothing to undo.

use wad_linux::netns::{self, Identity, Netns};

use super::{Change, Journal, JournalError, Left};

/// Does work in a network namespace, None for the one that this process is in; None where
/// it is gone, or out of sight.
pub fn inside<T: Send>(
    namespace: Option<Identity>,
    work: impl FnOnce() -> T + Send,
) -> Result<Option<T>, JournalError> {
    let telling = |source| JournalError::Namespace { source };
    let own = Identity::own().map_err(telling)?;
    let Some(namespace) = namespace.filter(|namespace| *namespace != own) else {
        return Ok(Some(work()));
    };
    let Some(found) = netns::find(namespace).map_err(telling)? else { return Ok(None) };
    let inode = namespace.inode();
    found.inside(work).map(Some).map_err(|source| JournalError::Entering { inode, source })
}

impl Journal {
    /// Has the settings of another network namespace meant for as long as `work` lasts,
    /// which runs inside.
    pub fn inside<T: Send>(
        &mut self,
        netns: &Netns,
        work: impl FnOnce(&mut Self) -> T + Send,
    ) -> Result<T, JournalError> {
        let place = netns.identity().map_err(|source| JournalError::Namespace { source })?;
        self.place = Some(place);
        let done = netns.inside(|| work(&mut *self));
        self.place = None;
        done.map_err(|source| JournalError::Entering { inode: place.inode(), source })
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

    /// Undoes all that was changed in a network namespace. What fails stays, for another
    /// try.
    pub fn leave(&mut self, namespace: Identity) -> Result<Vec<Left>, JournalError> {
        let mut left = Vec::new();
        while let Some(place) = self.entries.iter().rposition(|entry| entry.change.is_in(namespace))
        {
            left.extend(self.entries[place].undo(&self.sysctl)?);
            match self.entries[place].change.undone() {
                Some(undone) => self.record(undone)?,
                None => drop(self.entries.remove(place)),
            }
        }
        Ok(left)
    }
}
