//! The last good prefixes of sets on disk, so that a restart does not forget them:
//! `sets-<instance>.json` in the state folder.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use wad_policy::config::{ListError, Set, list_of_texts};

use crate::{
    sources::seconds_since_1970,
    state_file::{StateFile, StateFileError},
};

/// A cache has room for a million prefixes and more.
const MAX_BYTES: u64 = 64 << 20;

#[derive(Debug, thiserror::Error)]
enum Damage {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    List(#[from] ListError),
}

/// The prefixes of a set, and when they were read.
#[derive(Clone, Debug, PartialEq)]
pub struct Good {
    pub prefixes: Arc<[IpNet]>,
    pub read_at: SystemTime,
}

impl Good {
    pub fn now(prefixes: Vec<IpNet>) -> Self {
        Self { prefixes: prefixes.into(), read_at: SystemTime::now() }
    }
}

#[derive(Clone, Debug)]
pub struct Cache(StateFile);

/// Holds the origin and the list of each set, by its name.
type Content = BTreeMap<String, (String, Good)>;

#[derive(Default, Deserialize, Serialize)]
struct Written {
    sets: BTreeMap<String, WrittenSet>,
}

#[derive(Deserialize, Serialize)]
struct WrittenSet {
    /// The place that it was read from, and what of it.
    origin: String,
    read_at: f64,
    prefixes: Vec<String>,
}

impl Cache {
    pub fn new(state_dir: &Path, instance: &str) -> Self {
        Self(StateFile::new(state_dir, ("sets", instance), MAX_BYTES))
    }

    /// Returns what was kept of these sets, by their places; those of another origin are
    /// other sets.
    pub fn read(&self, sets: &[Set]) -> Result<BTreeMap<usize, Good>, StateFileError> {
        if sets.is_empty() {
            return Ok(BTreeMap::new());
        }
        Ok(self.0.read(|bytes| of_sets(bytes, sets))?.unwrap_or_default())
    }

    /// Keeps these, beside tasks that must not wait for it. Needs a tokio runtime.
    pub fn keep<'s>(&self, sets: impl Iterator<Item = (&'s Set, &'s Good)>) {
        let content = sets.map(|(set, good)| (set.name.clone(), (set.origin(), good.clone())));
        let content = content.collect();
        self.0.keep(move || bytes(&content));
    }

    /// For libFuzzer, see `tests/fuzz`.
    #[cfg(feature = "fuzz")]
    pub fn fuzz(bytes: &[u8]) {
        let Ok(written) = parse(bytes) else { return };
        for (name, of_set) in written.sets {
            let Ok(good) = restore(&of_set) else { continue };
            let content = [(name.clone(), (of_set.origin, good.clone()))].into();
            let again = parse(&self::bytes(&content)).expect("it is as it is written");
            assert_eq!(restore(&again.sets[&name]).expect("as before").prefixes, good.prefixes);
        }
    }
}

fn parse(bytes: &[u8]) -> serde_json::Result<Written> {
    serde_json::from_slice(bytes)
}

fn of_sets(bytes: &[u8], sets: &[Set]) -> Result<BTreeMap<usize, Good>, Damage> {
    let mut written = parse(bytes)?;
    let mut kept = BTreeMap::new();
    for (place, set) in sets.iter().enumerate() {
        let Some(of_set) = written.sets.remove(&set.name) else { continue };
        if of_set.origin == set.origin() {
            kept.insert(place, restore(&of_set)?);
        }
    }
    Ok(kept)
}

fn restore(written: &WrittenSet) -> Result<Good, ListError> {
    let prefixes = list_of_texts(written.prefixes.iter().map(String::as_str))?.into();
    // A time that cannot be is that of no reading.
    let since_1970 = Duration::try_from_secs_f64(written.read_at).unwrap_or_default();
    let read_at = SystemTime::UNIX_EPOCH.checked_add(since_1970);
    Ok(Good { prefixes, read_at: read_at.unwrap_or(SystemTime::UNIX_EPOCH) })
}

fn bytes(content: &Content) -> Vec<u8> {
    let of_set = |(origin, good): &(String, Good)| WrittenSet {
        origin: origin.clone(),
        read_at: seconds_since_1970(good.read_at),
        prefixes: good.prefixes.iter().map(ToString::to_string).collect(),
    };
    let sets = content.iter().map(|(name, set)| (name.clone(), of_set(set))).collect();
    serde_json::to_vec(&Written { sets }).expect("texts and finite numbers are JSON")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use wad_policy::config::{Config, testing::host};

    use super::*;

    fn sets(text: &str) -> Vec<Set> {
        Config::parse("wad.toml", text, &host()).unwrap_or_else(|error| panic!("{error}")).sets
    }

    #[test]
    fn what_is_kept_is_of_the_same_list_only() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path(), "a");
        let before =
            sets("[[set]]\nname = 'a'\nurl = 'http://a'\n[[set]]\nname = 'b'\nfile = '/b'\n");
        assert_eq!(cache.read(&before).unwrap(), BTreeMap::new());
        let nets = ["10.0.0.0/8", "2001:db8::/32"].map(|net| net.parse::<IpNet>().unwrap());
        let read_at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_500);
        let good = Good { prefixes: nets.into(), read_at };
        let content = before.iter().map(|it| (it.name.clone(), (it.origin(), good.clone())));
        cache.0.keep_now(bytes(&content.collect()));
        assert_eq!(cache.read(&before).unwrap(), [(0, good.clone()), (1, good.clone())].into());
        let after =
            sets("[[set]]\nname = 'b'\nfile = '/b'\n[[set]]\nname = 'a'\nurl = 'http://b'\n");
        assert_eq!(cache.read(&after).unwrap(), [(0, good)].into());
        let selecting = sets("[[set]]\nname = 'b'\nfile = '/b'\nselect = 'x'\n");
        assert_eq!(cache.read(&selecting).unwrap(), BTreeMap::new());
    }

    #[test]
    fn a_damaged_cache_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, file) = (Cache::new(folder.path(), "a"), folder.path().join("sets-a.json"));
        let sets = sets("[[set]]\nname = 'b'\nfile = '/b'\n");
        let list = |list| {
            format!(
                r#"{{"sets": {{"b": {{"origin": "/b", "read_at": 1e99, "prefixes": {list}}}}}}}"#
            )
        };
        for damaged in ["", "{", "[]", &list("[]"), &list("[\"x\"]"), &list("[\"::/0\"]")] {
            fs::write(&file, damaged).unwrap();
            let error = cache.read(&sets).unwrap_err().to_string();
            assert!(error.ends_with("sets-a.json is damaged"), "{error}");
        }
        fs::write(&file, list("[\"10.0.0.1\"]")).unwrap();
        assert_eq!(cache.read(&sets).unwrap().len(), 1);
    }
}
