//! Whose flows are, in words, from the numbers that the kernel side has.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex},
};

use wad_common::{
    policy::ANY_USER,
    process::{COMMAND_BYTES, Process},
};
use wad_instruments::{Owner, Place, PodNames};
use wad_linux::cgroup_names;
use wad_policy::pod::Pods;
use wad_toolbox::{mutex::locked, shown};

/// Tells whose flows are, and remembers cgroups and the names of commands.
#[derive(Default)]
pub struct Owners(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// The places of the cgroups that flows have been in lately: of those that are gone,
    /// nobody else knows any more.
    places: HashMap<u64, Place>,
    /// Thousands of flows share a few.
    commands: HashMap<[u8; COMMAND_BYTES], Arc<str>>,
    /// The pods of this node, as far as they are known.
    pods: Arc<Pods>,
}

/// So many are kept of each.
const MOST_KNOWN: usize = 4_096;

impl Owners {
    /// Returns whose a flow is of this user, cgroup and process.
    pub fn of(&self, user: u32, cgroup: u64, process: &Process) -> Owner {
        let Known { places, commands, pods } = &mut *locked(&self.0);
        if places.len() >= MOST_KNOWN || commands.len() >= MOST_KNOWN {
            places.clear();
            commands.clear();
        }
        // What is not known now may be so for want of a descriptor.
        let place = match places.entry(cgroup) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(place) => match cgroup_names::path(cgroup) {
                Some(path) => {
                    let mut new = Place::of(&path);
                    name(&mut new, pods);
                    place.insert(new).clone()
                }
                None => Place::default(),
            },
        };
        let is_known = process.pid != 0;
        let command = || {
            let name = commands.entry(process.command);
            Arc::clone(name.or_insert_with(|| shown::text(&process.command).into()))
        };
        Owner {
            uid: Some(user).filter(|user| *user != ANY_USER),
            pid: is_known.then_some(process.pid),
            process: is_known.then(command),
            place,
        }
    }

    /// Names flows by these pods from now on. Those of pods that are gone keep the names that
    /// they had.
    pub fn set_pods(&self, pods: Arc<Pods>) {
        let known = &mut *locked(&self.0);
        known.places.values_mut().for_each(|place| name(place, &pods));
        known.pods = pods;
    }
}

/// Gives a place the names of its pod and container, where they are known.
fn name(place: &mut Place, pods: &Pods) {
    let Some(pod) = place.pod.as_deref().and_then(|uid| pods.get(uid)) else { return };
    let container = place.container.as_deref().and_then(|id| pod.containers.get(id));
    place.names = PodNames {
        namespace: Some(pod.namespace.as_str().into()),
        pod_name: Some(pod.name.as_str().into()),
        // One that has ended may be known no more, and its flows be still there.
        container_name: match container {
            Some(name) => Some(name.as_str().into()),
            None => place.names.container_name.take(),
        },
    };
}

#[cfg(test)]
mod tests {
    use wad_policy::pod::Pod;

    use super::*;

    const UID: &str = "1f2e3d4c-5b6a-7980-a1b2-c3d4e5f60718";
    const CGROUP: u64 = u64::MAX;

    fn pods(name: &str, containers: &[(&str, &str)]) -> Arc<Pods> {
        let containers = containers.iter().map(|(id, name)| ((*id).to_owned(), (*name).to_owned()));
        let pod = Pod {
            namespace: "transfer".to_owned(),
            name: name.to_owned(),
            labels: [].into(),
            containers: containers.collect(),
        };
        Arc::new([(UID.to_owned(), pod)].into())
    }

    #[test]
    fn flows_are_named_by_pods_that_come_later_and_stay_so_when_they_go() {
        let id = "0".repeat(64);
        let owners = Owners::default();
        let cgroup = format!("kubepods/burstable/pod{UID}/{id}");
        locked(&owners.0).places.insert(CGROUP, Place::of(&cgroup));
        let named = || {
            let PodNames { namespace, pod_name, container_name } =
                owners.of(0, CGROUP, &Process::default()).place.names;
            [namespace, pod_name, container_name].map(|name| name.map(|name| name.to_string()))
        };
        assert_eq!(named(), [None, None, None]);
        let some = |name: &str| Some(name.to_owned());
        owners.set_pods(pods("dtn-0", &[]));
        assert_eq!(named(), [some("transfer"), some("dtn-0"), None]);
        owners.set_pods(pods("dtn-0", &[(&id, "ftp")]));
        let all = [some("transfer"), some("dtn-0"), some("ftp")];
        assert_eq!(named(), all);
        owners.set_pods(pods("dtn-0", &[]));
        assert_eq!(named(), all);
        owners.set_pods(Arc::default());
        assert_eq!(named(), all);
    }
}
