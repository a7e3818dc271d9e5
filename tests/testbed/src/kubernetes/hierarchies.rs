//! A cgroup of a node's own in each hierarchy of the host: version 1 and 2 beside each
//! other, as containers count memory by the one and are told apart by the other.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process, thread,
    time::Duration,
};

use crate::cgroup::remove_below;

const MOUNTS: &str = "/sys/fs/cgroup";
/// They are empty at first, and nobody is in a group without these.
const OF_CPUSET: [&str; 2] = ["cpuset.cpus", "cpuset.mems"];

/// The cgroups, below those of this process; removed when dropped.
pub struct Hierarchies(Vec<PathBuf>);

impl Hierarchies {
    /// # Errors
    /// Without root, or where version 1 is not mounted.
    pub fn create() -> io::Result<Self> {
        let table = fs::read_to_string("/proc/self/cgroup")?;
        let mut own = Self(Vec::new());
        for line in table.lines() {
            let Some(parent) = folder(line) else { continue };
            let path = parent.join(format!("wad-node-{}", process::id()));
            fs::create_dir(&path)?;
            own.0.push(path.clone());
            for file in OF_CPUSET {
                if parent.join(file).exists() {
                    fs::copy(parent.join(file), path.join(file))?;
                }
            }
        }
        Ok(own)
    }

    /// Returns the files by which a process enters them.
    pub fn entrances(&self) -> impl Iterator<Item = PathBuf> {
        self.0.iter().map(|path| path.join("cgroup.procs"))
    }
}

/// Returns the folder of a line of /proc/PID/cgroup, as hybrid hosts have it (cgroups(7)).
fn folder(line: &str) -> Option<PathBuf> {
    let (_, place) = line.split_once(':')?;
    let (controllers, path) = place.split_once(":/")?;
    let mount = match controllers.strip_prefix("name=") {
        _ if controllers.is_empty() => "unified",
        Some(name) => name,
        None => controllers,
    };
    Some(Path::new(MOUNTS).join(mount).join(path))
}

impl Drop for Hierarchies {
    fn drop(&mut self) {
        for _ in 0..250 {
            self.0.retain(|path| !remove_below(path) || fs::remove_dir(path).is_err());
            if self.0.is_empty() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        for path in &self.0 {
            crate::say(&format!("cgroup {} stays behind", path.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_of_a_hierarchy() {
        let at = |line| folder(line).map(|path| path.display().to_string());
        assert_eq!(at("4:cpu,cpuacct:/").as_deref(), Some("/sys/fs/cgroup/cpu,cpuacct/"));
        assert_eq!(at("1:name=systemd:/a/b").as_deref(), Some("/sys/fs/cgroup/systemd/a/b"));
        assert_eq!(at("0::/a.slice").as_deref(), Some("/sys/fs/cgroup/unified/a.slice"));
        assert_eq!(at(""), None);
    }
}
