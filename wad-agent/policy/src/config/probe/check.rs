//! Checks what only shows once all of the file is read: what tasks say of paths, and what they
//! take together.

use std::{collections::HashMap, net::IpAddr, time::Duration};

use wad_toolbox::amounts::Bytes;

use super::{
    super::{
        PathPolicy,
        fault::{Fault, Problems, quoted},
        peers::Peer,
        unread::Unread,
    },
    Probe, ProbeTask, ProbeTool, Site,
    locks::LONGEST_RESERVED_RUN,
    task::shown_seconds,
};
use crate::capacity::Capacity;

/// Most tasks: each has metrics of its own.
const MAX_TASKS: usize = 4_096;

/// Checks the tasks, and completes them by what their paths say.
pub fn check(
    (probe, sites): (&mut Probe, &[Site]),
    (paths, unread): (&[PathPolicy], &Unread),
    problems: &mut Problems,
) {
    if let Some(site) = sites.get(MAX_TASKS) {
        let title = format!("{} tasks of probes", sites.len());
        problems.push(Fault::new(title, format!("at most {MAX_TASKS}")).at(site.name));
        return;
    }
    let by_name: HashMap<_, _> = paths.iter().map(|path| (path.name.as_str(), path)).collect();
    let mut first = HashMap::new();
    for (task, site) in probe.tasks.iter_mut().zip(sites) {
        if let Some(before) = first.insert(task.name.clone(), site.name) {
            let fault = Fault::new("two tasks have the same name", "the second");
            let fault = fault.help("rename one of them").at(site.name);
            problems.push(fault.also(before, "the first"));
        }
        let mut capacity = Capacity::default();
        if let (Some(name), Some(at)) = (&task.path, site.path) {
            match by_name.get(name.as_str()) {
                Some(path) => {
                    capacity = path_capacity(path);
                    follow_path(task, site, (path, capacity), problems);
                }
                None if unread.may_have(name) => {}
                None => {
                    let title = format!("no path is called {}", quoted(name));
                    let fault = Fault::new(title, "nothing to measure");
                    problems.push(fault.help("write the `name` of a [[path]]").at(at));
                }
            }
        }
        check_bytes(task, site, capacity.bdp_bytes(), problems);
    }
    let per_day = probe.bytes_per_day();
    if let Some((most, last)) = probe.max_bytes_per_day.zip(sites.last())
        && per_day > most
    {
        let (per_day, most) = (Bytes(per_day), Bytes(most));
        let title = format!("all tasks together may take {per_day} a day");
        let fault = Fault::new(title, format!("`max_bytes_per_day` allows {most}"));
        let help = "a longer `every`, less `max_bytes`, or fewer tasks: `wad probe plan` shows \
                    what each takes";
        problems.push(fault.help(help).at(last.table));
    }
}

/// Checks who is to agree to the runs of tasks.
pub fn check_peers(
    (probe, sites): (&Probe, &[Site]),
    (peers, unread): (&[Peer], &Unread),
    problems: &mut Problems,
) {
    for (task, site) in probe.tasks.iter().zip(sites) {
        let (Some(name), Some(at)) = (&task.peer, site.peer) else { continue };
        match peers.iter().find(|peer| peer.name == *name) {
            None if unread.may_have(name) => {}
            None => {
                let title = format!("`peer`: no peer {}", quoted(name));
                let help =
                    format!("add a [[peer]] with name = \"{name}\", or name one that there is");
                let fault = Fault::new(title, "no [[peer]] has that name");
                problems.push(fault.help(help).at(at));
            }
            Some(peer) if peer.address.is_none() => {
                let title = format!("`peer`: {} has no `address`", quoted(name));
                let help = "add the `address` of that [[peer]], or have the other end measure and \
                            ask this one";
                let fault = Fault::new(title, "it cannot be asked to agree to a run");
                problems.push(fault.help(help).at(at));
            }
            Some(_) => {}
        }
        if task.timeout > LONGEST_RESERVED_RUN {
            let longest = shown_seconds(LONGEST_RESERVED_RUN);
            let title = format!("`timeout`: {} is too long", shown_seconds(task.timeout));
            let label = format!("a peer keeps its locks for {longest} at most");
            let fault = Fault::new(title, label).help("a shorter `timeout`, or no `peer`");
            problems.push(fault.at(site.timeout.unwrap_or(site.table)));
        }
    }
}

/// Takes from the path what the task leaves out, and holds the task against it.
fn follow_path(
    task: &mut ProbeTask,
    site: &Site,
    (path, capacity): (&PathPolicy, Capacity),
    problems: &mut Problems,
) {
    // What is wrong with its prefixes has been said.
    let is_in_doubt = path.remote.is_empty() && path.origin.lists().next().is_none();
    match (site.host, site.path) {
        _ if is_in_doubt => {}
        (None, Some(at)) => match only_host(path) {
            Some(host) => task.host = host,
            None => {
                let fault = Fault::new("the path is of more than one host", "which one?");
                problems.push(fault.help("add host = \"dtn.example.org\"").at(at));
            }
        },
        (Some(at), _) => {
            let is_within = |address: &IpAddr| path.remote.iter().any(|it| it.contains(address));
            let address = task.host.parse::<IpAddr>().ok();
            let outside = address
                .filter(|address| path.origin.lists().next().is_none() && !is_within(address));
            if let Some(address) = outside {
                let title = format!("{address} is not on the path {}", quoted(&path.name));
                let fault = Fault::new(title, "in none of its prefixes");
                problems.push(fault.help("leave `path` out, or name a host of it").at(at));
            }
        }
        (None, None) => {}
    }
    let rtt = capacity.rtt_seconds.and_then(|rtt| Duration::try_from_secs_f64(rtt).ok());
    task.wait = ProbeTool::wait(rtt);
    let Some(rtt) = rtt else { return };
    let least = task.tool.least_time(rtt);
    if task.timeout < least {
        let title = format!("`timeout`: {} is too short", shown_seconds(task.timeout));
        let label =
            format!("it takes {} on a path of {}", shown_seconds(least), shown_seconds(rtt));
        let fault = Fault::new(title, label).help("a longer `timeout`, with room in `every`");
        problems.push(fault.at(site.timeout.unwrap_or(site.table)));
    }
}

/// Checks that a run comes to an end with its bytes.
fn check_bytes(task: &ProbeTask, site: &Site, bdp_bytes: Option<f64>, problems: &mut Problems) {
    let least = task.tool.least_bytes(bdp_bytes);
    if task.max_bytes < least {
        let title = format!("`max_bytes`: {} are too few", Bytes(task.max_bytes));
        let label = match task.tool {
            ProbeTool::Bandwidth { .. } => {
                format!("ten round trip times of this path take {}", Bytes(least))
            }
            _ => format!("a run takes up to {}", Bytes(least)),
        };
        let fault = Fault::new(title, label).help("give it more, or less to do");
        problems.push(fault.at(site.max_bytes.unwrap_or(site.table)));
    }
}

fn path_capacity(path: &PathPolicy) -> Capacity {
    let fallback = path.measured.map(|measured| measured.fallback).unwrap_or_default();
    path.origin.capacity.or(fallback)
}

/// Returns the host of a path that has one.
fn only_host(path: &PathPolicy) -> Option<String> {
    let origin = &path.origin;
    match (&path.remote[..], &origin.remote_names[..], &origin.remote_sets[..]) {
        ([only], [], []) if only.prefix_len() == only.max_prefix_len() => {
            Some(only.addr().to_string())
        }
        ([], [name], []) => Some(name.clone()),
        _ => None,
    }
}
