//! The journal's lines: reading what a crash or a power cut left of them, and
//! folding several changes of one setting into one thing to undo.

use std::mem;

use serde::{Deserialize, Serialize};
use wad_linux::{netns::Identity, sysctl::Sysctl};

use super::{
    Change, JournalError, Left, bpffs,
    transmit_queue::{self, Queue},
};
use crate::routes;

#[derive(Serialize, Deserialize)]
pub struct Line {
    pub boot_id: String,
    pub change: Change,
}

/// Lists what a file holds. Lines are numbered from 1.
#[derive(Default)]
pub struct Found {
    /// Changes of this boot, in order.
    pub changes: Vec<Change>,
    pub unreadable: Vec<usize>,
    /// The last line, where it ends without a newline and says nothing whole.
    pub cut_short: Option<CutShort>,
}

/// Says where a line is that was not written to its end.
#[derive(Debug, PartialEq, Eq)]
pub struct CutShort {
    pub number: usize,
    /// Bytes before it, all of whole lines.
    pub begins_at: u64,
}

pub fn read(bytes: &[u8], boot_id: &str) -> Found {
    let mut found = Found::default();
    let mut end = 0;
    for (index, text) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let begins_at = end as u64;
        end += text.len();
        if text.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice::<Line>(text) {
            Ok(line) if line.boot_id == boot_id => found.changes.push(line.change),
            Ok(_) => {}
            Err(_) if !text.ends_with(b"\n") => {
                found.cut_short = Some(CutShort { number: index + 1, begins_at });
            }
            Err(_) => found.unreadable.push(index + 1),
        }
    }
    found
}

/// For libFuzzer, see `tests/fuzz`.
#[cfg(feature = "fuzz")]
pub fn fuzz(bytes: &[u8]) {
    const BOOT_ID: &str = "b";
    let found = read(bytes, BOOT_ID);
    let mut entries = Vec::new();
    for change in found.changes {
        let line = Line { boot_id: BOOT_ID.to_owned(), change };
        let written = serde_json::to_vec(&line).expect("what was read can be written");
        assert!(read(&written, BOOT_ID).changes.iter().eq([&line.change]));
        fold(&mut entries, line.change);
    }
    for (number, entry) in entries.iter().enumerate() {
        let is_same = |other: &Entry| other.is_of_the_same(&entry.change);
        assert!(!entries[..number].iter().any(is_same));
    }
}

/// Holds one thing to undo: the first `before` and the last `after` of a setting.
#[derive(Debug)]
pub struct Entry {
    pub change: Change,
    /// Values wad gave the setting before `after`: the last change may not have
    /// been made when the agent died.
    earlier: Vec<String>,
}

/// Adds a change to those before it.
pub fn fold(entries: &mut Vec<Entry>, change: Change) {
    let place = entries.iter().position(|entry| entry.is_of_the_same(&change));
    let Some(place) = place else { return entries.push(Entry { change, earlier: Vec::new() }) };
    let Some((seen, new)) = change.values() else { return };
    let entry = &mut entries[place];
    let taken_over = entry.before_of(seen).is_none();
    let Some((before, after)) = entry.change.values_mut() else { return };
    if taken_over && before != seen {
        // Someone else set it in between: theirs is what to go back to.
        *entry = Entry { change, earlier: vec![] };
    } else if before == new {
        entries.remove(place);
    } else {
        let old = mem::replace(after, new.to_owned());
        entry.earlier.push(old);
    }
}

impl Entry {
    /// Whether it is of that setting of a network namespace, None for the agent's.
    pub fn is_setting(&self, place: Option<Identity>, wanted: &str) -> bool {
        matches!(
            &self.change,
            Change::Sysctl { namespace, key, .. } if *namespace == place && key == wanted
        )
    }

    pub fn is_of_routes(&self) -> bool {
        matches!(self.change, Change::Routes { .. })
    }

    /// Returns what the setting was before wad, if `now` is a value that wad gave it.
    pub fn before_of(&self, now: &str) -> Option<&str> {
        let (before, after) = self.change.values()?;
        let is_ours = after == now || self.earlier.iter().any(|earlier| earlier == now);
        is_ours.then_some(before)
    }

    /// Undoes it in the network namespace of the calling thread.
    pub fn undo(&self, sysctl: &Sysctl) -> Result<Option<Left>, JournalError> {
        let (namespace, key, before, after) = match &self.change {
            Change::BpffsMount { dir } => return bpffs::unmount(dir),
            Change::TransmitQueue { index, interface, after, .. } => {
                return self.undo_transmit_queue(*index, interface, after);
            }
            Change::Routes { .. } => {
                let removed = routes::remove();
                return removed.map(|()| None).map_err(|source| JournalError::Routes { source });
            }
            Change::Sysctl { namespace, key, before, after } => (*namespace, key, before, after),
        };
        let now = sysctl.read(key)?;
        if now == *before {
            return Ok(None);
        }
        if let Some(before) = self.before_of(&now) {
            sysctl.write(key, before)?;
            return Ok(None);
        }
        Ok(Some(Left::Sysctl { namespace, key: key.clone(), now, after: after.clone() }))
    }

    fn undo_transmit_queue(
        &self,
        index: u32,
        interface: &str,
        after: &str,
    ) -> Result<Option<Left>, JournalError> {
        let failed =
            |source| JournalError::TransmitQueue { interface: interface.to_owned(), source };
        let Some(now) = transmit_queue::packets(index).map_err(failed)? else {
            return Ok(None);
        };
        let now = now.to_string();
        if self.change.values().is_some_and(|(before, _)| before == now) {
            return Ok(None);
        }
        let before = self.before_of(&now).and_then(|before| before.parse().ok());
        let Some(packets) = before else {
            let (interface, after) = (interface.to_owned(), after.to_owned());
            return Ok(Some(Left::TransmitQueue { interface, now, after }));
        };
        transmit_queue::set(&Queue { index, packets }).map(|()| None).map_err(failed)
    }

    pub fn is_of_the_same(&self, change: &Change) -> bool {
        match (&self.change, change) {
            (
                Change::Sysctl { namespace, key, .. },
                Change::Sysctl { namespace: other_namespace, key: other_key, .. },
            ) => (namespace, key) == (other_namespace, other_key),
            (
                Change::TransmitQueue { namespace, index, .. },
                Change::TransmitQueue { namespace: other_namespace, index: other_index, .. },
            ) => (namespace, index) == (other_namespace, other_index),
            (change, other) => change == other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(before: u32, after: u32) -> Change {
        let (before, after) = (before.to_string(), after.to_string());
        Change::Sysctl { namespace: None, key: "net.core.rmem_max".to_owned(), before, after }
    }

    fn folded(changes: &[(u32, u32)]) -> Vec<Change> {
        let mut entries = Vec::new();
        for (before, after) in changes {
            fold(&mut entries, change(*before, *after));
        }
        entries.into_iter().map(|entry| entry.change).collect()
    }

    #[test]
    fn the_first_before_and_the_last_after_hold() {
        assert_eq!(folded(&[(100, 200), (200, 300), (300, 400)]), [change(100, 400)]);
        assert_eq!(folded(&[(100, 200), (200, 300), (300, 200)]), [change(100, 200)]);
    }

    #[test]
    fn a_change_that_was_not_made_does_not_hide_the_original() {
        // Died before 300 was written; the next agent saw 200, then 100.
        assert_eq!(folded(&[(100, 200), (200, 300), (200, 400)]), [change(100, 400)]);
        assert_eq!(folded(&[(100, 200), (100, 200)]), [change(100, 200)]);
    }

    #[test]
    fn back_to_the_original_leaves_nothing_to_undo() {
        assert_eq!(folded(&[(100, 200), (200, 100)]), []);
        assert_eq!(folded(&[(100, 200), (200, 100), (150, 300)]), [change(150, 300)]);
    }

    #[test]
    fn what_someone_else_set_in_between_is_the_new_original() {
        assert_eq!(folded(&[(100, 200), (150, 300)]), [change(150, 300)]);
    }

    #[test]
    fn interfaces_are_told_apart_by_namespace_and_number() {
        let namespace = Identity::own().unwrap();
        let change = |index: u32, before: &str, after: &str| Change::TransmitQueue {
            namespace,
            index,
            interface: "eth0".to_owned(),
            before: before.to_owned(),
            after: after.to_owned(),
        };
        let mut entries = Vec::new();
        for one in [change(2, "1000", "5000"), change(3, "1000", "5000"), change(2, "5000", "7000")]
        {
            fold(&mut entries, one);
        }
        let folded: Vec<_> = entries.iter().map(|entry| entry.change.clone()).collect();
        assert_eq!(folded, [change(2, "1000", "7000"), change(3, "1000", "5000")]);
        fold(&mut entries, folded[0].undone().unwrap());
        assert_eq!(entries.len(), 1);
    }

    #[test]
    fn a_mount_is_undone_once() {
        let mut entries = Vec::new();
        for _ in 0..2 {
            fold(&mut entries, Change::BpffsMount { dir: "/sys/fs/bpf".into() });
        }
        assert_eq!(entries.len(), 1);
    }
}
