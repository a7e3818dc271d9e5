//! Says whose flows are asked for.

use std::path::Path;

use wad_instruments::Owner;
use wad_policy::config::CgroupPattern;

use super::filter_error::FilterError;

/// Nothing in a list lets all through; within one list any may fit, of different ones each
/// has to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerFilter {
    /// By their numbers.
    pub users: Vec<u32>,
    pub pids: Vec<u32>,
    /// Names of commands.
    pub processes: Vec<String>,
    /// Cgroups and units, with those within.
    pub cgroups: Vec<CgroupPattern>,
    /// Names of containers in their pods, identifiers, or how identifiers begin.
    pub containers: Vec<String>,
    /// UIDs of pods, or their names, with the namespace before a slash or without.
    pub pods: Vec<String>,
    /// Namespaces of Kubernetes.
    pub namespaces: Vec<String>,
}

impl OwnerFilter {
    /// Adds what follows a key.
    pub fn add(&mut self, key: &str, value: impl Into<String>) -> Result<(), FilterError> {
        let value = value.into();
        let number =
            |value: String, what| value.parse().map_err(|_| FilterError::NoNumber(value, what));
        match key {
            "user" => self.users.push(number(value, "user")?),
            "pid" => self.pids.push(number(value, "process")?),
            "process" => self.processes.push(value),
            "cgroup" => self.cgroups.push(CgroupPattern::of_path(&value)),
            "unit" => self.cgroups.push(CgroupPattern::Unit(value)),
            "container" => self.containers.push(value),
            "pod" => self.pods.push(value),
            "namespace" => self.namespaces.push(value),
            other => return Err(FilterError::Unknown(other.to_owned())),
        }
        Ok(())
    }

    /// Returns all of it as it is asked of the agent.
    pub fn pairs(&self) -> impl Iterator<Item = (&'static str, String)> {
        let numbers = |key, numbers: &[u32]| -> Vec<_> {
            numbers.iter().map(|number| (key, number.to_string())).collect()
        };
        let texts = |key, texts: &[String]| -> Vec<_> {
            texts.iter().map(|text| (key, text.clone())).collect()
        };
        let cgroups = self.cgroups.iter().map(|pattern| match pattern {
            CgroupPattern::Path(path) => ("cgroup", path.clone()),
            CgroupPattern::Unit(unit) => ("unit", unit.clone()),
        });
        [
            numbers("user", &self.users),
            numbers("pid", &self.pids),
            texts("process", &self.processes),
            cgroups.collect(),
            texts("container", &self.containers),
            texts("pod", &self.pods),
            texts("namespace", &self.namespaces),
        ]
        .into_iter()
        .flatten()
    }

    /// Whether a flow of theirs is let through. What is not known fits nothing.
    pub fn takes(&self, owner: &Owner) -> bool {
        let place = &owner.place;
        let names = &place.names;
        any(&self.users, owner.uid.as_ref(), |own, user| own == user)
            && any(&self.pids, owner.pid.as_ref(), |own, pid| own == pid)
            && any(&self.processes, owner.process.as_ref(), |own, process| **own == **process)
            && any(&self.cgroups, place.cgroup.as_ref(), |own, cgroup| {
                own.has(Path::new(&**cgroup))
            })
            && any(&self.containers, place.container.as_ref(), |own, id| {
                id.starts_with(own) || names.container_name.as_deref() == Some(own)
            })
            && any(&self.pods, place.pod.as_ref(), |own, uid| {
                let (namespace, name) = match own.split_once('/') {
                    Some((namespace, name)) => (Some(namespace), name),
                    None => (None, own.as_str()),
                };
                let is_there = namespace.is_none() || namespace == names.namespace.as_deref();
                **own == **uid || is_there && names.pod_name.as_deref() == Some(name)
            })
            && any(&self.namespaces, names.namespace.as_ref(), |own, name| **own == **name)
    }
}

fn any<O, V>(wanted: &[O], value: Option<&V>, fits: impl Fn(&O, &V) -> bool) -> bool {
    wanted.is_empty() || value.is_some_and(|value| wanted.iter().any(|own| fits(own, value)))
}

#[cfg(test)]
mod tests {
    use wad_instruments::{Place, PodNames, testing::owner};

    use super::*;

    fn filter(pairs: &[(&str, &str)]) -> OwnerFilter {
        let mut filter = OwnerFilter::default();
        for (key, value) in pairs {
            filter.add(key, *value).unwrap();
        }
        filter
    }

    #[test]
    fn each_list_has_to_fit() {
        for (pairs, takes) in [
            (&[][..], true),
            (&[("user", "1000"), ("user", "0")], true),
            (&[("user", "1000"), ("pid", "1")], false),
            (&[("pid", "4711"), ("process", "globus-gridftp-")], true),
            (&[("process", "globus")], false),
            (&[("cgroup", "/system.slice/globus.service")], true),
            (&[("cgroup", "system.slice")], true),
            (&[("cgroup", "system.slice/globus")], false),
            (&[("unit", "globus*.service"), ("unit", "x.service")], true),
            (&[("unit", "x.service")], false),
            (&[("container", "")], false),
            (&[("pod", "1f2e3d4c-5b6a-7980-a1b2-c3d4e5f60718")], false),
            (&[("namespace", "transfer")], false),
        ] {
            assert_eq!(filter(pairs).takes(&owner()), takes, "{pairs:?}");
            assert!(pairs.is_empty() || !filter(pairs).takes(&Owner::default()));
        }
    }

    #[test]
    fn pods_and_containers_are_chosen_by_their_names_or_identifiers() {
        let id = format!("8b2f{}", "0".repeat(60));
        let uid = "1f2e3d4c-5b6a-7980-a1b2-c3d4e5f60718";
        let mut owner =
            Owner { place: Place::of(&format!("kubepods/pod{uid}/{id}")), ..Owner::default() };
        let takes = |owner: &Owner, key, value| filter(&[(key, value)]).takes(owner);
        assert!(takes(&owner, "pod", uid) && takes(&owner, "container", "8b2f"));
        assert!(!takes(&owner, "pod", "dtn-0") && !takes(&owner, "namespace", "transfer"));
        owner.place.names = PodNames {
            namespace: Some("transfer".into()),
            pod_name: Some("dtn-0".into()),
            container_name: Some("ftp".into()),
        };
        for (key, value, expected) in [
            ("pod", uid, true),
            ("pod", "dtn-0", true),
            ("pod", "transfer/dtn-0", true),
            ("pod", "other/dtn-0", false),
            ("pod", "dtn", false),
            ("container", "8b2f", true),
            ("container", "ftp", true),
            ("container", "ft", false),
            ("namespace", "transfer", true),
            ("namespace", "other", false),
        ] {
            assert_eq!(takes(&owner, key, value), expected, "{key} {value}");
        }
    }

    #[test]
    fn it_is_read_as_it_is_asked() {
        let asked = [
            ("user", "5"),
            ("pid", "17"),
            ("process", "c url"),
            ("cgroup", "system.slice/*"),
            ("unit", "a.service"),
            ("container", "8b2f"),
            ("pod", "1f"),
            ("namespace", "transfer"),
        ];
        let pairs: Vec<_> = filter(&asked).pairs().collect();
        assert_eq!(pairs, asked.map(|(key, value)| (key, value.to_owned())));
        let refused = OwnerFilter::default().add("user", "bob");
        assert_eq!(refused, Err(FilterError::NoNumber("bob".to_owned(), "user")));
    }
}
