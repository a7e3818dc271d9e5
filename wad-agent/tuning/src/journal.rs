//! The journal holds what wad changes on the host outside its own maps, written down
//! before it is changed, so that it can be undone: on exit, by `wad cleanup`, and at
//! the next start after a crash.
//!
//! `<state_dir>/journal-<instance>.jsonl` has one JSON object per line, with the
//! id of the boot it belongs to: a reboot undoes everything by itself. A line is
//! on disk (fsync) before its change is made, so a line cut short belongs to a
//! change that was never made. A value that someone else changed since is left
//! alone and reported.

mod bpffs;
mod damage;
mod lines;
mod namespaces;
mod preview;
mod transmit_queue;

use std::{
    fmt,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wad_linux::{
    lock::{Lock, LockError},
    netlink,
    netns::Identity,
    sysctl::{self, Sysctl},
};
use wad_policy::config::TransmitQueue;
use wad_toolbox::whole_file::{self, NO_LINK};

pub use self::damage::Damage;
#[cfg(feature = "fuzz")]
pub use self::lines::fuzz;
use self::{
    lines::{Entry, Line},
    transmit_queue::Queue,
};
use crate::routes;

/// A change is one thing that wad changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A kernel setting, of another network namespace than the agent's where one is named.
    Sysctl {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespace: Option<Identity>,
        key: String,
        before: String,
        after: String,
    },
    /// The BPF file system, mounted where it was missing.
    BpffsMount { dir: PathBuf },
    /// The transmit queue of an interface, in packets.
    TransmitQueue {
        namespace: Identity,
        index: u32,
        interface: String,
        before: String,
        after: String,
    },
    /// Rules and routes of wad's own, all of them: they show whose they are.
    Routes { namespace: Identity },
}

impl Change {
    /// Returns the change from its end to its beginning, if it has values.
    fn undone(&self) -> Option<Self> {
        let mut undone = self.clone();
        let (before, after) = undone.values_mut()?;
        std::mem::swap(before, after);
        Some(undone)
    }

    /// Returns the network namespace that it is in; None for the agent's own.
    fn place(&self, own: Identity) -> Option<Identity> {
        let namespace = match self {
            Self::Sysctl { namespace, .. } => *namespace,
            Self::TransmitQueue { namespace, .. } | Self::Routes { namespace } => Some(*namespace),
            Self::BpffsMount { .. } => None,
        };
        namespace.filter(|namespace| *namespace != own)
    }

    /// Returns the values before and after, if it has any.
    #[must_use]
    pub fn values(&self) -> Option<(&str, &str)> {
        match self {
            Self::Sysctl { before, after, .. } | Self::TransmitQueue { before, after, .. } => {
                Some((before, after))
            }
            Self::BpffsMount { .. } | Self::Routes { .. } => None,
        }
    }

    fn values_mut(&mut self) -> Option<(&mut String, &mut String)> {
        match self {
            Self::Sysctl { before, after, .. } | Self::TransmitQueue { before, after, .. } => {
                Some((before, after))
            }
            Self::BpffsMount { .. } | Self::Routes { .. } => None,
        }
    }
}

/// Says what is changed.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sysctl { namespace: None, key, .. } => f.write_str(key),
            Self::Sysctl { namespace: Some(namespace), key, .. } => {
                write!(f, "{key} of network namespace {}", namespace.inode())
            }
            Self::TransmitQueue { interface, .. } => {
                write!(f, "transmit queue of {interface} in packets")
            }
            Self::Routes { .. } => f.write_str("rules and routes of protocol 119 made"),
            Self::BpffsMount { dir } => write!(f, "BPF file system mounted at {}", dir.display()),
        }
    }
}

/// Something that could not be undone because others had a hand in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    Sysctl { namespace: Option<Identity>, key: String, now: String, after: String },
    BpffsInUse { dir: PathBuf },
    TransmitQueue { interface: String, now: String, after: String },
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sysctl { namespace, key, now, after } => {
                write!(f, "{key}")?;
                if let Some(namespace) = namespace {
                    write!(f, " of network namespace {}", namespace.inode())?;
                }
                write!(f, " is {now} now, not the {after} wad set: left as it is")
            }
            Self::TransmitQueue { interface, now, after } => write!(
                f,
                "the transmit queue of {interface} has {now} packets now, not the {after} wad \
                 set: left as it is"
            ),
            Self::BpffsInUse { dir } => {
                write!(f, "{}, mounted by wad, is in use by others: left mounted", dir.display())
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("cannot read the journal {}", .file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error(
        "cannot write the journal {}, so nothing is changed on this host; see [agent] state_dir",
        .file.display()
    )]
    Write { file: PathBuf, source: io::Error },
    #[error("cannot keep a copy of the damaged journal {}", .file.display())]
    Keep { file: PathBuf, source: io::Error },
    #[error("cannot remove the journal {}", .file.display())]
    Remove { file: PathBuf, source: io::Error },
    #[error("cannot mount the BPF file system at {}", .dir.display())]
    Mount { dir: PathBuf, source: nix::Error },
    #[error("cannot unmount the BPF file system at {}", .dir.display())]
    Unmount { dir: PathBuf, source: io::Error },
    #[error("cannot tell this network namespace")]
    Namespace { source: io::Error },
    #[error("cannot look into the network namespaces that were changed")]
    Namespaces { source: io::Error },
    #[error("cannot enter network namespace {inode}, which takes CAP_SYS_ADMIN")]
    Entering { inode: u64, source: io::Error },
    #[error(
        "there is no interface {interface} with a transmit queue here; once there is, `wad reload` \
         sets its length"
    )]
    NoInterface { interface: String },
    #[error("the transmit queue of {interface}")]
    TransmitQueue { interface: String, source: netlink::NetlinkError },
    #[error(
        "there are rules of a wad in this network namespace that this instance did not make; if \
         they are of no running one, `ip rule flush protocol 119` and `ip -6 rule flush protocol \
         119` remove them"
    )]
    RoutesOfAnother,
    #[error("cannot remove rules and routes of wad's")]
    Routes { source: netlink::NetlinkError },
    #[error(transparent)]
    Sysctl(#[from] sysctl::SysctlError),
    #[error(transparent)]
    Lock(#[from] LockError),
}

impl JournalError {
    /// Whether it is of a setting that this process may not change.
    #[must_use]
    pub fn is_not_permitted(&self) -> bool {
        matches!(self, Self::Sysctl(error) if error.is_not_permitted())
    }
}

/// The journal of one instance, and the way to make the changes it records.
#[derive(Debug)]
pub struct Journal {
    file: PathBuf,
    boot_id: String,
    sysctl: Sysctl,
    entries: Vec<Entry>,
    damage: Option<Damage>,
    /// The network namespace whose settings are meant; None for the agent's.
    place: Option<Identity>,
}

impl Journal {
    /// Reads what an agent of this boot left behind, if anything. Creates nothing.
    pub fn open(state_dir: &Path, instance: &str, sysctl: Sysctl) -> Result<Self, JournalError> {
        let file = state_dir.join(format!("journal-{instance}.jsonl"));
        let boot_id = sysctl.read("kernel.random.boot_id")?;
        let bytes = match fs::read(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (entries, damage, place) = (Vec::new(), None, None);
                return Ok(Self { file, boot_id, sysctl, entries, damage, place });
            }
            read => read.map_err(|source| JournalError::Read { file: file.clone(), source })?,
        };
        let found = lines::read(&bytes, &boot_id);
        if let Some(line) = &found.cut_short {
            tracing::warn!(
                "{}, line {}: cut short before its change was made; it is taken out",
                file.display(),
                line.number
            );
            let cut = cut(&file, line.begins_at);
            cut.map_err(|source| JournalError::Write { file: file.clone(), source })?;
        }
        let damage = if found.unreadable.is_empty() {
            None
        } else {
            let kept = Damage::keep(&file, found.unreadable);
            Some(kept.map_err(|source| JournalError::Keep { file: file.clone(), source })?)
        };
        let (entries, place) = (Vec::new(), None);
        let mut journal = Self { file, boot_id, sysctl, entries, damage, place };
        for change in found.changes {
            lines::fold(&mut journal.entries, change);
        }
        if journal.entries.is_empty() {
            journal.remove()?;
        }
        Ok(journal)
    }

    /// Returns what there is to undo, folded: per setting, what it was before wad.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.entries.iter().map(|entry| &entry.change)
    }

    /// Returns what could not be read, and so is not among the changes.
    #[must_use]
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    #[must_use]
    pub fn sysctl(&self) -> &Sysctl {
        &self.sysctl
    }

    /// Whether wad changed `key`.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.is_setting(self.place, key))
    }

    /// Returns what `key` was before wad changed it, if `now` is wad's doing.
    #[must_use]
    pub fn before(&self, key: &str, now: &str) -> Option<&str> {
        let entry = self.entries.iter().find(|entry| entry.is_setting(self.place, key))?;
        entry.before_of(now)
    }

    /// Sets `key`, journalled.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), JournalError> {
        let before = self.sysctl.read(key)?;
        // What may not be changed gets no line, as that would be two more at each try.
        self.sysctl.may_write(key, value)?;
        let namespace = self.place;
        let change = |before: &str, after: &str| Change::Sysctl {
            namespace,
            key: key.to_owned(),
            before: before.to_owned(),
            after: after.to_owned(),
        };
        self.record(change(&before, value))?;
        self.sysctl.write(key, value).map_err(|error| {
            // As if it had been made and undone. Without this line the one before
            // stands for a change that was never made, which undoing passes over.
            let _ = self.record(change(value, &before));
            error.into()
        })
    }

    /// Sets `key` back to what it was before wad. The line comes after the
    /// change here: until it is there, the older lines still say how to undo it.
    pub fn restore(&mut self, key: &str) -> Result<(), JournalError> {
        let now = self.sysctl.read(key)?;
        let Some(before) = self.before(key, &now).map(str::to_owned) else { return Ok(()) };
        self.sysctl.write(key, &before)?;
        let (namespace, key) = (self.place, key.to_owned());
        self.record(Change::Sysctl { namespace, key, before: now, after: before })
    }

    /// Mounts the BPF file system where it is missing, journalled, and takes the lock in it:
    /// from then on others may share it.
    pub fn ensure_bpffs(&mut self, lock: &Lock) -> Result<(), JournalError> {
        let dir = Path::new(wad_linux::bpffs::BPFFS);
        if !wad_linux::bpffs::is_mounted() {
            self.mount_bpffs(dir)?;
        }
        Ok(lock.take_in(dir)?)
    }

    /// Mounts a BPF file system, journalled.
    fn mount_bpffs(&mut self, dir: &Path) -> Result<(), JournalError> {
        let change = Change::BpffsMount { dir: dir.to_owned() };
        // Where others have unmounted it since, it stands there already.
        if !self.changes().any(|noted| *noted == change) {
            self.record(change)?;
        }
        bpffs::mount(dir).map_err(|source| JournalError::Mount { dir: dir.to_owned(), source })
    }

    /// Sets the length of an interface's transmit queue, journalled.
    pub fn set_transmit_queue(&mut self, wanted: &TransmitQueue) -> Result<(), JournalError> {
        let TransmitQueue { interface, packets } = wanted;
        let namespace = self.namespace()?;
        let failed = |source| JournalError::TransmitQueue { interface: interface.clone(), source };
        let now = transmit_queue::of(interface).map_err(failed)?;
        let Some(Queue { index, packets: now }) = now else {
            return Err(JournalError::NoInterface { interface: interface.clone() });
        };
        if now == *packets {
            return Ok(());
        }
        let change = |before: u32, after: u32| Change::TransmitQueue {
            namespace,
            index,
            interface: interface.clone(),
            before: before.to_string(),
            after: after.to_string(),
        };
        self.record(change(now, *packets))?;
        transmit_queue::set(&Queue { index, packets: *packets }).map_err(|error| {
            // As in `set`.
            let _ = self.record(change(*packets, now));
            failed(error)
        })
    }

    /// Sets the transmit queues of all other interfaces back to what they were, in the
    /// network namespace that is meant.
    pub fn restore_transmit_queues_but(
        &mut self,
        wanted: &[TransmitQueue],
    ) -> Result<(), JournalError> {
        let here = self.namespace()?;
        let is_wanted = |name: &str| wanted.iter().any(|queue| queue.interface == name);
        let is_other = |change: &Change| match change {
            Change::TransmitQueue { namespace, interface, .. } => {
                *namespace == here && !is_wanted(interface)
            }
            _ => false,
        };
        while let Some(place) = self.entries.iter().position(|entry| is_other(&entry.change)) {
            if let Some(left) = self.entries[place].undo(&self.sysctl)? {
                tracing::warn!("{left}");
            }
            let undone = self.entries[place].change.undone();
            self.record(undone.expect("a queue has lengths"))?;
        }
        Ok(())
    }

    /// Notes routes before the first rule or route of wad's is made in the network
    /// namespace that is meant.
    pub fn note_routes(&mut self) -> Result<(), JournalError> {
        let change = Change::Routes { namespace: self.namespace()? };
        if self.changes().any(|known| *known == change) {
            return Ok(());
        }
        if routes::are_there().map_err(|source| JournalError::Routes { source })? {
            return Err(JournalError::RoutesOfAnother);
        }
        self.record(change)
    }

    /// Removes rules and routes of wad's from the network namespace that is meant. A line of
    /// it is not needed: to remove them once more does nothing.
    pub fn leave_routes(&mut self) -> Result<(), JournalError> {
        let change = Change::Routes { namespace: self.namespace()? };
        if let Some(place) = self.entries.iter().position(|entry| entry.change == change) {
            self.entries[place].undo(&self.sysctl)?;
            self.entries.remove(place);
        }
        Ok(())
    }

    /// Does so in all network namespaces.
    pub fn undo_routes(&mut self) -> Result<(), JournalError> {
        self.undo_those(Entry::is_of_routes)?;
        self.entries.retain(|entry| !entry.is_of_routes());
        Ok(())
    }

    /// Undoes everything as whoever holds the lock, which would keep a BPF file system that is
    /// to be unmounted.
    pub fn undo_at_end(&mut self, lock: &Lock) -> Result<Vec<Left>, JournalError> {
        if self.changes().any(|change| matches!(change, Change::BpffsMount { .. })) {
            lock.leave_bpffs();
        }
        self.undo()
    }

    /// Undoes everything, latest first, and removes the file. On an error the
    /// rest is undone all the same and the file stays, for another try.
    pub fn undo(&mut self) -> Result<Vec<Left>, JournalError> {
        let left = self.undo_those(|_| true)?;
        self.entries.clear();
        self.remove()?;
        Ok(left)
    }

    /// Returns the network namespace whose settings are meant.
    fn namespace(&self) -> Result<Identity, JournalError> {
        self.place.map_or_else(namespaces::own, Ok)
    }

    fn record(&mut self, change: Change) -> Result<(), JournalError> {
        let line = Line { boot_id: self.boot_id.clone(), change };
        self.append(&line)
            .map_err(|source| JournalError::Write { file: self.file.clone(), source })?;
        lines::fold(&mut self.entries, line.change);
        Ok(())
    }

    fn append(&self, line: &Line) -> io::Result<()> {
        let dir = self.dir();
        if !dir.exists() {
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
            dir.parent().map_or(Ok(()), sync_dir)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600).custom_flags(NO_LINK);
        let mut file = options.open(&self.file)?;
        let mut bytes = Vec::new();
        if !ends_with_newline(&file)? {
            // A full disk has taken a part of a line, which must not swallow this one; or
            // it may be whole but for its newline.
            match lines::read(&fs::read(&self.file)?, &self.boot_id).cut_short {
                Some(cut_short) => cut(&self.file, cut_short.begins_at)?,
                None => bytes.push(b'\n'),
            }
        }
        serde_json::to_writer(&mut bytes, line)?;
        bytes.push(b'\n');
        file.write_all(&bytes)?;
        file.sync_all()?;
        sync_dir(dir)
    }

    fn remove(&self) -> Result<(), JournalError> {
        let removed = whole_file::remove(&self.file)
            .and_then(|was_there| if was_there { sync_dir(self.dir()) } else { Ok(()) });
        removed.map_err(|source| JournalError::Remove { file: self.file.clone(), source })
    }

    fn dir(&self) -> &Path {
        self.file.parent().expect("the file's name was joined to its folder")
    }
}

/// Says whether nothing stands behind the file's last newline.
fn ends_with_newline(file: &File) -> io::Result<bool> {
    let mut byte = *b"\n";
    if let Some(last) = file.metadata()?.len().checked_sub(1) {
        file.read_exact_at(&mut byte, last)?;
    }
    Ok(byte == *b"\n")
}

/// Cuts a file off behind its whole lines.
fn cut(file: &Path, bytes: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).custom_flags(NO_LINK).open(file)?;
    file.set_len(bytes)?;
    file.sync_all()
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests;
