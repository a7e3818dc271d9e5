//! The cgroup that the tuner is attached to.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    os::{
        fd::{AsRawFd as _, BorrowedFd},
        unix::{ffi::OsStringExt as _, fs::MetadataExt as _},
    },
    path::{Path, PathBuf},
};

use aya_obj::generated::{bpf_attach_type, bpf_cmd};
use nix::{
    errno::Errno,
    fcntl::AtFlags,
    unistd::{AccessFlags, faccessat},
};
use thiserror::Error;
use wad_struct_ops::sys::{self, bpf, zeroed};

/// Says why there is no cgroup to attach to.
#[derive(Debug, Error)]
pub enum CgroupError {
    #[error("cannot read /proc/self/mountinfo (is /proc mounted?)")]
    Mounts(#[source] io::Error),
    #[error(
        "no cgroup v2 hierarchy is mounted; mount one (mount -t cgroup2 none /sys/fs/cgroup) or \
         name a folder of one with --cgroup"
    )]
    NoCgroup2,
    #[error("cannot open the cgroup {}; --cgroup names one", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("{} is not a folder of the cgroup v2 hierarchy", path.display())]
    NotCgroup2 { path: PathBuf },
}

/// An open cgroup.
pub struct Cgroup {
    pub path: PathBuf,
    pub file: File,
    /// The kernel's number for it, its inode.
    pub id: u64,
}

impl Cgroup {
    /// Opens the given cgroup, or the root of the hierarchy.
    pub fn open(path: Option<&Path>) -> Result<Self, CgroupError> {
        let path = match path {
            Some(path) => path.to_owned(),
            None => root()?,
        };
        let open_error = |source| CgroupError::Open { path: path.clone(), source };
        let file = File::open(&path).map_err(open_error)?;
        // Whoever is in the way is looked for in the folders above.
        let path = fs::canonicalize(&path).map_err(open_error)?;
        let filesystem = nix::sys::statfs::fstatfs(&file).map_err(|e| open_error(e.into()))?;
        if filesystem.filesystem_type() != nix::sys::statfs::CGROUP2_SUPER_MAGIC {
            return Err(CgroupError::NotCgroup2 { path });
        }
        let id = file.metadata().map_err(open_error)?.ino();
        Ok(Self { path, file, id })
    }

    /// Whether it was removed, whatever is at its path by now: no connection comes to it
    /// any more.
    pub fn is_removed(&self) -> bool {
        let found = faccessat(&self.file, "cgroup.procs", AccessFlags::F_OK, AtFlags::empty());
        matches!(found, Err(Errno::ENOENT | Errno::ENODEV))
    }

    /// The sock_ops programs of others here or above: one attached exclusively
    /// is why ours cannot be.
    pub fn programs_in_the_way(&self) -> Vec<(PathBuf, u32)> {
        self.path
            .ancestors()
            .filter_map(|path| Some((path, File::open(path).ok()?)))
            .flat_map(|(path, file)| {
                exclusive_programs(&file).into_iter().map(move |id| (path.to_owned(), id))
            })
            .collect()
    }
}

/// Returns where the cgroup v2 hierarchy is mounted: /sys/fs/cgroup, or below it in a
/// hybrid set-up.
pub fn root() -> Result<PathBuf, CgroupError> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(CgroupError::Mounts)?;
    cgroup2_mount(&mounts).ok_or(CgroupError::NoCgroup2)
}

/// The whole hierarchy, rather than a part of it that is mounted somewhere else.
pub fn cgroup2_mount(mounts: &str) -> Option<PathBuf> {
    let cgroup2 = |line: &'_ str| -> Option<(Reach, PathBuf)> {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, dir) = (fields.next()?, fields.next()?);
        (filesystem.split(' ').next() == Some("cgroup2")).then(|| (reach(root), unescaped(dir)))
    };
    // Of equals, the last that is compared: the first in the table.
    mounts.lines().rev().filter_map(cgroup2).max_by_key(|(reach, _)| *reach).map(|(_, dir)| dir)
}

/// How much of the hierarchy a mount holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// A cgroup that this process need not be in.
    Part,
    /// The root of this process' cgroup namespace, or one so many levels above it: in a
    /// container the first is its own, and the second the host's.
    Above(usize),
}

/// Reads it from the root of a mount, as `/`, `/../..` and `/a.slice` (cgroup_namespaces(7)).
fn reach(root: &str) -> Reach {
    let mut names = root.split('/').filter(|name| !name.is_empty());
    let levels = names.clone().count();
    if names.all(|name| name == "..") { Reach::Above(levels) } else { Reach::Part }
}

/// A path of the table: blanks and the like are in it as a backslash and three
/// octal digits (proc_pid_mountinfo(5)).
fn unescaped(text: &str) -> PathBuf {
    let mut path = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped =
            after.split_at_checked(3).filter(|_| *first == b'\\').and_then(|(digits, next)| {
                Some((u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok()?, next))
            });
        let (byte, next) = escaped.unwrap_or((*first, after));
        path.push(byte);
        rest = next;
    }
    OsString::from_vec(path).into()
}

/// Ids of the sock_ops programs of a cgroup that allow no others beside them.
fn exclusive_programs(cgroup: &File) -> Vec<u32> {
    const BPF_F_ALLOW_MULTI: u32 = 1 << 1;
    let mut ids = [0_u32; 64];
    let mut attr = zeroed();
    attr.query.__bindgen_anon_1.target_fd = cgroup.as_raw_fd() as u32;
    attr.query.attach_type = bpf_attach_type::BPF_CGROUP_SOCK_OPS as u32;
    attr.query.prog_ids = ids.as_mut_ptr() as u64;
    attr.query.__bindgen_anon_2.prog_cnt = ids.len() as u32;
    if bpf(bpf_cmd::BPF_PROG_QUERY, &mut attr).is_err() {
        return Vec::new();
    }
    // SAFETY: the command filled in this member of the union.
    let (count, flags) = unsafe { (attr.query.__bindgen_anon_2.prog_cnt, attr.query.attach_flags) };
    if flags & BPF_F_ALLOW_MULTI != 0 {
        return Vec::new();
    }
    ids[..ids.len().min(count as usize)].to_vec()
}

/// Returns the number of the cgroup that a link is attached to; None if that is gone, or the
/// link was detached.
pub fn attached_to(link: BorrowedFd<'_>) -> io::Result<Option<u64>> {
    let info = sys::link_info(link)?;
    // SAFETY: of a link of this type the command fills in this member.
    let id = unsafe { info.__bindgen_anon_1.cgroup.cgroup_id };
    Ok((id != 0).then_some(id))
}

/// The name of a program, in quotes and after a space, where it has one.
pub fn program_name(id: u32) -> String {
    aya::programs::loaded_programs()
        .flatten()
        .find(|program| program.id() == id)
        .and_then(|program| program.name_as_str().map(|name| format!(" `{name}`")))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_is_found_wherever_it_is_mounted() {
        let hybrid = "25 22 0:22 / /sys/fs/cgroup/cpu rw shared:5 - cgroup cgroup rw,cpu\n\
                      36 22 0:31 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
        assert_eq!(cgroup2_mount(hybrid), Some("/sys/fs/cgroup/unified".into()));
        let part = "24 22 0:31 /a.slice /mnt/part rw - cgroup2 cgroup2 rw\n";
        assert_eq!(cgroup2_mount(part), Some("/mnt/part".into()));
        let both = format!("{part}{hybrid}");
        assert_eq!(cgroup2_mount(&both), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(cgroup2_mount("25 22 0:22 / /proc rw - proc proc rw\n"), None);
        let container = "30 22 0:31 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n\
                         31 22 0:31 /../../.. /host/sys/fs/cgroup ro - cgroup2 cgroup2 rw\n\
                         32 22 0:31 /../other /mnt/other ro - cgroup2 cgroup2 rw\n";
        assert_eq!(cgroup2_mount(container), Some("/host/sys/fs/cgroup".into()));
        let twice = "30 22 0:31 / /first ro - cgroup2 cgroup rw\n\
                     31 22 0:31 / /second ro - cgroup2 cgroup2 rw\n";
        assert_eq!(cgroup2_mount(twice), Some("/first".into()));
        let blank = "36 22 0:31 / /a\\040b\\134c rw - cgroup2 cgroup2 rw\n";
        assert_eq!(cgroup2_mount(blank), Some("/a b\\c".into()));
    }
}
