//! The lock of an instance in a BPF file system. Its folders are the same in whatever mount
//! namespaces it is to be found, which those under /run need not be; and whoever holds the
//! lock of a folder lives, while what is pinned outlives its agent.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use wad_toolbox::{
    own_folder::{self, FolderError},
    whole_file,
};

use super::{LockError, holder, is_still_at};

/// A link, whose target is what the holder says of itself: the BPF file system has no files
/// to be written to.
const NOTE: &str = "holder";

/// Who only looks whether it is held has it for a moment: so often, and with such a pause, it is
/// tried again.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(10);

/// The lock of `/sys/fs/bpf/wad/INSTANCE:lock`. No instance has a colon in its name, and
/// names in a BPF file system have no dots.
#[derive(Debug)]
pub struct Pinned {
    folder: PathBuf,
    /// Holds the lock for as long as it is open.
    held: File,
}

impl Pinned {
    /// Takes it, in the BPF file system that is mounted there.
    pub fn take(bpffs: &Path, instance: &str, who: &str) -> Result<Self, LockError> {
        let folder = folder(bpffs, instance);
        let around = bpffs.join("wad");
        let mut tries = 0;
        let failed = |source| LockError::Lock { file: folder.clone(), source };
        let held = loop {
            match [&around, &folder].into_iter().try_for_each(|made| own_folder::make_private(made))
            {
                // Whoever held it until now is just removing it.
                Err(FolderError::Make { source, .. })
                    if source.kind() == io::ErrorKind::NotFound =>
                {
                    continue;
                }
                made => made?,
            }
            let opened = match File::open(&folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened.map_err(failed)?,
            };
            match opened.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) if tries < TRIES => {
                    tries += 1;
                    thread::sleep(PAUSE);
                    continue;
                }
                Err(TryLockError::WouldBlock) => {
                    let holder = said(&opened, &folder);
                    return Err(LockError::Running { instance: instance.to_owned(), holder });
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            if is_still_at(&opened, &folder).map_err(failed)? {
                break opened;
            }
        };
        let pinned = Self { folder, held };
        pinned
            .leave_note(who)
            .map_err(|source| LockError::Lock { file: pinned.folder.join(NOTE), source })?;
        Ok(pinned)
    }

    /// Returns who holds it; None where nobody does.
    pub fn holder(bpffs: &Path, instance: &str) -> Option<String> {
        let folder = folder(bpffs, instance);
        let opened = File::open(&folder).ok()?;
        match opened.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Some(said(&opened, &folder)),
            _ => None,
        }
    }

    /// Whether others meet it: the file system may have been unmounted.
    pub fn is_there(&self) -> bool {
        is_still_at(&self.held, &self.folder).unwrap_or_default()
    }

    fn leave_note(&self, who: &str) -> io::Result<()> {
        let at = self.folder.join(NOTE);
        // One that died has left its own.
        whole_file::remove(&at)?;
        symlink(holder::note(who), at)
    }
}

fn folder(bpffs: &Path, instance: &str) -> PathBuf {
    bpffs.join("wad").join(format!("{instance}:lock"))
}

/// Returns who holds a lock that was refused.
fn said(refused: &File, folder: &Path) -> String {
    let note = fs::read_link(folder.join(NOTE)).ok();
    let note = note.as_ref().map(|note| note.to_string_lossy());
    holder::of(refused, note.as_deref())
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if !self.is_there() {
            return;
        }
        let removed =
            whole_file::remove(&self.folder.join(NOTE)).and_then(|_| fs::remove_dir(&self.folder));
        if let Err(error) = removed {
            tracing::warn!("cannot remove {}: {error}", self.folder.display());
        }
        // What else is in it is others'.
        let _ = self.folder.parent().map(fs::remove_dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: &str = "version 1";

    #[test]
    fn the_second_is_told_who_holds_it_and_the_end_leaves_nothing() {
        let bpffs = tempfile::tempdir().unwrap();
        let held = Pinned::take(bpffs.path(), "default", WHO).unwrap();
        let error = Pinned::take(bpffs.path(), "default", "version 2").unwrap_err().to_string();
        let words = format!("(process {}, version 1)", std::process::id());
        assert!(error.contains(&words), "{error}");
        let other = Pinned::take(bpffs.path(), "other", WHO).unwrap();
        drop(held);
        assert!(bpffs.path().join("wad/other:lock").is_dir());
        drop(Pinned::take(bpffs.path(), "default", WHO).unwrap());
        drop(other);
        assert_eq!(fs::read_dir(bpffs.path()).unwrap().count(), 0);
    }

    #[test]
    fn who_looks_is_told_who_holds_it_and_is_in_nobodys_way() {
        let bpffs = tempfile::tempdir().unwrap();
        assert_eq!(Pinned::holder(bpffs.path(), "default"), None);
        let held = Pinned::take(bpffs.path(), "default", WHO).unwrap();
        let words = format!("process {}, version 1", std::process::id());
        assert_eq!(Pinned::holder(bpffs.path(), "default"), Some(words));
        assert_eq!(Pinned::holder(bpffs.path(), "other"), None);
        // One that died has left its folder.
        held.held.unlock().unwrap();
        assert_eq!(Pinned::holder(bpffs.path(), "default"), None);
        let looking = File::open(&held.folder).unwrap();
        looking.lock_shared().unwrap();
        thread::scope(|scope| {
            let taking = scope.spawn(|| Pinned::take(bpffs.path(), "default", WHO).map(drop));
            drop(looking);
            taking.join().unwrap().unwrap();
        });
    }

    #[test]
    fn what_one_that_died_has_left_is_in_nobodys_way() {
        let bpffs = tempfile::tempdir().unwrap();
        let held = Pinned::take(bpffs.path(), "default", WHO).unwrap();
        let at = held.folder.join(NOTE);
        held.held.unlock().unwrap();
        let next = Pinned::take(bpffs.path(), "default", "version 2").unwrap();
        assert!(fs::read_link(at).unwrap().to_string_lossy().ends_with("version 2"));
        drop(next);
        std::mem::forget(held);
    }

    #[test]
    fn others_pins_stay() {
        let bpffs = tempfile::tempdir().unwrap();
        let pins = bpffs.path().join("wad/default/layout");
        fs::create_dir_all(&pins).unwrap();
        drop(Pinned::take(bpffs.path(), "default", WHO).unwrap());
        assert!(pins.is_dir());
        assert_eq!(fs::read_dir(bpffs.path().join("wad")).unwrap().count(), 1);
    }

    #[test]
    fn only_one_of_many_gets_it() {
        use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
        let bpffs = tempfile::tempdir().unwrap();
        let holders = AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        if let Ok(_held) = Pinned::take(bpffs.path(), "default", WHO) {
                            assert_eq!(holders.fetch_add(1, SeqCst), 0);
                            holders.fetch_sub(1, SeqCst);
                        }
                    }
                });
            }
        });
    }
}
