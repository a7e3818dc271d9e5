//! The journal's lines: reading what a crash or a power cut left of them, and
//! folding several changes of one setting into one thing to undo.

use std::mem;

use serde::{Deserialize, Serialize};

use super::{Change, Error, Left, bpffs};
use crate::sysctl::Sysctl;

#[derive(Serialize, Deserialize)]
pub struct Line {
    pub boot_id: String,
    pub change: Change,
}

/// What a file holds. Lines are numbered from 1.
#[derive(Default)]
pub struct Found {
    /// Of this boot, in order.
    pub changes: Vec<Change>,
    pub unreadable: Vec<usize>,
    /// The last line, where it ends without a newline and says nothing whole.
    pub cut_short: Option<usize>,
}

pub fn read(bytes: &[u8], boot_id: &str) -> Found {
    let mut found = Found::default();
    for (index, text) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if text.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice::<Line>(text) {
            Ok(line) if line.boot_id == boot_id => found.changes.push(line.change),
            Ok(_) => {}
            Err(_) if !text.ends_with(b"\n") => found.cut_short = Some(index + 1),
            Err(_) => found.unreadable.push(index + 1),
        }
    }
    found
}

/// One thing to undo: the first `before` and the last `after` of a setting.
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
    let Change::Sysctl { key, before: seen, after: new } = change else { return };
    let entry = &mut entries[place];
    let taken_over = entry.before_of(&seen).is_none();
    let Change::Sysctl { before, after, .. } = &mut entry.change else { return };
    if taken_over && *before != seen {
        // Someone else set it in between: theirs is what to go back to.
        *entry =
            Entry { change: Change::Sysctl { key, before: seen, after: new }, earlier: vec![] };
    } else if *before == new {
        entries.remove(place);
    } else {
        let old = mem::replace(after, new);
        entry.earlier.push(old);
    }
}

impl Entry {
    pub fn is_setting(&self, wanted: &str) -> bool {
        matches!(&self.change, Change::Sysctl { key, .. } if key == wanted)
    }

    /// What the setting was before wad, if `now` is a value that wad gave it.
    pub fn before_of(&self, now: &str) -> Option<&str> {
        match &self.change {
            Change::Sysctl { before, after, .. }
                if after == now || self.earlier.iter().any(|earlier| earlier == now) =>
            {
                Some(before)
            }
            _ => None,
        }
    }

    pub fn undo(&self, sysctl: &Sysctl) -> Result<Option<Left>, Error> {
        let (key, before, after) = match &self.change {
            Change::BpffsMount { dir } => return bpffs::unmount(dir),
            Change::Sysctl { key, before, after } => (key, before, after),
        };
        let now = sysctl.read(key)?;
        if now == *before {
            return Ok(None);
        }
        match self.before_of(&now) {
            Some(before) => sysctl.write(key, before).map(|()| None).map_err(Error::from),
            None => Ok(Some(Left::Sysctl { key: key.clone(), now, after: after.clone() })),
        }
    }

    fn is_of_the_same(&self, change: &Change) -> bool {
        match change {
            Change::Sysctl { key, .. } => self.is_setting(key),
            mount @ Change::BpffsMount { .. } => self.change == *mount,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(before: u32, after: u32) -> Change {
        let (before, after) = (before.to_string(), after.to_string());
        Change::Sysctl { key: "net.core.rmem_max".to_owned(), before, after }
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
    fn a_mount_is_undone_once() {
        let mut entries = Vec::new();
        for _ in 0..2 {
            fold(&mut entries, Change::BpffsMount { dir: "/sys/fs/bpf".into() });
        }
        assert_eq!(entries.len(), 1);
    }
}
