//! Shows what `[host]` changes, and what a path lacks without it.

use nix::net::if_::if_nameindex;
use wad_agent::{
    client::{self, Request},
    status::Status,
};
use wad_linux::{
    cgroup,
    cgroup_tree::{Cgroups, Tree},
};
use wad_policy::{
    config::{
        CgroupSelector, Config, Congestion, HostChanges, PathPolicy,
        route_rules::{LAST_PORT, RouteMetrics, Selection},
    },
    switch::Disabled,
};
use wad_tuning::{
    host::MAX_BACKLOG,
    instance::Instance,
    namespaces::{MAX_NAMESPACES, Needs},
};

/// Returns what is changed of the host beside ceilings, a sentence each.
pub fn changes(config: &Config) -> Vec<String> {
    let HostChanges { routes, transmit_queues, netdev_max_backlog } = &config.host;
    let mut changes = Vec::new();
    if *routes {
        let rules = Selection::of(&config.paths).rules(&Disabled::default()).len();
        let s = if rules == 1 { "" } else { "s" };
        let made = format!("`wad run` makes {rules} rule{s}, and copies of routes, while it runs");
        changes.push(made);
    }
    changes.extend(transmit_queues.iter().map(|queue| {
        let (interface, packets) = (&queue.interface, queue.packets);
        format!("`wad run` sets the transmit queue of {interface} to {packets} packets")
    }));
    let backlog = netdev_max_backlog.iter();
    changes.extend(backlog.map(|packets| format!("`wad run` sets {MAX_BACKLOG} to {packets}")));
    changes.extend(namespaces(config));
    changes
}

/// Says what comes with flows in other network namespaces, and what does not.
fn namespaces(config: &Config) -> Option<String> {
    let host = &config.host;
    let takes_all = !host.transmit_queues.is_empty();
    if !takes_all && !config.paths.iter().any(|path| Needs::of(path, host.routes).is_some()) {
        return None;
    }
    Some(format!(
        "`wad run` does the same in other network namespaces that flows of these paths are in, \
         {MAX_NAMESPACES} at a time, if it finds them (by a process or a mount) and may enter them \
         (CAP_SYS_ADMIN): a second or two after the first connection there, which keeps the window \
         scale that it has; `wad explain` and the log name those where it does not hold, and why"
    ))
}

/// Holds what there is that paths may depend on; None where none does, or nobody knows.
#[derive(Debug, Default)]
pub struct There {
    pub cgroups: Option<Cgroups>,
    /// The names of the interfaces of this network namespace.
    pub interfaces: Option<Vec<String>>,
    pub pods: Pods,
}

/// Says what is known of pods.
#[derive(Debug, Default)]
pub enum Pods {
    /// No path depends on them.
    #[default]
    NotAsked,
    NoAgent,
    /// An agent runs, and says why it hears of none, if it does not.
    Agent {
        lacking: Option<String>,
    },
}

impl There {
    /// Looks for what these paths depend on.
    pub fn look(paths: &[PathPolicy]) -> Self {
        let by_cgroup = paths.iter().any(|path| path.cgroup.is_some());
        let of_pods = |path: &PathPolicy| path.cgroup.as_ref().is_some_and(|it| it.is_of_pods());
        let by_interface = paths.iter().any(|path| path.interface.is_some());
        Self {
            cgroups: by_cgroup.then(cgroups).flatten(),
            interfaces: by_interface.then(interfaces).flatten(),
            pods: if paths.iter().any(of_pods) { pods() } else { Pods::NotAsked },
        }
    }

    /// Returns a note of a pattern that no cgroup fits, which is no error: one may come.
    pub fn cgroup_note(&self, path: &PathPolicy) -> Option<String> {
        let (selector, cgroups) = (path.cgroup.as_ref()?, self.cgroups.as_ref()?);
        let CgroupSelector::Fitting(pattern) = selector else { return None };
        let is_none = !cgroups.keys().any(|cgroup| pattern.fits(cgroup));
        is_none.then(|| format!("path {}: nothing fits {pattern} on this host now", path.name))
    }

    /// Returns a note of pods that nobody tells of.
    pub fn pods_note(&self, path: &PathPolicy) -> Option<String> {
        let selector = path.cgroup.as_ref().filter(|selector| selector.is_of_pods())?;
        match &self.pods {
            Pods::NotAsked | Pods::Agent { lacking: None } => None,
            Pods::NoAgent => Some(format!(
                "path {}: `wad run` asks the API server, or else the kubelet, for {selector}; no \
                 agent runs that could say now whether they answer",
                path.name
            )),
            Pods::Agent { lacking: Some(why) } => Some(format!(
                "path {}: lacking {selector}, by the agent that runs: {why}",
                path.name
            )),
        }
    }

    /// Returns a note of a pattern that no interface fits: one may come, or be elsewhere.
    pub fn interface_note(&self, path: &PathPolicy) -> Option<String> {
        let (pattern, interfaces) = (path.interface?, self.interfaces.as_ref()?);
        let is_none = !interfaces.iter().any(|name| pattern.fits(name));
        let where_none = "in this network namespace now";
        is_none.then(|| format!("path {}: nothing fits {pattern} {where_none}", path.name))
    }
}

fn cgroups() -> Option<Cgroups> {
    Some(Tree::open(&cgroup::root().ok()?).ok()?.cgroups().clone())
}

/// Asks the agent that runs.
fn pods() -> Pods {
    let status: Result<Status, _> =
        client::ask_instance(&Instance::default(), &Request::get("/v1/status"));
    match status {
        Ok(status) => Pods::Agent { lacking: status.pods.and_then(|pods| pods.lacking) },
        Err(_) => Pods::NoAgent,
    }
}

fn interfaces() -> Option<Vec<String>> {
    let interfaces = if_nameindex().ok()?;
    Some(interfaces.iter().map(|it| it.name().to_string_lossy().into_owned()).collect())
}

/// Returns a note of ports that no rule can choose.
pub fn port_note(path: &PathPolicy, is_routed: bool) -> Option<String> {
    if !is_routed || RouteMetrics::of(path).is_nothing() {
        return None;
    }
    let mut ports = path.remote_ports.iter().chain(&path.local_ports);
    let beyond = ports.find(|range| range.last > LAST_PORT)?;
    Some(format!(
        "path {}: rules of routes end at port {LAST_PORT}: connections of port {} are without \
         reorder, delayed_ack and ecn",
        path.name, beyond.last
    ))
}

/// Returns a note of ECN that routes alone can ask for.
pub fn ecn_note(path: &PathPolicy, is_routed: bool) -> Option<String> {
    (path.origin.ecn && !is_routed && !path.observe)
        .then(|| format!("path {}: ecn takes [host] routes", path.name))
}

/// Returns a note of a reordering threshold that routes alone can give to the kernel.
pub fn reorder_note(path: &PathPolicy, is_routed: bool) -> Option<String> {
    let has_reorder = path.reorder_segments.is_some() || path.origin.traits.reorder;
    if !has_reorder || is_routed || path.observe {
        return None;
    }
    let instead = match &path.congestion {
        Some(Congestion::Ours(law)) => {
            format!("; {} takes a decrease back where reordering was taken for a loss", law.name())
        }
        _ => String::new(),
    };
    Some(format!("path {}: reorder takes [host] routes{instead}", path.name))
}
