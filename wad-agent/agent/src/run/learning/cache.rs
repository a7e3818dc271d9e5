//! A file has what is learned, so that a restart does not forget it: `learned-<instance>.json`
//! in the state folder.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use tracing::warn;
use wad_observing::learn::{KeptError, Learner, kept_bytes, parse_kept};
use wad_toolbox::{causes::told, mutex::locked, whole_file};

/// The most paths that can be learned take less than one MiB.
const MAX_BYTES: u64 = 4 << 20;

#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error("cannot read {}", file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("{} is damaged", file.display())]
    Damaged { file: PathBuf, source: KeptError },
    #[error("cannot write {}", file.display())]
    Write { file: PathBuf, source: io::Error },
}

#[derive(Clone, Debug)]
pub struct Cache {
    file: PathBuf,
    /// The content that is to be written next; the newest.
    pending: Arc<Mutex<Option<Vec<u8>>>>,
    /// Whoever writes has it.
    writing: Arc<Mutex<()>>,
}

impl Cache {
    pub fn new(state_dir: &Path, instance: &str) -> Self {
        let file = state_dir.join(format!("learned-{instance}.json"));
        Self { file, pending: Arc::default(), writing: Arc::default() }
    }

    /// Returns what was kept; nothing is learned where there is no file.
    pub fn read(&self) -> Result<Learner, CacheError> {
        let file = self.file.clone();
        match whole_file::read(&file, MAX_BYTES) {
            Ok(None) => Ok(Learner::default()),
            Ok(Some(bytes)) => {
                parse_kept(&bytes).map_err(|source| CacheError::Damaged { file, source })
            }
            Err(source) => Err(CacheError::Read { file, source }),
        }
    }

    /// Keeps this, beside tasks that must not wait for it. Needs a tokio runtime.
    pub fn keep(&self, learner: &Learner) {
        *locked(&self.pending) = Some(kept_bytes(learner));
        let cache = self.clone();
        tokio::task::spawn_blocking(move || cache.write());
    }

    /// Keeps this, and returns when it is on disk.
    pub fn write_now(&self, learner: &Learner) {
        *locked(&self.pending) = Some(kept_bytes(learner));
        self.write();
    }

    /// Whole or not at all.
    fn write(&self) {
        let _one_at_a_time = locked(&self.writing);
        let Some(bytes) = locked(&self.pending).take() else { return };
        let written = whole_file::write(&self.file, &bytes)
            .map_err(|source| CacheError::Write { file: self.file.clone(), source });
        if let Err(error) = written {
            warn!("{}: what is learned is forgotten with this agent", told(&error));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_kept_is_there_again_and_a_damaged_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path(), "a");
        assert_eq!(cache.read().unwrap(), Learner::default());
        let text = r#"{"version":1,"paths":[{"remote":"10.0.0.0/24","bits_per_second":1e9,
            "rtt_seconds":0.1,"sndbuf":true,"rcvbuf":false,"evidence":"limited","used_at":5,
            "changed_at":5}]}"#;
        fs::write(&cache.file, text).unwrap();
        let learner = cache.read().unwrap();
        assert_eq!(learner.paths().len(), 1);
        cache.write_now(&Learner::default());
        assert_eq!(cache.read().unwrap(), Learner::default());
        cache.write_now(&learner);
        assert_eq!(cache.read().unwrap(), learner);

        for damaged in ["", "{", &text[..text.len() / 2], &text.replace("/24", "/0")] {
            fs::write(&cache.file, damaged).unwrap();
            let error = cache.read().unwrap_err().to_string();
            assert!(error.ends_with("learned-a.json is damaged"), "{error}");
        }
    }
}
