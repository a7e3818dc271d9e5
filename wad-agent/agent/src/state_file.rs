//! A file in the state folder, where an agent keeps for the next one what it has found out.

use std::{
    error::Error,
    fmt::{self, Debug, Formatter},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use tracing::warn;
use wad_toolbox::{causes::told, mutex::locked, whole_file};

#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    #[error("cannot read {}", file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("{} is damaged", file.display())]
    Damaged { file: PathBuf, source: Box<dyn Error + Send + Sync> },
    #[error("cannot write {}", file.display())]
    Write { file: PathBuf, source: io::Error },
}

/// `<what>-<instance>.json`. Clones are of the same file: of what they are given, the newest
/// is what it keeps.
#[derive(Clone)]
pub struct StateFile {
    path: PathBuf,
    max_bytes: u64,
    pending: Arc<Mutex<Pending>>,
    /// Whoever writes has it.
    writing: Arc<Mutex<()>>,
}

#[derive(Default)]
struct Pending {
    /// The newest content is to be written next.
    content: Option<Content>,
    /// A thread is there that does so. There is no other: a disk that hangs holds up one.
    has_writer: bool,
}

/// It is made where there is time for it.
type Content = Box<dyn FnOnce() -> Vec<u8> + Send>;

impl StateFile {
    pub fn new(state_dir: &Path, (what, instance): (&str, &str), max_bytes: u64) -> Self {
        let path = state_dir.join(format!("{what}-{instance}.json"));
        Self { path, max_bytes, pending: Arc::default(), writing: Arc::default() }
    }

    /// Returns what is there; None where there is no file.
    pub fn read<T, E>(
        &self,
        parse: impl FnOnce(&[u8]) -> Result<T, E>,
    ) -> Result<Option<T>, StateFileError>
    where
        E: Error + Send + Sync + 'static,
    {
        let file = self.path.clone();
        match whole_file::read(&file, self.max_bytes) {
            Ok(None) => Ok(None),
            Ok(Some(bytes)) => parse(&bytes).map(Some).map_err(|error| {
                let source = Box::new(error);
                StateFileError::Damaged { file, source }
            }),
            Err(source) => Err(StateFileError::Read { file, source }),
        }
    }

    /// Keeps this, beside tasks that must not wait for it. Needs a tokio runtime.
    pub fn keep(&self, content: impl FnOnce() -> Vec<u8> + Send + 'static) {
        let mut pending = locked(&self.pending);
        pending.content = Some(Box::new(content));
        if !std::mem::replace(&mut pending.has_writer, true) {
            let file = self.clone();
            tokio::task::spawn_blocking(move || file.write_all());
        }
    }

    /// Keeps this, and returns when it is on disk.
    pub fn keep_now(&self, content: Vec<u8>) {
        locked(&self.pending).content = Some(Box::new(|| content));
        self.write();
    }

    /// Writes until nothing newer is there.
    fn write_all(&self) {
        loop {
            self.write();
            let mut pending = locked(&self.pending);
            if pending.content.is_none() {
                pending.has_writer = false;
                return;
            }
        }
    }

    /// Whole or not at all.
    fn write(&self) {
        let _one_at_a_time = locked(&self.writing);
        let Some(content) = locked(&self.pending).content.take() else { return };
        let content = content();
        let written = if content.len() as u64 > self.max_bytes {
            Err(io::ErrorKind::FileTooLarge.into())
        } else {
            whole_file::write(&self.path, &content)
        };
        if let Err(source) = written {
            let error = StateFileError::Write { file: self.path.clone(), source };
            warn!("{}: the next agent does not know what this one does", told(&error));
        }
    }
}

impl Debug for StateFile {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, str, sync::mpsc};

    use super::*;

    fn text(bytes: &[u8]) -> Result<String, str::Utf8Error> {
        str::from_utf8(bytes).map(str::to_owned)
    }

    #[test]
    fn it_is_absent_whole_too_large_or_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let file = StateFile::new(folder.path(), ("sets", "a"), 4);
        assert_eq!(file.read(text).unwrap(), None);
        file.keep_now(b"good".to_vec());
        assert_eq!(file.read(text).unwrap().unwrap(), "good");
        file.keep_now(b"large".to_vec());
        assert_eq!(file.read(text).unwrap().unwrap(), "good");

        let path = folder.path().join("sets-a.json");
        fs::write(&path, b"\xff").unwrap();
        let error = file.read(text).unwrap_err().to_string();
        assert!(error.ends_with("sets-a.json is damaged"), "{error}");
        fs::write(&path, "large").unwrap();
        assert!(matches!(file.read(text), Err(StateFileError::Read { .. })));
    }

    #[test]
    fn a_disk_that_hangs_holds_up_one_thread() {
        let folder = tempfile::tempdir().unwrap();
        let file = StateFile::new(folder.path(), ("sets", "a"), 64);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(2)
            .build()
            .unwrap();
        let (go_on, wait) = mpsc::channel::<()>();
        let other = runtime.block_on(async {
            file.keep(move || {
                let _ = wait.recv();
                b"first".to_vec()
            });
            for n in 0..20 {
                file.keep(move || n.to_string().into_bytes());
            }
            let other = tokio::task::spawn_blocking(|| ());
            tokio::time::timeout(std::time::Duration::from_secs(60), other).await
        });
        drop(go_on);
        assert!(other.is_ok(), "the other thread waits, too");
        drop(runtime);
        assert_eq!(file.read(text).unwrap().unwrap(), "19");
    }

    #[tokio::test]
    async fn what_is_given_last_is_what_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = StateFile::new(folder.path(), ("sets", "a"), 64);
        let (go_on, wait) = mpsc::channel::<()>();
        file.keep(move || {
            // Until nobody holds the other end.
            let _ = wait.recv();
            b"first".to_vec()
        });
        for n in 0..20 {
            file.keep(move || n.to_string().into_bytes());
        }
        drop(go_on);
        let last = file.clone();
        tokio::task::spawn_blocking(move || last.keep_now(b"last".to_vec())).await.unwrap();
        assert_eq!(file.read(text).unwrap().unwrap(), "last");
    }
}
