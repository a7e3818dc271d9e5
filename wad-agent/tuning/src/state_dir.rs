//! Says where an instance's journal is for as long as there may be something in it:
//! `/run/wad/<instance>.state_dir` says so, whatever has become of the configuration
//! since. A reboot removes it, and what the journal would undo.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

use wad_linux::lock::Lock;
use wad_toolbox::whole_file::{self, UNFINISHED};

#[derive(Debug, thiserror::Error)]
pub enum StateDirError {
    #[error("cannot read {}, which says where the journal is", .file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("cannot write {}, which says where the journal is", .file.display())]
    Write { file: PathBuf, source: io::Error },
    #[error("cannot remove {}", .file.display())]
    Remove { file: PathBuf, source: io::Error },
}

/// The note of one instance, for whoever holds its lock.
pub struct StateDir {
    file: PathBuf,
}

impl StateDir {
    #[must_use]
    pub fn of(lock: &Lock) -> Self {
        Self { file: lock.beside("state_dir") }
    }

    /// Returns the folder as an agent before this one noted it.
    pub fn noted(&self) -> Result<Option<PathBuf>, StateDirError> {
        match fs::read(&self.file) {
            Ok(bytes) => Ok(Some(OsString::from_vec(bytes).into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StateDirError::Read { file: self.file.clone(), source }),
        }
    }

    /// Notes the folder before anything is changed on the host.
    pub fn note(&self, dir: &Path) -> Result<(), StateDirError> {
        let write = || {
            let dir = std::path::absolute(dir)?;
            whole_file::write(&self.file, dir.as_os_str().as_bytes())
        };
        write().map_err(|source| StateDirError::Write { file: self.file.clone(), source })
    }

    /// Once the journal has been undone.
    pub fn forget(&self) -> Result<(), StateDirError> {
        // And what an agent has left that was killed as it noted it.
        [self.file.clone(), whole_file::unfinished(&self.file)].into_iter().try_for_each(|file| {
            let removed = whole_file::remove(&file);
            removed.map(|_| ()).map_err(|source| StateDirError::Remove { file, source })
        })
    }
}

/// Says so where a start goes on with the folder that is noted and the configuration names
/// another: only the journal there knows what is to be undone.
#[must_use]
pub fn told_of_other(in_use: &Path, configured: &Path) -> Option<String> {
    (in_use != configured).then(|| {
        format!(
            "[agent] state_dir is {}, but {} stays in use, where the journal is of what was changed \
             on this host: stop the agent, run `wad cleanup` if on_exit is \"keep\", and start it",
            configured.display(),
            in_use.display()
        )
    })
}

/// Removes what agents of an instance have left in `state_dir` of files that they were just
/// writing when they were killed: `WHAT-INSTANCE.json.new`, as of each file there the first hyphen
/// is before the instance.
pub fn remove_unfinished(dir: &Path, instance: &str) {
    let is_left = |name: &str| {
        let of = name.strip_suffix(UNFINISHED).and_then(|name| name.split_once('-'));
        of.and_then(|(_, of)| of.split_once('.')).is_some_and(|(of, _)| of == instance)
    };
    let Ok(entries) = fs::read_dir(dir) else { return };
    for file in entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_left)) {
        let file = file.path();
        if let Err(error) = fs::remove_file(&file) {
            tracing::warn!("cannot remove {}: {error}", file.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_outlives_the_agent_until_it_is_forgotten() {
        let run = tempfile::tempdir().unwrap();
        let take = || Lock::take(run.path(), "default", "version 1").unwrap();
        StateDir::of(&take()).note(Path::new("state")).unwrap();

        let lock = take();
        let state_dir = StateDir::of(&lock);
        let dir = state_dir.noted().unwrap().unwrap();
        assert!(dir.is_absolute() && dir.ends_with("state"), "{}", dir.display());
        fs::write(run.path().join("default.state_dir.new"), "").unwrap();
        state_dir.forget().unwrap();
        state_dir.forget().unwrap();
        assert_eq!(state_dir.noted().unwrap(), None);
        drop(lock);
        assert_eq!(fs::read_dir(run.path()).unwrap().count(), 0);
    }

    #[test]
    fn another_folder_than_the_one_in_use_is_told_of() {
        let told = |in_use: &str| told_of_other(Path::new(in_use), Path::new("/srv/wad"));
        assert_eq!(told("/srv/wad/"), None);
        let words = told("/var/lib/wad").unwrap();
        let begin = "[agent] state_dir is /srv/wad, but /var/lib/wad stays in use, ";
        assert!(words.starts_with(begin) && words.ends_with("and start it"), "{words}");
    }

    #[test]
    fn a_link_in_its_place_is_not_written_through() {
        let run = tempfile::tempdir().unwrap();
        let victim = run.path().join("victim");
        fs::write(&victim, "kept").unwrap();
        for link in ["default.state_dir", "default.state_dir.new"] {
            std::os::unix::fs::symlink(&victim, run.path().join(link)).unwrap();
            let lock = Lock::take(run.path(), "default", "version 1").unwrap();
            let _ = StateDir::of(&lock).note(Path::new("state"));
            assert_eq!(fs::read_to_string(&victim).unwrap(), "kept", "{link}");
        }
    }

    #[test]
    fn only_what_is_unfinished_and_of_the_instance_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let left = ["sets-default.json.new", "journal-default.jsonl.damaged.new"];
        let others = ["sets-default.json", "sets-a-default.json.new", "sets-b.json.new", "a.new"];
        for name in left.iter().chain(&others) {
            fs::write(dir.path().join(name), "").unwrap();
        }
        remove_unfinished(dir.path(), "default");
        let kept = |name: &&&str| dir.path().join(name).exists();
        assert_eq!(left.iter().filter(kept).count(), 0);
        assert_eq!(others.iter().filter(kept).count(), others.len());
        remove_unfinished(&dir.path().join("none"), "default");
    }
}
