//! All cgroups of the hierarchy, followed as they come and go.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs, io, mem,
    os::{
        fd::{AsFd as _, AsRawFd, RawFd},
        unix::fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor},
};

/// Most cgroups that are followed. systemd has some hundreds, Kubernetes allows 110 pods on
/// a node.
pub const MAX_CGROUPS: usize = 16_384;

const EVENTS: AddWatchFlags =
    AddWatchFlags::IN_CREATE.union(AddWatchFlags::IN_DELETE).union(AddWatchFlags::IN_ONLYDIR);

/// The numbers of cgroups, their inodes, by their paths from the root.
pub type Cgroups = BTreeMap<PathBuf, u64>;

/// The hierarchy of cgroups.
pub struct Tree {
    root: PathBuf,
    inotify: Inotify,
    /// The paths that are watched.
    watched: HashMap<WatchDescriptor, PathBuf>,
    cgroups: Cgroups,
    /// Most that are followed.
    most: usize,
    /// Cgroups that may not be read.
    closed: BTreeSet<PathBuf>,
    /// Cgroups for which there was no room, without those within.
    beyond: BTreeSet<PathBuf>,
}

impl Tree {
    /// Finds all there are.
    ///
    /// # Errors
    /// When there is no such root, or the kernel lets nobody watch it.
    pub fn open(root: &Path) -> io::Result<Self> {
        Self::with_room(root, MAX_CGROUPS)
    }

    fn with_room(root: &Path, most: usize) -> io::Result<Self> {
        let mut tree = Self {
            root: root.to_owned(),
            inotify: Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?,
            watched: HashMap::new(),
            cgroups: Cgroups::new(),
            most,
            closed: BTreeSet::new(),
            beyond: BTreeSet::new(),
        };
        tree.enter(vec![PathBuf::new()])?;
        // It would never be another one.
        let is_there = tree.is_partial() || tree.cgroups.contains_key(Path::new(""));
        if is_there { Ok(tree) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    pub const fn cgroups(&self) -> &Cgroups {
        &self.cgroups
    }

    /// Whether there are more than are followed: by [`MAX_CGROUPS`], by the kernel's own bound on
    /// watches (`fs.inotify.max_user_watches`), or as they may not be read.
    pub fn is_partial(&self) -> bool {
        !self.closed.is_empty() || !self.beyond.is_empty()
    }

    /// Takes in what has happened since. Returns whether it is another tree; EAGAIN is
    /// nothing new. After another error it is not followed any more.
    pub fn read(&mut self) -> io::Result<bool> {
        let mut is_changed = false;
        for event in self.inotify.read_events()? {
            if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                self.watched.clear();
                self.closed.clear();
                self.beyond.clear();
                let before = mem::take(&mut self.cgroups);
                return match self.enter(vec![PathBuf::new()]) {
                    Ok(()) => Ok(true),
                    Err(error) => {
                        self.cgroups = before;
                        Err(error)
                    }
                };
            }
            if event.mask.contains(AddWatchFlags::IN_IGNORED) {
                self.watched.remove(&event.wd);
                continue;
            }
            // Files come and go as controllers do.
            let is_folder = event.mask.contains(AddWatchFlags::IN_ISDIR);
            let Some(name) = event.name.filter(|_| is_folder) else { continue };
            let Some(parent) = self.watched.get(&event.wd) else { continue };
            let path = parent.join(name);
            is_changed = true;
            if event.mask.contains(AddWatchFlags::IN_DELETE) {
                self.forget(&path);
                // One that was made again since has its number now.
                if !self.root.join(&path).exists() {
                    continue;
                }
            }
            self.enter(vec![path])?;
        }
        Ok(self.enter_beyond()? || is_changed)
    }

    /// Forgets a cgroup that is gone, with those within.
    fn forget(&mut self, gone: &Path) {
        self.cgroups.retain(|cgroup, _| !cgroup.starts_with(gone));
        self.closed.retain(|cgroup| !cgroup.starts_with(gone));
        self.beyond.retain(|cgroup| !cgroup.starts_with(gone));
        // The kernel takes a watch back when the last who has the folder open lets it go, which may
        // be later: its room is free now.
        let inotify = &self.inotify;
        self.watched.retain(|descriptor, cgroup| {
            let is_there = !cgroup.starts_with(gone);
            if !is_there {
                // It may have gone by itself.
                let _ = inotify.rm_watch(*descriptor);
            }
            is_there
        });
    }

    /// Follows those for which there is room by now. Returns whether there was for any.
    fn enter_beyond(&mut self) -> io::Result<bool> {
        let mut is_changed = false;
        while self.watched.len() < self.most
            && let Some(path) = self.beyond.pop_first()
        {
            self.enter(vec![path.clone()])?;
            if self.beyond.contains(&path) {
                // The kernel has none.
                break;
            }
            is_changed = true;
        }
        Ok(is_changed)
    }

    /// Follows cgroups, with those within: made before they were watched, these come without
    /// an event.
    fn enter(&mut self, mut ways: Vec<PathBuf>) -> io::Result<()> {
        while let Some(path) = ways.pop() {
            if self.watched.len() >= self.most {
                self.beyond.extend(ways.into_iter().chain([path]));
                return Ok(());
            }
            let folder = self.root.join(&path);
            match self.inotify.add_watch(&folder, EVENTS) {
                Ok(descriptor) => self.watched.insert(descriptor, path.clone()),
                // It went meanwhile: its event comes, or has come.
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ENODEV) => continue,
                Err(Errno::ENOSPC) => {
                    self.beyond.extend(ways.into_iter().chain([path]));
                    return Ok(());
                }
                // Whoever has a cgroup to himself may have made it so; it is his loss alone.
                Err(Errno::EACCES | Errno::ENAMETOOLONG) if folder != self.root => {
                    self.closed.insert(path);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let Ok(metadata) = fs::metadata(&folder) else { continue };
            self.cgroups.insert(path.clone(), metadata.ino());
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            let folders = entries.flatten().filter(|it| it.file_type().is_ok_and(|it| it.is_dir()));
            ways.extend(folders.map(|entry| path.join(entry.file_name())));
        }
        Ok(())
    }
}

impl AsRawFd for Tree {
    fn as_raw_fd(&self) -> RawFd {
        self.inotify.as_fd().as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use nix::unistd::{Uid, setfsuid};

    use super::*;

    fn paths(tree: &Tree) -> Vec<&str> {
        tree.cgroups().keys().filter_map(|path| path.to_str()).collect()
    }

    #[test]
    fn one_that_may_not_be_read_does_not_end_all() {
        let root = tempfile::tempdir().expect("a folder");
        let set = |path: &str, mode| {
            let mode = fs::Permissions::from_mode(mode);
            fs::set_permissions(root.path().join(path), mode).expect("ours");
        };
        fs::create_dir_all(root.path().join("closed")).expect("writable");
        fs::create_dir_all(root.path().join("open")).expect("writable");
        set("", 0o755);
        set("closed", 0o000);
        // root may read all; this thread is somebody else to file systems from now on.
        setfsuid(Uid::from_raw(65_534));
        let mut tree = Tree::open(root.path()).expect("inotify");
        assert_eq!((paths(&tree), tree.is_partial()), (vec!["", "open"], true));
        set_back(root.path());
        fs::remove_dir(root.path().join("closed")).expect("ours");
        assert!(tree.read().expect("an event") && !tree.is_partial());
    }

    /// Lets the folder be removed.
    fn set_back(root: &Path) {
        setfsuid(Uid::effective());
        fs::set_permissions(root.join("closed"), fs::Permissions::from_mode(0o755)).expect("ours");
    }

    #[test]
    fn those_without_room_are_followed_when_there_is_some() {
        let root = tempfile::tempdir().expect("a folder");
        let make = |path: &str| fs::create_dir_all(root.path().join(path)).expect("writable");
        let remove = |path: &str| fs::remove_dir_all(root.path().join(path)).expect("there");
        make("a");
        make("b");
        let mut tree = Tree::with_room(root.path(), 3).expect("inotify");
        assert!(!tree.is_partial());
        make("c/within");
        make("d");
        assert!(tree.read().expect("events"));
        assert_eq!((paths(&tree), tree.is_partial()), (vec!["", "a", "b"], true));
        // One that is not followed goes, and then one that is.
        remove("d");
        assert!(tree.read().expect("events") && tree.is_partial());
        remove("a");
        while tree.read().is_ok() {}
        assert_eq!((paths(&tree), tree.is_partial()), (vec!["", "b", "c"], true));
        remove("c");
        while tree.read().is_ok() {}
        assert_eq!((paths(&tree), tree.is_partial()), (vec!["", "b"], false));
        make("c");
        assert!(tree.read().expect("events") && !tree.is_partial());
        make("d");
        assert!(tree.read().expect("events") && tree.is_partial());
        remove("d");
        assert!(tree.read().expect("events") && !tree.is_partial());
    }

    #[test]
    fn a_folder_that_somebody_holds_open_takes_no_room_once_it_is_gone() {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir(root.path().join("a")).expect("writable");
        let mut tree = Tree::with_room(root.path(), 2).expect("inotify");
        let held = fs::File::open(root.path().join("a")).expect("there");
        fs::remove_dir(root.path().join("a")).expect("empty");
        fs::create_dir(root.path().join("b")).expect("writable");
        assert!(tree.read().expect("events"));
        assert_eq!((paths(&tree), tree.is_partial()), (vec!["", "b"], false));
        drop(held);
    }

    #[test]
    fn folders_are_followed_as_they_come_and_go() {
        let root = tempfile::tempdir().expect("a folder");
        let make = |path: &str| fs::create_dir_all(root.path().join(path)).expect("writable");
        make("system.slice/a.service");
        fs::write(root.path().join("cgroup.procs"), "").expect("writable");
        let mut tree = Tree::open(root.path()).expect("inotify");
        assert_eq!(paths(&tree), ["", "system.slice", "system.slice/a.service"]);
        let error = tree.read().expect_err("nothing has happened");
        assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));

        make("system.slice/b.service/worker/1");
        assert!(tree.read().expect("events"));
        let b = "system.slice/b.service";
        assert_eq!(paths(&tree)[3..], [b, &format!("{b}/worker"), &format!("{b}/worker/1")]);
        make("system.slice/b.service/worker/1/x");
        assert!(tree.read().expect("events") && paths(&tree).len() == 7);
        let inode = fs::metadata(root.path().join(b)).expect("there").ino();
        assert_eq!(tree.cgroups()[Path::new(b)], inode);

        fs::remove_dir_all(root.path().join(b)).expect("there");
        while tree.read().is_ok() {}
        assert_eq!(paths(&tree), ["", "system.slice", "system.slice/a.service"]);
        make(b);
        assert!(tree.read().expect("events") && paths(&tree).len() == 4);
        fs::write(root.path().join("system.slice/file"), "").expect("writable");
        assert!(!tree.read().expect("events"));
    }
}
