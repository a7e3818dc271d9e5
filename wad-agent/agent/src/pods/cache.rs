//! The pods that were known last, on disk: for an agent that begins while nobody tells of
//! them, so that running connections stay on their paths. `pods-<instance>.json` in the state
//! folder.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};
use wad_instruments::pod_of_cgroup;
use wad_linux::cgroup_tree::Cgroups;
use wad_policy::pod::{Pod, Pods};

use super::board::insert;
use crate::{
    sources::seconds_since_1970,
    state_file::{StateFile, StateFileError},
};

/// As many pods as are followed take some 2 MB, and 100 times that with all labels there can be.
const MAX_BYTES: u64 = 64 << 20;

/// Pods that were known earlier than this do not count: labels may have changed meanwhile.
const MOST_AGE: Duration = Duration::from_secs(3600);

#[derive(Clone, Debug)]
pub struct Cache(StateFile);

/// The numbers of pods' cgroups, by the pods' uids.
pub type PodCgroups = BTreeMap<String, u64>;

#[derive(Deserialize, Serialize)]
struct Written {
    /// Seconds since 1970.
    known_at: f64,
    pods: BTreeMap<String, WrittenPod>,
}

#[derive(Deserialize, Serialize)]
struct WrittenPod {
    /// The number of its cgroup. A static pod that is made anew has the same uid, but another
    /// cgroup.
    cgroup: u64,
    namespace: String,
    name: String,
    labels: BTreeMap<String, String>,
    containers: BTreeMap<String, String>,
}

impl Cache {
    pub fn new(state_dir: &Path, instance: &str) -> Self {
        Self(StateFile::new(state_dir, ("pods", instance), MAX_BYTES))
    }

    /// Returns those of the pods that were known last whose cgroups are still there.
    pub fn read(&self, now: SystemTime, there: &PodCgroups) -> Result<Pods, StateFileError> {
        let written = self.0.read(parse)?;
        Ok(written.map(|written| restore(written, now, there)).unwrap_or_default())
    }

    /// Keeps the pods that have cgroups, beside tasks that must not wait for it. Needs a tokio
    /// runtime.
    pub fn keep(&self, now: SystemTime, pods: Arc<Pods>, cgroups: PodCgroups) {
        self.0.keep(move || bytes(now, &pods, &cgroups));
    }

    /// For libFuzzer, see `tests/fuzz`.
    #[cfg(feature = "fuzz")]
    pub fn fuzz(bytes: &[u8]) {
        let Ok(written) = parse(bytes) else { return };
        let now = SystemTime::UNIX_EPOCH;
        let there = written.pods.iter().map(|(uid, pod)| (uid.clone(), pod.cgroup)).collect();
        let pods = restore(Written { known_at: 0.0, ..written }, now, &there);
        let again = parse(&self::bytes(now, &pods, &there)).expect("it is as it is written");
        assert_eq!(restore(again, now, &there), pods);
    }
}

/// Returns the cgroups that are pods'.
pub fn of_pods(cgroups: &Cgroups) -> PodCgroups {
    let of_pod =
        |(path, id): (&PathBuf, &u64)| Some((pod_of_cgroup(path.file_name()?.to_str()?)?, *id));
    cgroups.iter().filter_map(of_pod).collect()
}

fn parse(bytes: &[u8]) -> serde_json::Result<Written> {
    serde_json::from_slice(bytes)
}

fn restore(written: Written, now: SystemTime, there: &PodCgroups) -> Pods {
    // What is from the future is not known to be recent.
    let age_seconds = seconds_since_1970(now) - written.known_at;
    if !(0.0..MOST_AGE.as_secs_f64()).contains(&age_seconds) {
        return Pods::new();
    }
    let mut pods = Pods::new();
    for (uid, WrittenPod { cgroup, namespace, name, labels, containers }) in written.pods {
        if there.get(&uid) == Some(&cgroup) {
            insert(&mut pods, uid, Pod { namespace, name, labels, containers });
        }
    }
    pods
}

fn bytes(now: SystemTime, pods: &Pods, cgroups: &PodCgroups) -> Vec<u8> {
    let of_pod = |(uid, pod): (&String, &Pod)| {
        let Pod { namespace, name, labels, containers } = pod.clone();
        let cgroup = *cgroups.get(uid)?;
        Some((uid.clone(), WrittenPod { cgroup, namespace, name, labels, containers }))
    };
    let pods = pods.iter().filter_map(of_pod).collect();
    serde_json::to_vec(&Written { known_at: seconds_since_1970(now), pods })
        .expect("texts and finite numbers are JSON")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const UID: &str = "1f2e3d4c-5b6a-7980-a1b2-c3d4e5f60718";
    const OTHER: &str = "2f2e3d4c-5b6a-7980-a1b2-c3d4e5f60718";

    fn pods() -> Arc<Pods> {
        let pod = |name: &str| Pod {
            namespace: "transfer".to_owned(),
            name: name.to_owned(),
            labels: [("app".to_owned(), "dtn".to_owned())].into(),
            containers: [("0".repeat(64), "ftp".to_owned())].into(),
        };
        Arc::new([(UID.to_owned(), pod("a")), (OTHER.to_owned(), pod("b"))].into())
    }

    #[test]
    fn pods_are_known_again_by_their_cgroups_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path(), "a");
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let both: PodCgroups = [(UID.to_owned(), 7), (OTHER.to_owned(), 8)].into();
        let uids = |age, there: &PodCgroups| -> Vec<String> {
            cache.read(then + age, there).unwrap().into_keys().collect()
        };
        assert_eq!(uids(Duration::ZERO, &both), [""; 0]);
        cache.0.keep_now(bytes(then, &pods(), &both));
        let minute = Duration::from_secs(60);
        assert_eq!(cache.read(then + minute, &both).unwrap(), *pods());
        // One is gone, one has been made anew, all was long ago, the clock was set back.
        assert_eq!(uids(minute, &[(UID.to_owned(), 7)].into()), [UID]);
        assert_eq!(uids(minute, &[(UID.to_owned(), 9), (OTHER.to_owned(), 8)].into()), [OTHER]);
        assert_eq!(uids(MOST_AGE, &both), [""; 0]);
        assert_eq!(cache.read(then - minute, &both).unwrap(), Pods::new());
        // Those without a cgroup are not kept.
        cache.0.keep_now(bytes(then, &pods(), &[(OTHER.to_owned(), 8)].into()));
        assert_eq!(uids(minute, &both), [OTHER]);
    }

    #[test]
    fn cgroups_of_pods_are_known_by_their_names() {
        let slice = format!("kubepods.slice/kubepods-pod{}.slice", UID.replace('-', "_"));
        let cgroups = [("kubepods.slice", 1), (&slice, 2), (&format!("kubepods/pod{OTHER}"), 3)];
        let cgroups = cgroups.map(|(path, id)| (path.into(), id)).into();
        assert_eq!(of_pods(&cgroups), [(UID.to_owned(), 2), (OTHER.to_owned(), 3)].into());
    }

    #[test]
    fn a_damaged_cache_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path(), "a");
        for damaged in ["", "{", "[]", r#"{"known_at": "x", "pods": {}}"#] {
            fs::write(folder.path().join("pods-a.json"), damaged).unwrap();
            let error = cache.read(SystemTime::now(), &PodCgroups::new()).unwrap_err().to_string();
            assert!(error.ends_with("pods-a.json is damaged"), "{error}");
        }
    }
}
