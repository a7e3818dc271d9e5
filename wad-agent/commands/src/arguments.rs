//! Arguments that several commands take.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use wad_observing::reading::{self, Filter, OwnerFilter, Remote};
use wad_policy::config::{CgroupPattern, Host};
use wad_tuning::instance::Instance;

/// A running agent is asked this.
#[derive(Debug, Args)]
pub struct Ask {
    #[command(flatten)]
    pub instance: InstanceName,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The configuration that is read where none is named.
pub const DEFAULT_CONFIG: &str = "/etc/wad/wad.toml";

#[derive(Debug, Args)]
pub struct ConfigFile {
    /// Configuration file
    #[arg(id = "config", long = "config", value_name = "FILE", default_value = DEFAULT_CONFIG)]
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub struct InstanceName {
    /// Keep pins, algorithm names and journal apart from those of other agents
    #[arg(id = "instance", long = "instance", value_name = "NAME", default_value = "default",
          value_parser = parse_instance)]
    pub name: Instance,
}

fn parse_instance(name: &str) -> Result<Instance, String> {
    Instance::try_new(name).map_err(|error| error.to_string())
}

/// Which flows.
#[derive(Debug, Args)]
pub struct FlowFilter {
    /// Only flows of this path; may be given several times, as the next two
    #[arg(long = "path", value_name = "NAME")]
    pub paths: Vec<String>,
    /// Only flows to or from here
    #[arg(long = "remote", value_name = "PREFIX")]
    pub remotes: Vec<Remote>,
    /// Only the flow whose socket has this cookie; 0x before what `ss -e` shows
    #[arg(long = "cookie", value_name = "N", value_parser = reading::parse_cookie)]
    pub cookies: Vec<u64>,
    /// Connections on no path, too: what a path would be worth to them
    #[arg(long, conflicts_with = "paths")]
    pub all: bool,
    #[command(flatten)]
    pub owners: OwnerFilterArguments,
}

/// Whose flows.
#[derive(Debug, Args)]
#[command(next_help_heading = "Whose flows")]
pub struct OwnerFilterArguments {
    /// Only flows of this user's sockets; may be given several times, as the next seven
    #[arg(long = "user", value_name = "NAME|NUMBER", value_parser = user_number)]
    pub users: Vec<u32>,
    /// Only flows that this process connected or accepted
    #[arg(long = "pid", value_name = "N")]
    pub pids: Vec<u32>,
    /// Only flows of processes whose command has this name, as `ps -o comm` shows it
    #[arg(long = "process", value_name = "NAME")]
    pub processes: Vec<String>,
    /// Only flows of this cgroup, a path as /proc/PID/cgroup has it after 0::, and of those
    /// within; * is any part of a name
    #[arg(long = "cgroup", value_name = "PATTERN")]
    pub cgroups: Vec<String>,
    /// Only flows of this unit of systemd
    #[arg(long = "unit", value_name = "PATTERN")]
    pub units: Vec<String>,
    /// Only flows of the container whose identifier begins so, or that has this name in its pod
    #[arg(long = "container", value_name = "ID|NAME")]
    pub containers: Vec<String>,
    /// Only flows of the pod of Kubernetes with this name, or this UID
    #[arg(long = "pod", value_name = "[NAMESPACE/]NAME|UID")]
    pub pods: Vec<String>,
    /// Only flows of pods in this namespace of Kubernetes
    #[arg(long = "namespace", value_name = "NAME")]
    pub namespaces: Vec<String>,
}

impl OwnerFilterArguments {
    pub fn to_filter(&self) -> OwnerFilter {
        let path = |path: &String| CgroupPattern::of_path(path);
        let unit = |unit: &String| CgroupPattern::Unit(unit.clone());
        OwnerFilter {
            users: self.users.clone(),
            pids: self.pids.clone(),
            processes: self.processes.clone(),
            cgroups: self.cgroups.iter().map(path).chain(self.units.iter().map(unit)).collect(),
            containers: self.containers.clone(),
            pods: self.pods.clone(),
            namespaces: self.namespaces.clone(),
        }
    }
}

/// Returns a user's number, of those that have a name here or of any.
pub fn user_number(user: &str) -> Result<u32, String> {
    if let Ok(number) = user.parse() {
        return Ok(number);
    }
    let host = Host::read().map_err(|error| error.to_string())?;
    host.users.get(user).copied().ok_or_else(|| {
        format!("no user {user:?} in /etc/passwd: give the number, which `id -u {user}` says")
    })
}

impl FlowFilter {
    pub fn to_filter(&self) -> Filter {
        Filter {
            paths: self.paths.clone(),
            remotes: self.remotes.clone(),
            cookies: self.cookies.clone(),
            owners: self.owners.to_filter(),
            all: self.all,
            fields: Vec::new(),
        }
    }
}

pub fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok();
    seconds
        .filter(|seconds| (0.1..=3600.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "it takes seconds, from 0.1 to 3600".to_owned())
}
