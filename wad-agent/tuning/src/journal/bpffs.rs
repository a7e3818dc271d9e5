//! The BPF file system that wad mounted: unmounting it would take away what
//! others pinned there, so it goes only when it is empty.

use std::{fs, io, path::Path};

use nix::{
    errno::Errno,
    mount::{MntFlags, MsFlags, mount as mount_fs, umount2},
    sys::statfs::{BPF_FS_MAGIC, statfs},
};

use super::{JournalError, Left};

/// Files that the kernel itself puts into a new BPF file system
/// (CONFIG_BPF_PRELOAD).
const PRELOADED: [&str; 2] = ["maps.debug", "progs.debug"];

pub fn mount(dir: &Path) -> nix::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount_fs(Some("bpf"), dir, Some("bpf"), flags, Some("mode=0700"))
}

pub fn unmount(dir: &Path) -> Result<Option<Left>, JournalError> {
    let failed = |source: io::Error| JournalError::Unmount { dir: dir.to_owned(), source };
    match statfs(dir) {
        Ok(found) if found.filesystem_type() == BPF_FS_MAGIC => {}
        // Never mounted, or unmounted by someone else.
        Ok(_) | Err(Errno::ENOENT) => return Ok(None),
        Err(errno) => return Err(failed(errno.into())),
    }
    let in_use = Some(Left::BpffsInUse { dir: dir.to_owned() });
    for file in fs::read_dir(dir).map_err(failed)? {
        let name = file.map_err(failed)?.file_name();
        if !PRELOADED.iter().any(|preloaded| name == *preloaded) {
            return Ok(in_use);
        }
    }
    match umount2(dir, MntFlags::UMOUNT_NOFOLLOW) {
        Ok(()) => Ok(None),
        Err(Errno::EBUSY) => Ok(in_use),
        // Inside a BPF file system, but not where it is mounted.
        Err(Errno::EINVAL) => Ok(None),
        Err(errno) => Err(failed(errno.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_no_bpf_file_system_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(unmount(dir.path()).unwrap(), None);
        assert_eq!(unmount(&dir.path().join("gone")).unwrap(), None);
        assert!(dir.path().is_dir());
    }
}
