//! The lock of an instance, taken by a process that says who it is to those who are refused
//! it: its version, what holds it, since when, and how it is ended.

use std::{fmt, fs, path::Path, sync::Arc};

use jiff::{Timestamp, Unit};
use wad_instruments::Place;
use wad_linux::{
    bpffs::{self, BPFFS},
    lock::{self, Lock, LockError},
};
use wad_tuning::instance::Instance;

use crate::service_manager;

/// The folders in which whoever holds an instance is known.
pub struct Folders<'a> {
    pub run_dir: &'a Path,
    /// The BPF file system, which containers share with the host; None where it is not
    /// mounted, and nothing can be pinned.
    pub bpffs: Option<&'a Path>,
}

impl Folders<'static> {
    /// Returns those of this host, as this process sees it.
    #[must_use]
    pub fn of_host() -> Self {
        let bpffs = bpffs::is_mounted().then_some(Path::new(BPFFS));
        Self { run_dir: Path::new(lock::RUN_DIR), bpffs }
    }
}

/// Takes the lock in both folders.
pub fn take(folders: &Folders<'_>, instance: &Instance) -> Result<Lock, LockError> {
    let lock = Lock::take(folders.run_dir, instance.name(), &introduction())?;
    folders.bpffs.map_or(Ok(()), |bpffs| lock.take_in(bpffs))?;
    Ok(lock)
}

fn introduction() -> String {
    let keeper = Keeper::find();
    let since = Timestamp::now().round(Unit::Second).unwrap_or_default();
    let version = env!("CARGO_PKG_VERSION");
    format!("version {version}, {keeper}since {since}; {}", keeper.end())
}

/// The keeper of a process: it started that, and ends it.
#[derive(Debug, PartialEq, Eq)]
enum Keeper {
    Unit(Arc<str>),
    /// A pod of Kubernetes, by its UID.
    Pod(Arc<str>),
    Container(Arc<str>),
    Nothing,
}

impl Keeper {
    fn find() -> Self {
        let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Self::container(&cgroups, &mounts)
            .or_else(|| Some(Self::Unit(service_manager::unit()?)))
            .unwrap_or(Self::Nothing)
    }

    /// A container may not see its own cgroup, but some of its files are mounted from
    /// folders of its engine's or the kubelet's.
    fn container(cgroups: &str, mounts: &str) -> Option<Self> {
        let cgroups = cgroups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        let places: Vec<Place> =
            cgroups.map(Place::of).chain(mounts.lines().filter_map(mounted_from)).collect();
        let pod = places.iter().find_map(|place| place.pod.clone()).map(Self::Pod);
        let container = || places.iter().find_map(|place| place.container.clone());
        pod.or_else(|| container().map(Self::Container))
    }

    /// Says how it is ended.
    fn end(&self) -> String {
        match self {
            Self::Unit(unit) => format!("`systemctl stop {unit}` stops it"),
            Self::Pod(_) => "a `nodeSelector` that leaves this node out, or an uninstall from the \
                             cluster, stops it"
                .to_owned(),
            Self::Container(_) => "the end of its container stops it".to_owned(),
            // Its number is another one where others are told.
            Self::Nothing => "SIGTERM stops it".to_owned(),
        }
    }
}

impl fmt::Display for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unit(unit) => write!(f, "unit {unit}, "),
            Self::Pod(uid) => write!(f, "pod {uid}, "),
            Self::Container(id) => write!(f, "container {id}, "),
            Self::Nothing => Ok(()),
        }
    }
}

/// Files that engines mount into containers, each from a folder that has its name.
const MOUNTED: [&str; 4] =
    ["/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/termination-log"];

/// Reads where one of them is from, in a line of proc_pid_mountinfo(5): its fourth field is
/// the path in its file system, and the fifth that in the container.
fn mounted_from(line: &str) -> Option<Place> {
    let mut fields = line.split(' ').skip(3);
    let (from, at) = (fields.next()?, fields.next()?);
    if !MOUNTED.contains(&at) {
        return None;
    }
    // The kubelet's are below `pods`, by UID alone.
    Some(Place::of(&from.replace("/pods/", "/pod")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "8b2f6e1c0a4d9e7f8b2f6e1c0a4d9e7f8b2f6e1c0a4d9e7f8b2f6e1c0a4d9e7f";
    const UID: &str = "1f2e3d4c-5b6a-7980-a1b2-c3d4e5f60718";

    #[test]
    fn a_container_is_known_by_its_cgroup_or_by_what_is_mounted() {
        let of_kubelet = format!(
            "31 22 0:31 / / rw - overlay overlay rw\n\
             32 31 8:1 /var/lib/kubelet/pods/{UID}/etc-hosts /etc/hosts rw - ext4 /dev/sda1 rw\n"
        );
        let of_docker = format!(
            "32 31 8:1 /var/lib/docker/containers/{ID}/hosts /etc/hosts rw - ext4 /dev/sda1 rw\n"
        );
        // A node has these for others.
        let of_node = format!(
            "33 31 8:1 /var/lib/kubelet/pods/{UID}/volumes/a /srv/a rw - ext4 /dev/sda1 rw\n"
        );
        let (pod, container) = (Keeper::Pod(UID.into()), Keeper::Container(ID.into()));
        for (cgroups, mounts, expected) in [
            ("0::/\n", of_kubelet.as_str(), Some(pod)),
            ("0::/\n", &of_docker, Some(container)),
            (
                &format!("0::/system.slice/docker-{ID}.scope\n"),
                "",
                Some(Keeper::Container(ID.into())),
            ),
            ("0::/system.slice/wad.service\n", &of_node, None),
            ("", "nonsense\n", None),
        ] {
            assert_eq!(Keeper::container(cgroups, mounts), expected, "{cgroups}{mounts}");
        }
    }

    #[test]
    fn each_is_said_with_how_it_is_ended() {
        let said = |keeper: Keeper| format!("{keeper}{}", keeper.end());
        assert_eq!(
            said(Keeper::Unit("wad.service".into())),
            "unit wad.service, `systemctl stop wad.service` stops it"
        );
        assert!(said(Keeper::Pod(UID.into())).starts_with(&format!("pod {UID}, ")));
        let text = introduction();
        assert!(text.starts_with(&format!("version {}, ", env!("CARGO_PKG_VERSION"))), "{text}");
        assert!(text.contains("since 2") && text.ends_with("stops it"), "{text}");
    }
}
