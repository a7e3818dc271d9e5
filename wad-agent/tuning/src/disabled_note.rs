//! Notes what is disabled in `<state_dir>/disabled-<instance>.json` so that it is
//! still so after a restart, a crash or a reboot. No file: nothing is.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use wad_policy::switch::Disabled;
use wad_toolbox::whole_file;

#[derive(Debug, thiserror::Error)]
pub enum NoteError {
    #[error("cannot read {}, which says what is disabled", .file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error(
        "{} does not say what is disabled: correct it, or remove it to enable all paths",
        .file.display()
    )]
    Unreadable { file: PathBuf, source: serde_json::Error },
    #[error("cannot write {}", .file.display())]
    Write { file: PathBuf, source: io::Error },
    #[error("cannot remove {}", .file.display())]
    Remove { file: PathBuf, source: io::Error },
}

/// The note of one instance.
#[derive(Clone, Debug)]
pub struct Note {
    file: PathBuf,
}

impl Note {
    #[must_use]
    pub fn of(state_dir: &Path, instance: &str) -> Self {
        Self { file: state_dir.join(format!("disabled-{instance}.json")) }
    }

    pub fn read(&self) -> Result<Disabled, NoteError> {
        let text = match fs::read(&self.file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Disabled::default()),
            Err(source) => return Err(NoteError::Read { file: self.file.clone(), source }),
        };
        serde_json::from_slice(&text)
            .map_err(|source| NoteError::Unreadable { file: self.file.clone(), source })
    }

    /// Whole or not at all; on disk when it returns.
    pub fn write(&self, disabled: &Disabled) -> Result<(), NoteError> {
        if disabled.is_nothing() {
            return self.remove().map(|_was_there| ());
        }
        let write = || {
            let mut content = serde_json::to_vec(disabled)?;
            content.push(b'\n');
            whole_file::write(&self.file, &content)
        };
        write().map_err(|source| NoteError::Write { file: self.file.clone(), source })
    }

    /// Returns whether there was one.
    pub fn remove(&self) -> Result<bool, NoteError> {
        whole_file::remove(&self.file)
            .map_err(|source| NoteError::Remove { file: self.file.clone(), source })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_is_noted_is_read_again_and_nothing_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let state_dir = folder.path().join("state");
        let note = Note::of(&state_dir, "default");
        assert!(note.read().unwrap().is_nothing());
        note.write(&Disabled::default()).unwrap();
        assert!(!state_dir.exists());
        let disabled = Disabled { all: false, paths: BTreeSet::from(["a \"path\"".to_owned()]) };
        note.write(&disabled).unwrap();
        assert_eq!(Note::of(&state_dir, "default").read().unwrap(), disabled);
        assert!(Note::of(&state_dir, "other").read().unwrap().is_nothing());
        note.write(&Disabled::default()).unwrap();
        assert_eq!(fs::read_dir(&state_dir).unwrap().count(), 0);
    }

    #[test]
    fn a_damaged_note_is_not_taken_for_none() {
        let folder = tempfile::tempdir().unwrap();
        let note = Note::of(folder.path(), "default");
        for text in ["", "{\"all\": true}", "{\"all\": true, \"paths\": [], \"more\": 1}"] {
            fs::write(folder.path().join("disabled-default.json"), text).unwrap();
            let said = note.read().unwrap_err().to_string();
            assert!(said.contains("remove it to enable all paths"), "{said}");
        }
        assert!(note.remove().unwrap() && !note.remove().unwrap());
    }
}
