//! One agent runs per instance: a lock under /run/wad that the kernel drops with the
//! process that holds it, and the socket by which commands reach that agent. Containers
//! need not share /run/wad with the host: the same lock is in the BPF file system.

mod holder;
mod pinned;

use std::{
    fs::{self, DirBuilder, DirEntry, File, OpenOptions, Permissions, TryLockError},
    io::{self, Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Mutex,
};

use wad_toolbox::{mutex::locked, own_folder::FolderError, whole_file};

use self::pinned::Pinned;

/// Where running agents leave their locks and sockets.
pub const RUN_DIR: &str = "/run/wad";

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error(
        "wad runs already as instance \"{instance}\" ({holder}): stop it first, or choose another \
         --instance"
    )]
    Running { instance: String, holder: String },
    #[error("cannot lock {}{}", .file.display(), if_denied(.source))]
    Lock { file: PathBuf, source: io::Error },
    #[error(transparent)]
    Folder(#[from] FolderError),
}

/// Returns where the agent of an instance listens for commands.
#[must_use]
pub fn socket(run_dir: &Path, instance: &str) -> PathBuf {
    run_dir.join(format!("{instance}.sock"))
}

/// Returns where it listens for those who may only read, given where for commands.
#[must_use]
pub fn readers(socket: &Path) -> PathBuf {
    socket.with_extension("read.sock")
}

/// The right to be the agent of an instance, or to clean up after a dead one.
/// Dropping it removes the lock's file and whatever socket is left.
#[derive(Debug)]
pub struct Lock {
    file: PathBuf,
    socket: PathBuf,
    instance: String,
    /// The words in which the holder says who it is.
    who: String,
    /// The lock in the BPF file system; None where it is not mounted yet.
    pinned: Mutex<Option<Pinned>>,
    /// Holds the lock for as long as it is open.
    _held: File,
}

impl Lock {
    /// Takes the lock of a folder. `who` is told to those who are refused it.
    pub fn take(run_dir: &Path, instance: &str, who: &str) -> Result<Self, LockError> {
        let file = run_dir.join(format!("{instance}.lock"));
        let failed = |source| LockError::Lock { file: file.clone(), source };
        let held = loop {
            let opened = open(run_dir, &file).map_err(failed)?;
            match opened.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(running(instance, opened)),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            // Whoever held it until now may have removed the file: then this is
            // a lock that no one else will meet.
            if is_still_at(&opened, &file).map_err(failed)? {
                break opened;
            }
        };
        write_note(&held, who).map_err(failed)?;
        let socket = socket(run_dir, instance);
        let (instance, who, pinned) = (instance.to_owned(), who.to_owned(), Mutex::default());
        Ok(Self { file, socket, instance, who, pinned, _held: held })
    }

    /// Takes the lock in the BPF file system that is mounted there as well, for whoever has
    /// that, but not the folder. To take it again does nothing, unless it has gone from there.
    pub fn take_in(&self, bpffs: &Path) -> Result<(), LockError> {
        let mut pinned = locked(&self.pinned);
        if !pinned.as_ref().is_some_and(Pinned::is_there) {
            *pinned = Some(Pinned::take(bpffs, &self.instance, &self.who)?);
        }
        Ok(())
    }

    /// Returns who holds the lock of an instance in the BPF file system that is mounted there,
    /// in whatever namespaces that is; None where nobody does.
    #[must_use]
    pub fn holder_in(bpffs: &Path, instance: &str) -> Option<String> {
        Pinned::holder(bpffs, instance)
    }

    /// Leaves the BPF file system, as to unmount it.
    pub fn leave_bpffs(&self) {
        *locked(&self.pinned) = None;
    }

    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Removes the socket of those who may only read.
    pub fn remove_readers(&self) {
        remove_socket(&readers(&self.socket));
        if let Some(folder) = self.file.parent() {
            close(folder);
        }
    }

    /// Returns another file of this instance, which dropping the lock leaves.
    #[must_use]
    pub fn beside(&self, extension: &str) -> PathBuf {
        self.file.with_extension(extension)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Once the file is gone another may have all of it.
        self.leave_bpffs();
        remove_socket(&self.socket);
        remove(&self.file);
        self.remove_readers();
    }
}

/// Removes one with what an agent has left of it that was killed as it made it.
fn remove_socket(socket: &Path) {
    remove(socket);
    remove(&whole_file::unfinished(socket));
}

fn remove(file: &Path) {
    if let Err(error) = whole_file::remove(file) {
        tracing::warn!("cannot remove {}: {error}", file.display());
    }
}

/// Lets others not even pass any more, when the last agent that has readers is gone.
fn close(run_dir: &Path) {
    let Ok(entries) = fs::read_dir(run_dir) else { return };
    let is_of_readers =
        |entry: DirEntry| entry.file_name().as_encoded_bytes().ends_with(b".read.sock");
    if !entries.flatten().any(is_of_readers) {
        // It may be another user's.
        let _ = fs::set_permissions(run_dir, Permissions::from_mode(0o700));
    }
}

fn if_denied(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::PermissionDenied { " (it takes root)" } else { "" }
}

fn open(run_dir: &Path, file: &Path) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(run_dir)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(libc::O_NOFOLLOW).open(file)
}

fn is_still_at(held: &File, file: &Path) -> io::Result<bool> {
    match fs::metadata(file) {
        Ok(found) => Ok(found.ino() == held.metadata()?.ino()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn write_note(mut held: &File, who: &str) -> io::Result<()> {
    held.set_len(0)?;
    held.rewind()?;
    writeln!(held, "{}", holder::note(who))
}

fn running(instance: &str, mut lock: File) -> LockError {
    let mut note = String::new();
    let note = match lock.read_to_string(&mut note) {
        Ok(1..) => Some(note.trim()),
        _ => None,
    };
    LockError::Running { instance: instance.to_owned(), holder: holder::of(&lock, note) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: &str = "version 1";

    #[test]
    fn the_second_is_refused_by_name_and_harms_nothing() {
        let run = tempfile::tempdir().unwrap();
        let lock = Lock::take(run.path(), "default", WHO).unwrap();
        let error = Lock::take(run.path(), "default", WHO).unwrap_err().to_string();
        let pid = std::process::id();
        let words = format!("runs already as instance \"default\" (process {pid}, version 1)");
        assert!(error.contains(&words), "{error}");
        assert_eq!(lock.socket(), run.path().join("default.sock"));
        Lock::take(run.path(), "test", WHO).unwrap();
        drop(lock);
        Lock::take(run.path(), "default", WHO).unwrap();
    }

    #[test]
    fn who_has_another_folder_is_refused_in_the_bpf_file_system() {
        let [run, other, bpffs] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let lock = Lock::take(run.path(), "default", WHO).unwrap();
        lock.take_in(bpffs.path()).unwrap();
        lock.take_in(bpffs.path()).unwrap();
        // As others do who unmount it, or tidy up.
        fs::remove_dir_all(bpffs.path().join("wad")).unwrap();
        lock.take_in(bpffs.path()).unwrap();
        let second = Lock::take(other.path(), "default", WHO).unwrap();
        let error = second.take_in(bpffs.path()).unwrap_err().to_string();
        assert!(error.starts_with("wad runs already as instance \"default\" (process "), "{error}");
        drop(lock);
        second.take_in(bpffs.path()).unwrap();
        second.leave_bpffs();
        assert_eq!(fs::read_dir(bpffs.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_what_is_denied_takes_root() {
        let said = |errno| {
            let source = io::Error::from_raw_os_error(errno);
            LockError::Lock { file: "/run/wad/default.lock".into(), source }.to_string()
        };
        assert_eq!(said(libc::EACCES), "cannot lock /run/wad/default.lock (it takes root)");
        assert_eq!(said(libc::EPERM), "cannot lock /run/wad/default.lock (it takes root)");
        assert_eq!(said(libc::ENOSPC), "cannot lock /run/wad/default.lock");
    }

    #[test]
    fn what_a_dead_agent_left_is_removed() {
        let run = tempfile::tempdir().unwrap();
        fs::write(run.path().join("default.lock"), "123456789\n").unwrap();
        for name in ["sock", "sock.new", "read.sock", "read.sock.new"] {
            fs::write(run.path().join(format!("default.{name}")), "").unwrap();
        }
        drop(Lock::take(&run.path().join("."), "default", WHO).unwrap());
        assert_eq!(fs::read_dir(run.path()).unwrap().count(), 0);
    }

    #[test]
    fn others_pass_as_long_as_any_agent_has_readers() {
        let run = tempfile::tempdir().unwrap();
        let mode = || fs::metadata(run.path()).unwrap().permissions().mode() & 0o777;
        let [one, other] = ["one", "other"].map(|name| Lock::take(run.path(), name, WHO).unwrap());
        fs::set_permissions(run.path(), Permissions::from_mode(0o711)).unwrap();
        fs::write(readers(one.socket()), "").unwrap();
        drop(other);
        assert_eq!(mode(), 0o711);
        drop(one);
        assert_eq!((mode(), fs::read_dir(run.path()).unwrap().count()), (0o700, 0));
    }

    #[test]
    fn a_link_in_its_place_is_not_followed() {
        let run = tempfile::tempdir().unwrap();
        let victim = run.path().join("victim");
        std::os::unix::fs::symlink(&victim, run.path().join("default.lock")).unwrap();
        assert!(Lock::take(run.path(), "default", WHO).is_err());
        assert!(!victim.exists());
        fs::write(&victim, "kept").unwrap();
        assert!(Lock::take(run.path(), "default", WHO).is_err());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
    }

    #[test]
    fn only_one_of_many_gets_it() {
        let run = tempfile::tempdir().unwrap();
        let holders = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        use std::sync::atomic::Ordering::SeqCst;
                        if let Ok(_lock) = Lock::take(run.path(), "default", WHO) {
                            assert_eq!(holders.fetch_add(1, SeqCst), 0);
                            holders.fetch_sub(1, SeqCst);
                        }
                    }
                });
            }
        });
    }
}
