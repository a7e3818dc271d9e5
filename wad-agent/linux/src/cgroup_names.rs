//! The paths of cgroups, by their numbers.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
    sync::LazyLock,
};

use crate::cgroup;

/// The kind of handle of a kernfs: its bytes are the inode's number (`FILEID_KERNFS`,
/// include/linux/exportfs.h).
const KERNFS: i32 = 0xfe;

/// Returns the path of a cgroup below the root, as /proc/PID/cgroup has it after 0::/; None
/// where it is gone, out of sight, or not to be asked for (that takes CAP_DAC_READ_SEARCH).
#[must_use]
pub fn path(id: u64) -> Option<String> {
    static ROOT: LazyLock<Option<PathBuf>> = LazyLock::new(|| cgroup::root().ok());
    find(ROOT.as_ref()?, id).ok()
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
