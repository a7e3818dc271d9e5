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
    /// Identifiers of containers, or how they begin.
    pub containers: Vec<String>,
    /// UIDs of pods.
    pub pods: Vec<String>,
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
        ]
        .into_iter()
        .flatten()
    }

    /// Whether a flow of theirs is let through. What is not known fits nothing.
    pub fn takes(&self, owner: &Owner) -> bool {
        let place = &owner.place;
        any(&self.users, owner.uid.as_ref(), |own, user| own == user)
            && any(&self.pids, owner.pid.as_ref(), |own, pid| own == pid)
            && any(&self.processes, owner.process.as_ref(), |own, process| **own == **process)
            && any(&self.cgroups, place.cgroup.as_ref(), |own, cgroup| {
                own.has(Path::new(&**cgroup))
            })
            && any(&self.containers, place.container.as_ref(), |own, id| id.starts_with(own))
            && any(&self.pods, place.pod.as_ref(), |own, pod| **own == **pod)
    }
}

fn any<O, V>(wanted: &[O], value: Option<&V>, fits: impl Fn(&O, &V) -> bool) -> bool {
    wanted.is_empty() || value.is_some_and(|value| wanted.iter().any(|own| fits(own, value)))
}

#[cfg(test)]
mod tests {
    use wad_instruments::testing::owner;

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
        ] {
            assert_eq!(filter(pairs).takes(&owner()), takes, "{pairs:?}");
            assert!(pairs.is_empty() || !filter(pairs).takes(&Owner::default()));
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
        ];
        let pairs: Vec<_> = filter(&asked).pairs().collect();
        assert_eq!(pairs, asked.map(|(key, value)| (key, value.to_owned())));
        let refused = OwnerFilter::default().add("user", "bob");
        assert_eq!(refused, Err(FilterError::NoNumber("bob".to_owned(), "user")));
    }
}
