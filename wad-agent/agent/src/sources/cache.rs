//! The last good values on disk, so that a restart does not forget them:
//! `measured-<instance>.json` in the state folder. They go stale there as well.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use wad_policy::config::Metric;
use wad_toolbox::whole_file;

use super::{Reading, Sample, Store, Targets};

/// A cache has room for 100,000 paths with all metrics from two sources.
const MAX_BYTES: u64 = 64 << 20;

#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error("cannot read {}", file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("{} is damaged", file.display())]
    Damaged { file: PathBuf, source: serde_json::Error },
    #[error("cannot write {}", file.display())]
    Write { file: PathBuf, source: io::Error },
}

#[derive(Clone, Debug)]
pub struct Cache {
    file: PathBuf,
}

/// Value and time of a metric.
type Kept = BTreeMap<String, (f64, f64)>;

#[derive(Default, Deserialize, Serialize)]
struct Content {
    /// The values kept, by source and path.
    sources: BTreeMap<String, BTreeMap<String, Kept>>,
}

fn restore(bytes: &[u8], store: &mut Store, targets: &Targets) -> serde_json::Result<()> {
    let content: Content = serde_json::from_slice(bytes)?;
    for (source, paths) in &content.sources {
        for (path, kept) in paths {
            let Some(target) = targets.named(path) else { continue };
            for metric in Metric::ALL {
                let Some(&(value, measured_at_seconds)) = kept.get(metric.key()) else { continue };
                let sample = Sample { value, measured_at_seconds };
                store.restore(source, Reading { target, metric, sample });
            }
        }
    }
    Ok(())
}

impl Cache {
    pub fn new(state_dir: &Path, instance: &str) -> Self {
        Self { file: state_dir.join(format!("measured-{instance}.json")) }
    }

    /// Puts what is there into the store.
    pub fn read(&self, store: &mut Store, targets: &Targets) -> Result<(), CacheError> {
        let read = |source| CacheError::Read { file: self.file.clone(), source };
        let Some(bytes) = whole_file::read(&self.file, MAX_BYTES).map_err(read)? else {
            return Ok(());
        };
        restore(&bytes, store, targets)
            .map_err(|source| CacheError::Damaged { file: self.file.clone(), source })
    }

    /// For libFuzzer, see `tests/fuzz`.
    #[cfg(feature = "fuzz")]
    pub fn fuzz(bytes: &[u8]) {
        let (sources, targets) = super::fuzz::configured();
        let mut store = Store::new(sources, targets);
        if restore(bytes, &mut store, targets).is_ok() {
            let written = Self::content(&store, targets);
            assert!(restore(&written, &mut store, targets).is_ok());
        }
    }

    /// Returns what [`Cache::write`] is to write.
    pub fn content(store: &Store, targets: &Targets) -> Vec<u8> {
        let mut content = Content::default();
        for (source, Reading { target, metric, sample }) in store.samples() {
            let paths = content.sources.entry(source.to_owned()).or_default();
            let kept = paths.entry(targets.names()[target].to_string()).or_default();
            kept.insert(metric.key().to_owned(), (sample.value, sample.measured_at_seconds));
        }
        serde_json::to_vec(&content).expect("texts and finite numbers are JSON")
    }

    /// Whole or not at all.
    pub fn write(&self, content: &[u8]) -> Result<(), CacheError> {
        whole_file::write(&self.file, content)
            .map_err(|source| CacheError::Write { file: self.file.clone(), source })
    }
}
