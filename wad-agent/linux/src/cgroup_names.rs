//! The paths of cgroups, by their numbers.
//!
//! A cgroup is opened by its number, which takes CAP_DAC_READ_SEARCH. Without it the tree is
//! walked, as seldom as its size demands.

use std::{
    collections::{HashMap, VecDeque},
    fs::{self, File},
    io,
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    },
    path::{Path, PathBuf},
    sync::{LazyLock, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{cgroup, cgroup_tree::MAX_CGROUPS};

/// The kind of handle of a kernfs: its bytes are the inode's number (`FILEID_KERNFS`,
/// include/linux/exportfs.h).
const KERNFS: i32 = 0xfe;

/// Returns the path of a cgroup below the root, as /proc/PID/cgroup has it after 0::/; None
/// where it is gone, out of sight, or newer than the latest walk.
#[must_use]
pub fn path(id: u64) -> Option<String> {
    static ROOT: LazyLock<Option<PathBuf>> = LazyLock::new(|| cgroup::root().ok());
    static WALK: LazyLock<Mutex<Walk>> = LazyLock::new(Mutex::default);
    let root = ROOT.as_ref()?;
    match find(root, id) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            WALK.lock().unwrap_or_else(PoisonError::into_inner).find(root, id)
        }
        found => found.ok(),
    }
}

/// A walk takes no more than this part of the time until the next one.
const PART: u32 = 100;
const LEAST_PAUSE: Duration = Duration::from_secs(1);

/// The latest walk through the tree.
#[derive(Default)]
struct Walk {
    /// The cgroups that were there, by their inodes, which are their numbers.
    paths: HashMap<u64, PathBuf>,
    next: Option<Instant>,
}

impl Walk {
    fn find(&mut self, root: &Path, id: u64) -> Option<String> {
        if !self.paths.contains_key(&id) {
            let now = Instant::now();
            if self.next.is_some_and(|next| now < next) {
                return None;
            }
            self.paths = walk(root);
            self.next = Some(now + LEAST_PAUSE.max(now.elapsed().saturating_mul(PART)));
        }
        let path = self.paths.get(&id)?;
        // It may be gone, or another one of its name.
        let inode = fs::metadata(root.join(path)).ok()?.ino();
        (inode == id).then(|| path.to_string_lossy().into_owned())
    }
}

/// Returns the cgroups that there are, of those beyond [`MAX_CGROUPS`] none.
fn walk(root: &Path) -> HashMap<u64, PathBuf> {
    let mut paths = HashMap::new();
    let mut ways = VecDeque::from([PathBuf::new()]);
    while let Some(path) = ways.pop_front() {
        let folder = root.join(&path);
        let Ok(metadata) = fs::metadata(&folder) else { continue };
        if paths.len() >= MAX_CGROUPS {
            break;
        }
        if let Ok(entries) = fs::read_dir(&folder) {
            let folders = entries.flatten().filter(|it| it.file_type().is_ok_and(|it| it.is_dir()));
            ways.extend(folders.map(|entry| path.join(entry.file_name())));
        }
        paths.insert(metadata.ino(), path);
    }
    paths
}

/// A file handle (`struct file_handle`) with room for a number.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    id: [u8; 8],
}

fn find(root: &Path, id: u64) -> io::Result<String> {
    let any = File::open(root)?;
    let mut handle = Handle { bytes: 8, kind: KERNFS, id: id.to_ne_bytes() };
    // SAFETY: the handle has as many bytes as it says, and the call reads them alone.
    let opened = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            any.as_raw_fd(),
            &raw mut handle,
            libc::O_PATH | libc::O_CLOEXEC,
        )
    };
    if opened < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made it.
    let opened = unsafe { OwnedFd::from_raw_fd(opened as i32) };
    let path = fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()))?;
    let path = path.strip_prefix(root).map_err(io::Error::other)?;
    Ok(String::from_utf8_lossy(path.as_os_str().as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_finds_what_is_there_and_no_other_of_its_name() {
        let root = tempfile::tempdir().unwrap();
        let (name, folder) = ("a.slice/b.service", root.path().join("a.slice/b.service"));
        fs::create_dir_all(&folder).unwrap();
        let id = fs::metadata(&folder).unwrap().ino();
        let mut walk = Walk::default();
        assert_eq!(walk.find(root.path(), id).as_deref(), Some(name));
        fs::rename(&folder, root.path().join("c")).unwrap();
        fs::create_dir(&folder).unwrap();
        assert_eq!(walk.find(root.path(), id), None);

        // A new one is found by the next walk.
        let new = fs::metadata(&folder).unwrap().ino();
        assert_eq!(walk.find(root.path(), new), None);
        walk.next = Some(Instant::now());
        assert_eq!(walk.find(root.path(), new).as_deref(), Some(name));
    }
}
