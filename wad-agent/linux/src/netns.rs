//! The network namespaces of the host, and work done inside each.
//!
//! Found are those of processes, and those that are mounted somewhere, as `ip
//! netns add` and container engines do. One that is held by a socket alone, or by
//! an open file, stays out of sight.

use std::{
    collections::HashSet,
    fs::{self, File, Metadata},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    thread,
};

use nix::sched::{CloneFlags, setns};
use serde::{Deserialize, Serialize};

/// An open network namespace.
#[derive(Debug)]
pub struct Netns(File);

/// Says which network namespace one is, for as long as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// Returns the identity of the namespace that this process is in.
    pub fn own() -> io::Result<Self> {
        Ok(Self::of(&fs::metadata(OWN)?))
    }

    /// Returns the identity of the namespace that `lsns` shows by this number.
    pub fn of_inode(inode: u64) -> io::Result<Self> {
        // All of them are on one file system.
        Ok(Self { inode, ..Self::own()? })
    }

    fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

const OWN: &str = "/proc/self/ns/net";

/// Returns the inode of the namespace that this process is in.
pub fn own_inode() -> io::Result<u64> {
    Ok(fs::metadata(OWN)?.ino())
}

impl Netns {
    /// Whether it has this inode.
    #[must_use]
    pub fn is(&self, inode: u64) -> bool {
        self.0.metadata().is_ok_and(|metadata| metadata.ino() == inode)
    }

    /// Makes the calling thread a member for the rest of its life.
    pub fn enter(&self) -> io::Result<()> {
        Ok(setns(&self.0, CloneFlags::CLONE_NEWNET)?)
    }
}

/// All that can be seen, each once; this process's own first.
pub fn all() -> io::Result<Vec<Netns>> {
    let own = File::open(OWN)?;
    let mut seen = HashSet::from([identity(&own)?]);
    let mut found = vec![Netns(own)];
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    for path in of_processes()?.chain(mounts.lines().filter_map(mounted)) {
        // Processes end, and mounts go, while they are looked at.
        let Ok(file) = File::open(&path) else { continue };
        if identity(&file).is_ok_and(|identity| seen.insert(identity)) {
            found.push(Netns(file));
        }
    }
    Ok(found)
}

/// Returns those with these inodes, as far as they can be seen. The search ends with the
/// last of them.
pub fn of_inodes(wanted: &HashSet<u64>) -> io::Result<Vec<Netns>> {
    let own = File::open(OWN)?;
    let mut left = wanted.clone();
    let mut found = Vec::new();
    let mut take = |file: File| {
        if file.metadata().is_ok_and(|metadata| left.remove(&metadata.ino())) {
            found.push(Netns(file));
        }
        left.is_empty()
    };
    if take(own) {
        return Ok(found);
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    for path in mounts.lines().filter_map(mounted).chain(of_processes()?) {
        // As above.
        let Ok(file) = File::open(&path) else { continue };
        if take(file) {
            break;
        }
    }
    Ok(found)
}

/// Runs code in each of these namespaces, one after the other, on a thread of its
/// own.
pub fn in_each<T: Send>(namespaces: &[Netns], inside: impl Fn() -> T + Send) -> Vec<io::Result<T>> {
    let visit = move || namespaces.iter().map(|netns| netns.enter().map(|()| inside())).collect();
    thread::scope(|scope| {
        let thread = scope.spawn(visit);
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Finds a namespace, if it can be seen.
pub fn find(wanted: Identity) -> io::Result<Option<Netns>> {
    let is_wanted = |netns: &Netns| identity(&netns.0).is_ok_and(|found| found == wanted);
    Ok(all()?.into_iter().find(is_wanted))
}

fn identity(file: &File) -> io::Result<Identity> {
    Ok(Identity::of(&file.metadata()?))
}

fn of_processes() -> io::Result<impl Iterator<Item = PathBuf>> {
    let is_process = |path: &Path| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit))
    };
    let paths = fs::read_dir("/proc")?.flatten().map(|entry| entry.path());
    Ok(paths.filter(move |path| is_process(path)).map(|path| path.join("ns/net")))
}

/// Returns where a line of the table of mounts has a network namespace
/// (proc_pid_mountinfo(5)).
pub fn mounted(line: &str) -> Option<PathBuf> {
    let (mount, filesystem) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(3);
    let (root, path) = (fields.next()?, fields.next()?);
    (filesystem.starts_with("nsfs ") && root.starts_with("net:[")).then(|| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounted_namespaces_are_told_from_other_mounts() {
        let line = "36 22 0:4 net:[4026532281] /run/netns/a rw shared:9 - nsfs nsfs rw";
        assert_eq!(mounted(line), Some("/run/netns/a".into()));
        assert_eq!(mounted("36 22 0:4 mnt:[4026532281] /run/mnt rw - nsfs nsfs rw"), None);
        assert_eq!(mounted("25 22 0:22 / /proc rw - proc proc rw"), None);
        assert_eq!(mounted(""), None);
    }

    #[test]
    fn its_own_namespace_is_among_them_once() {
        let all = all().unwrap();
        let own = Identity::own().unwrap();
        let same = all.iter().filter(|netns| identity(&netns.0).unwrap() == own);
        assert_eq!(same.count(), 1);
        assert!(find(own).unwrap().is_some());
        let found = of_inodes(&HashSet::from([own.inode])).unwrap();
        assert_eq!(
            found.iter().map(|netns| identity(&netns.0).unwrap()).collect::<Vec<_>>(),
            [own]
        );
        assert!(of_inodes(&HashSet::from([1])).unwrap().is_empty());
    }
}
