//! The network namespaces of the host, and work done inside each.
//!
//! Found are those of processes, and those that are mounted somewhere, as `ip
//! netns add` and container engines do. One that is held by a socket alone, or by
//! an open file, stays out of sight.

use std::{
    collections::HashSet,
    fs::{self, File, Metadata},
    io,
    ops::ControlFlow,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use nix::sched::{CloneFlags, setns};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wad_toolbox::shortage::Shortage;

use crate::own_thread::on_own_thread;

/// An open network namespace.
#[derive(Debug)]
pub struct Netns(File);

/// Says which network namespace one is, for as long as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
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
        Ok(Self::own()?.of_neighbour(inode))
    }

    /// All of them are on one file system.
    const fn of_neighbour(self, inode: u64) -> Self {
        Self { inode, ..self }
    }

    fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    /// Returns the number by which `lsns` shows it.
    #[must_use]
    pub const fn inode(self) -> u64 {
        self.inode
    }
}

const OWN: &str = "/proc/self/ns/net";

/// Says in which namespaces work is done.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// In all that can be seen.
    All,
    /// In those with these inodes.
    These(&'a HashSet<u64>),
}

/// So many namespaces a walk had to leave out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// They could not be entered.
    pub closed: u64,
    /// They were wanted, and nowhere to be found.
    pub missing: u64,
    /// They are those of processes that may not be looked at, each of which counts as one.
    pub unseen: u64,
}

impl Skipped {
    pub const fn add(&mut self, other: Self) {
        self.closed = self.closed.saturating_add(other.closed);
        self.missing = self.missing.saturating_add(other.missing);
        self.unseen = self.unseen.saturating_add(other.unseen);
    }
}

/// Does work in each of these namespaces, one after the other: in this process's own
/// first, which takes no privilege, and in the others on a thread of its own. A namespace
/// is open for as long as it is visited, and no other one meanwhile. The work may break off
/// the walk.
pub fn in_each(
    which: Which<'_>,
    mut work: impl FnMut() -> ControlFlow<()> + Send,
) -> io::Result<Skipped> {
    at_each(which, |_, entered| if entered.is_ok() { work() } else { ControlFlow::Continue(()) })
}

/// Does so, and is told which namespace it is, and of each that cannot be entered.
pub fn at_each(
    which: Which<'_>,
    mut work: impl FnMut(Identity, io::Result<()>) -> ControlFlow<()> + Send,
) -> io::Result<Skipped> {
    let mut walk = Walk { which, seen: HashSet::new(), skipped: Skipped::default() };
    let own = Identity::own()?;
    // That takes no thread, either.
    if walk.is_due(own) && work(own, Ok(())).is_break() || walk.is_over() {
        return Ok(walk.skipped);
    }
    on_own_thread(|| walk.go_on(work))?
}

struct Walk<'a> {
    which: Which<'a>,
    /// The namespaces that it came to.
    seen: HashSet<Identity>,
    skipped: Skipped,
}

impl Walk<'_> {
    fn go_on(
        mut self,
        mut work: impl FnMut(Identity, io::Result<()>) -> ControlFlow<()>,
    ) -> io::Result<Skipped> {
        for path in paths()? {
            if self.is_over() {
                break;
            }
            if let Some((identity, entered)) = self.enter(&path)?
                && work(identity, entered).is_break()
            {
                return Ok(self.skipped);
            }
        }
        self.skipped.missing = self.missing();
        Ok(self.skipped)
    }

    /// Whether a namespace is one to go to, which each is once.
    fn is_due(&mut self, identity: Identity) -> bool {
        let is_wanted = match self.which {
            Which::All => true,
            Which::These(inodes) => inodes.contains(&identity.inode),
        };
        is_wanted && self.seen.insert(identity)
    }

    /// Makes the calling thread a member of the namespace there, if it is one to go to, and
    /// tells what came of it. It is an error where there is no descriptor to be had: the
    /// next have none, either.
    fn enter(&mut self, path: &Path) -> io::Result<Option<(Identity, io::Result<()>)>> {
        // Most paths lead to where it has been: to look takes no descriptor.
        let identity = match fs::metadata(path) {
            Ok(metadata) => Identity::of(&metadata),
            Err(error) => {
                self.skipped.unseen += u64::from(!is_gone(&error));
                return Ok(None);
            }
        };
        if !self.is_due(identity) {
            return Ok(None);
        }
        match File::open(path).and_then(|file| Netns(file).enter()) {
            Err(error) if Shortage::behind(&error).is_some() => Err(error),
            Err(error) if is_gone(&error) => {
                // Another path may lead there.
                self.seen.remove(&identity);
                Ok(None)
            }
            entered => {
                self.skipped.closed += u64::from(entered.is_err());
                Ok(Some((identity, entered)))
            }
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.which, Which::These(_)) && self.missing() == 0
    }

    /// Returns how many of those that are wanted it has not come to.
    fn missing(&self) -> u64 {
        match self.which {
            Which::All => 0,
            Which::These(inodes) => (inodes.len() - self.seen.len()) as u64,
        }
    }
}

/// Processes end, and mounts go, while they are looked at. (ESRCH is what a process says
/// that has ended.)
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

impl Netns {
    /// Makes the calling thread a member for the rest of its life.
    pub fn enter(&self) -> io::Result<()> {
        Ok(setns(&self.0, CloneFlags::CLONE_NEWNET)?)
    }
}

/// Returns those of these namespaces that are kept by others than this process and its
/// children: by a process, or by a mount.
pub fn held_by_others(wanted: &HashSet<u64>) -> io::Result<HashSet<u64>> {
    let mut held = HashSet::new();
    for path in paths()? {
        let Ok(inode) = fs::metadata(&path).map(|metadata| metadata.ino()) else { continue };
        if wanted.contains(&inode) && !held.contains(&inode) && !is_of_own_child(&path) {
            held.insert(inode);
            if held.len() == wanted.len() {
                break;
            }
        }
    }
    Ok(held)
}

/// Whether a path is /proc/PID/ns/net of a child of this process.
fn is_of_own_child(path: &Path) -> bool {
    let Some(process) = path.ancestors().nth(2).filter(|_| path.ends_with("ns/net")) else {
        return false;
    };
    let status = fs::read_to_string(process.join("status")).unwrap_or_default();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    parent.is_some_and(|id| id.trim() == std::process::id().to_string())
}

/// Finds a namespace, if it can be seen.
pub fn find(wanted: Identity) -> io::Result<Option<Netns>> {
    let is_wanted =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|metadata| Identity::of(&metadata) == wanted);
    let open = |path| Some(Netns(File::open(path).ok()?));
    Ok([PathBuf::from(OWN)].into_iter().chain(paths()?).filter(is_wanted).find_map(open))
}

/// Returns where namespaces are named: mounts, then processes.
fn paths() -> io::Result<impl Iterator<Item = PathBuf>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let mounted: Vec<_> = mounts.lines().filter_map(mounted).collect();
    Ok(mounted.into_iter().chain(of_processes()?))
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

    /// Returns the inodes of the namespaces that are visited.
    fn visited(which: Which<'_>) -> (Vec<u64>, Skipped) {
        let mut inodes = Vec::new();
        let skipped = in_each(which, || {
            inodes.push(fs::metadata("/proc/thread-self/ns/net").unwrap().ino());
            ControlFlow::Continue(())
        });
        (inodes, skipped.unwrap())
    }

    #[test]
    fn its_own_namespace_is_visited_first_and_once() {
        let own = Identity::own().unwrap();
        let (all, _) = visited(Which::All);
        assert_eq!(all[0], own.inode);
        assert_eq!(all.len(), all.iter().collect::<HashSet<_>>().len());
        assert!(find(own).unwrap().is_some());
    }

    #[test]
    fn wanted_namespaces_are_visited_and_those_that_are_nowhere_are_skipped() {
        let own = Identity::own().unwrap();
        let found = visited(Which::These(&HashSet::from([own.inode])));
        assert_eq!(found, (vec![own.inode], Skipped::default()));
        let (found, skipped) = visited(Which::These(&HashSet::from([1, own.inode])));
        assert!(found == [own.inode] && skipped.missing == 1, "{skipped:?}");
    }

    #[test]
    fn a_walk_can_be_broken_off() {
        let mut visits = 0;
        in_each(Which::All, || {
            visits += 1;
            ControlFlow::Break(())
        })
        .unwrap();
        assert_eq!(visits, 1);
    }
}
