//! Tasks of a pScheduler, and which of them measure a path.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    net::IpAddr,
};

use serde::Deserialize;
use serde_json::Value;
use wad_probing::pscheduler::{Id, Test};

use super::hosts::Hosts;
use crate::sources::Targets;

/// At most so many tasks of a path and a kind of test are read: the last ones count.
/// Meshes are made anew each day, and the tasks of the days before stay listed.
const MOST_TASKS: usize = 4;

/// A test from one host to another, each a name or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub test: Test,
    pub id: Id,
    pub source: String,
    pub dest: String,
    /// The test sends no faster than it is told to: that says nothing of the path.
    is_limited: bool,
}

#[derive(Deserialize)]
struct Raw {
    href: Id,
    test: RawTest,
}

#[derive(Deserialize)]
struct RawTest {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    #[serde(default)]
    source: Option<String>,
    dest: String,
    #[serde(default)]
    reverse: Option<bool>,
    #[serde(default)]
    udp: Option<bool>,
    #[serde(default)]
    bandwidth: Option<Value>,
}

impl Task {
    /// Reads a task; where it does not say who measures, that is the server's host.
    pub fn read(test: Test, raw: &str, server: &str) -> serde_json::Result<Self> {
        let Raw { href: id, test: RawTest { spec } } = serde_json::from_str(raw)?;
        let Spec { source, dest, reverse, udp, bandwidth } = spec;
        let source = source.unwrap_or_else(|| server.to_owned());
        let (source, dest) = match reverse {
            Some(true) => (dest, source),
            _ => (source, dest),
        };
        // Over UDP the tool has a rate of its own, where none is given.
        let is_limited = bandwidth.is_some() || udp == Some(true);
        Ok(Self { test, id, source, dest, is_limited })
    }
}

/// Returns the hosts whose addresses tell which tasks measure a path.
pub fn hosts<'t>(
    tasks: &'t [Task],
    from: &HashSet<IpAddr>,
    targets: &Targets,
) -> BTreeSet<&'t str> {
    let sources = tasks.iter().filter(|_| !from.is_empty()).map(|task| task.source.as_str());
    let dests = tasks.iter().map(|task| task.dest.as_str());
    sources.chain(dests.filter(|dest| targets.named(dest).is_none())).collect()
}

/// A task, and the paths that it measures.
#[derive(Debug, PartialEq, Eq)]
pub struct Chosen<'t> {
    pub task: &'t Task,
    pub targets: Vec<usize>,
}

/// Returns the tasks that measure a path, from one of these hosts or from any if
/// there are none. Of each kind the last one is first, as the server lists it at the
/// end.
pub fn choose<'t>(
    tasks: &'t [Task],
    from: &HashSet<IpAddr>,
    targets: &Targets,
    hosts: &Hosts,
) -> Vec<Chosen<'t>> {
    let mut taken: HashMap<(usize, Test), usize> = HashMap::new();
    let mut chosen = Vec::new();
    for task in tasks.iter().rev().filter(|task| !task.is_limited) {
        let is_ours = || hosts.of(&task.source).iter().any(|address| from.contains(address));
        if !from.is_empty() && !is_ours() {
            continue;
        }
        let mut found = hosts.targets(&task.dest, targets);
        found.retain(|&target| {
            let taken = taken.entry((target, task.test)).or_default();
            *taken += 1;
            *taken <= MOST_TASKS
        });
        if !found.is_empty() {
            chosen.push(Chosen { task, targets: found });
        }
    }
    chosen.sort_by_key(|one| one.task.test);
    chosen
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sources::testing::two_paths;

    const ID: &str = "3fb6a7c8-0d9e-4b52-9f5f-2a4c3b1d0e9f";

    fn task(spec: Value) -> serde_json::Result<Task> {
        let href = format!("https://other.example/pscheduler/tasks/{ID}");
        let test = json!({"type": "throughput", "spec": spec});
        let raw = json!({"schema": 1, "href": href, "test": test, "tool": "iperf3"});
        Task::read(Test::Throughput, &raw.to_string(), "ps.example")
    }

    #[test]
    fn ends_are_as_the_data_goes() {
        let ends = |spec| {
            let task = task(spec).unwrap();
            assert_eq!(task.id.to_string(), ID);
            (task.source, task.dest)
        };
        let pair = |source: &str, dest: &str| (source.to_owned(), dest.to_owned());
        assert_eq!(ends(json!({"dest": "b", "source": "a", "duration": "PT30S"})), pair("a", "b"));
        assert_eq!(ends(json!({"dest": "b", "source": null})), pair("ps.example", "b"));
        assert_eq!(ends(json!({"dest": "b", "reverse": true})), pair("b", "ps.example"));
        assert_eq!(ends(json!({"dest": "b", "reverse": false})), pair("ps.example", "b"));
    }

    #[test]
    fn what_is_no_task_is_refused() {
        for spec in [json!(null), json!({}), json!({"dest": null}), json!({"dest": 7})] {
            assert!(task(spec.clone()).is_err(), "{spec}");
        }
        for href in ["", "https://a/tasks/", "https://a/tasks/x?y", "https://a/../b c"] {
            let raw = json!({"href": href, "test": {"spec": {"dest": "b"}}});
            assert!(Task::read(Test::Rtt, &raw.to_string(), "a").is_err(), "{href}");
        }
    }

    fn to(dest: &str) -> Task {
        task(json!({"source": "192.0.2.1", "dest": dest})).unwrap()
    }

    #[test]
    fn tasks_of_our_hosts_to_a_path_are_chosen() {
        let targets = two_paths();
        let limited = json!({"source": "192.0.2.1", "dest": "10.0.0.1", "bandwidth": 1_000_000});
        let udp = json!({"source": "192.0.2.1", "dest": "10.0.0.1", "udp": true});
        let limited = [limited, udp].map(|spec| task(spec).unwrap());
        let mut tasks = vec![to("10.0.0.1"), to("198.51.100.1"), to("b")];
        tasks.extend(limited);
        let chosen = |from: &[&str]| {
            let from = from.iter().map(|from| from.parse().unwrap()).collect();
            let chosen = choose(&tasks, &from, &targets, &Hosts::default());
            let found = |one: Chosen<'_>| (one.task.dest.clone(), one.targets);
            chosen.into_iter().map(found).collect::<Vec<_>>()
        };
        let expected = [("b".to_owned(), vec![1]), ("10.0.0.1".to_owned(), vec![0])];
        assert_eq!(chosen(&[]), expected);
        assert_eq!(chosen(&["192.0.2.1"]), expected);
        assert_eq!(chosen(&["192.0.2.2"]), []);
    }

    #[test]
    fn of_many_tasks_the_last_ones_are_asked() {
        let tasks: Vec<_> = (1..=9).map(|n| to(&format!("10.0.0.{n}"))).collect();
        let chosen = choose(&tasks, &HashSet::new(), &two_paths(), &Hosts::default());
        let dests: Vec<_> = chosen.iter().map(|one| one.task.dest.as_str()).collect();
        assert_eq!(dests, ["10.0.0.9", "10.0.0.8", "10.0.0.7", "10.0.0.6"]);
    }
}
