//! The last good values on disk, so that a restart does not forget them:
//! `measured-<instance>.json` in the state folder. They go stale there as well.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};
use wad_policy::config::Metric;

use super::{Reading, Sample, Store, Targets};
use crate::state_file::{StateFile, StateFileError};

/// A cache has room for 100,000 paths with all metrics from two sources.
const MAX_BYTES: u64 = 64 << 20;

/// The key of a bandwidth that is the least that a path carries.
const LEAST: &str = "least_bandwidth";

#[derive(Clone, Debug)]
pub struct Cache(StateFile);

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
                let value = |key, is_least| Some((*kept.get(key)?, is_least));
                let found = value(metric.key(), false)
                    .or_else(|| (metric == Metric::Bandwidth).then(|| value(LEAST, true))?);
                let Some(((value, measured_at_seconds), is_least)) = found else { continue };
                let sample = Sample { value, measured_at_seconds, is_least };
                store.restore(source, Reading { target, metric, sample });
            }
        }
    }
    Ok(())
}

impl Cache {
    pub fn new(state_dir: &Path, instance: &str) -> Self {
        Self(StateFile::new(state_dir, ("measured", instance), MAX_BYTES))
    }

    /// Puts what is there into the store.
    pub fn read(&self, store: &mut Store, targets: &Targets) -> Result<(), StateFileError> {
        self.0.read(|bytes| restore(bytes, store, targets)).map(Option::unwrap_or_default)
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

    /// Keeps what the store has, beside tasks that must not wait for it. Needs a tokio
    /// runtime.
    pub fn keep(&self, store: &Store, targets: &Targets) {
        let content = Self::content(store, targets);
        self.0.keep(|| content);
    }

    /// Keeps what the store has, and returns when it is on disk.
    pub fn keep_now(&self, store: &Store, targets: &Targets) {
        self.0.keep_now(Self::content(store, targets));
    }

    fn content(store: &Store, targets: &Targets) -> Vec<u8> {
        let mut content = Content::default();
        for (source, Reading { target, metric, sample }) in store.samples() {
            let paths = content.sources.entry(source.to_owned()).or_default();
            let kept = paths.entry(targets.names()[target].to_string()).or_default();
            let key = if sample.is_least { LEAST } else { metric.key() };
            kept.insert(key.to_owned(), (sample.value, sample.measured_at_seconds));
        }
        serde_json::to_vec(&content).expect("texts and finite numbers are JSON")
    }
}
