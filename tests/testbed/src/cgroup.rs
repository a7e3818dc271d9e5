//! An experiment has a cgroup v2 of its own, removed when dropped together with the
//! processes still in it.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// Tells what went wrong with a cgroup.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    #[error("no cgroup v2 is mounted (none in /proc/self/mountinfo)")]
    NotMounted,
    #[error("cannot use cgroup {path}", path = path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Returns where cgroup v2 is mounted: the usual place or, beside version 1, another.
///
/// # Errors
/// When it is not mounted.
pub fn mount_point() -> Result<PathBuf, CgroupError> {
    let path = Path::new("/proc/self/mountinfo");
    let table = fs::read_to_string(path)
        .map_err(|source| CgroupError::Io { path: path.to_owned(), source })?;
    mount_point_in(&table).ok_or(CgroupError::NotMounted)
}

/// Reads a table of proc_pid_mountinfo(5): the mount point is the fifth field, the type
/// follows a lone hyphen.
fn mount_point_in(table: &str) -> Option<PathBuf> {
    table.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        kind.starts_with("cgroup2 ").then(|| mount.split(' ').nth(4))?.map(PathBuf::from)
    })
}

/// A cgroup, mostly right under the root of the hierarchy.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    procs: File,
}

impl Cgroup {
    /// Creates an empty cgroup whose name holds `label` and is unique.
    ///
    /// # Errors
    /// Without root, or without cgroup v2.
    pub fn create(label: &str) -> Result<Self, CgroupError> {
        Self::create_in(&mount_point()?, label)
    }

    /// Creates an empty one below this, which has to go before it.
    ///
    /// # Errors
    /// Without root.
    pub fn create_below(&self, label: &str) -> Result<Self, CgroupError> {
        Self::create_in(&self.path, label)
    }

    fn create_in(parent: &Path, label: &str) -> Result<Self, CgroupError> {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("wad-{}-{count}-{label}", process::id()));
        let failed = |source| CgroupError::Io { path: path.clone(), source };
        fs::create_dir(&path).map_err(failed)?;
        match OpenOptions::new().write(true).open(path.join("cgroup.procs")) {
            Ok(procs) => Ok(Self { path, procs }),
            Err(source) => {
                let error = failed(source);
                // Empty as it is, only its absence could make this fail.
                let _ = fs::remove_dir(&path);
                Err(error)
            }
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the open file that takes the ids of processes to move in.
    #[must_use]
    pub fn procs(&self) -> &File {
        &self.procs
    }
}

/// This process's membership in a cgroup; it returns to where it was when
/// dropped. That must be before the cgroup goes, which kills its members.
#[derive(Debug)]
#[must_use]
pub struct Joined {
    before: PathBuf,
}

impl Joined {
    /// Sockets that this process makes from here on belong to the cgroup.
    ///
    /// # Errors
    /// Without root.
    pub fn to(cgroup: &Cgroup) -> Result<Self, CgroupError> {
        let path = Path::new("/proc/self/cgroup");
        let table = fs::read_to_string(path)
            .map_err(|source| CgroupError::Io { path: path.to_owned(), source })?;
        // Version 2 has number 0 and no controllers (cgroups(7)).
        let before = table.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        let joined = Self { before: mount_point()?.join(before) };
        enter(cgroup.path())?;
        Ok(joined)
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        // Where it came from may be gone; the root is always there.
        let root = mount_point();
        if enter(&self.before).or_else(|_| enter(&root?)).is_err() {
            crate::say("this process cannot leave its cgroup");
        }
    }
}

/// Moves this process, all of its threads.
fn enter(cgroup: &Path) -> Result<(), CgroupError> {
    let path = cgroup.join("cgroup.procs");
    fs::write(&path, "0").map_err(|source| CgroupError::Io { path, source })
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Kills what is in a cgroup and removes it, or says that it could not.
pub fn remove(path: &Path) {
    // cgroup.kill exists from Linux 5.14 on; the guards of the processes have
    // killed them before, so it is only for what those left.
    let _ = fs::write(path.join("cgroup.kill"), "1");
    for _ in 0..50 {
        match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                thread::sleep(Duration::from_millis(20));
            }
            _ => return,
        }
    }
    crate::say(&format!("cgroup {} stays behind: busy", path.display()));
}

/// Removes the empty cgroups below one, innermost first; says whether none is left.
#[must_use]
pub fn remove_below(path: &Path) -> bool {
    let Ok(entries) = fs::read_dir(path) else { return true };
    let folders = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    let kept = folders.filter(|folder| !remove_below(folder) || fs::remove_dir(folder).is_err());
    kept.count() == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_hybrid_mount() {
        let table = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
                     32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                     41 31 0:38 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n";
        assert_eq!(mount_point_in(table), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(mount_point_in("31 23 0:28 / /sys rw - sysfs sysfs rw\n"), None);
    }
}
