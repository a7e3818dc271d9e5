//! System calls that can change the host, as a thread enters them, and how they are said.
//!
//! Others need no kill of their own: after one that only reads, or makes what goes with the
//! process, the host is as it was before.

use std::{fs, io::IoSliceMut, mem::size_of, path::PathBuf};

use libc::c_long;
use nix::{
    sys::uio::{RemoteIoVec, process_vm_readv},
    unistd::Pid,
};
use wad_testbed::bpf;

/// A system call of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub thread: Pid,
    pub number: c_long,
    pub arguments: [u64; 6],
}

/// The kind of a call says what it may change, by the places of its arguments.
#[derive(Clone, Copy)]
enum Kind {
    /// It changes the host in any case.
    Always,
    /// It names a path.
    Path(usize),
    /// It opens a path, with flags that say whether that is to write.
    Opens { path: usize, flags: usize },
    /// It writes to what a descriptor is of: a file, or anything else, which is no host's.
    File,
    /// It sends: to the kernel, where the socket is one of netlink's.
    Sends,
    /// bpf(2), by its command.
    Bpf,
}

const CALLS: &[(c_long, &str, Kind)] = &[
    (libc::SYS_bpf, "bpf", Kind::Bpf),
    (libc::SYS_openat, "openat", Kind::Opens { path: 1, flags: 2 }),
    (libc::SYS_write, "write", Kind::File),
    (libc::SYS_pwrite64, "pwrite64", Kind::File),
    (libc::SYS_writev, "writev", Kind::File),
    (libc::SYS_ftruncate, "ftruncate", Kind::File),
    (libc::SYS_fallocate, "fallocate", Kind::File),
    (libc::SYS_fsync, "fsync", Kind::File),
    (libc::SYS_fdatasync, "fdatasync", Kind::File),
    (libc::SYS_fchmod, "fchmod", Kind::File),
    (libc::SYS_fchown, "fchown", Kind::File),
    (libc::SYS_fchmodat, "fchmodat", Kind::Path(1)),
    (libc::SYS_fchownat, "fchownat", Kind::Path(1)),
    (libc::SYS_mkdirat, "mkdirat", Kind::Path(1)),
    (libc::SYS_unlinkat, "unlinkat", Kind::Path(1)),
    (libc::SYS_renameat, "renameat", Kind::Path(1)),
    (libc::SYS_renameat2, "renameat2", Kind::Path(1)),
    (libc::SYS_linkat, "linkat", Kind::Path(3)),
    (libc::SYS_symlinkat, "symlinkat", Kind::Path(2)),
    (libc::SYS_mount, "mount", Kind::Path(1)),
    (libc::SYS_umount2, "umount2", Kind::Path(0)),
    (libc::SYS_bind, "bind", Kind::Always),
    (libc::SYS_sendto, "sendto", Kind::Sends),
    (libc::SYS_sendmsg, "sendmsg", Kind::Sends),
    (libc::SYS_ioctl, "ioctl", Kind::Always),
    (libc::SYS_init_module, "init_module", Kind::Always),
    (libc::SYS_finit_module, "finit_module", Kind::Always),
];

/// Older machines have these beside those with `at` in their names.
#[cfg(target_arch = "x86_64")]
const OLDER: &[(c_long, &str, Kind)] = &[
    (libc::SYS_open, "open", Kind::Opens { path: 0, flags: 1 }),
    (libc::SYS_creat, "creat", Kind::Path(0)),
    (libc::SYS_chmod, "chmod", Kind::Path(0)),
    (libc::SYS_chown, "chown", Kind::Path(0)),
    (libc::SYS_mkdir, "mkdir", Kind::Path(0)),
    (libc::SYS_rmdir, "rmdir", Kind::Path(0)),
    (libc::SYS_unlink, "unlink", Kind::Path(0)),
    (libc::SYS_rename, "rename", Kind::Path(0)),
    (libc::SYS_link, "link", Kind::Path(1)),
    (libc::SYS_symlink, "symlink", Kind::Path(1)),
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[(c_long, &str, Kind)] = &[];

/// Commands of bpf(2) (include/uapi/linux/bpf.h) that change what outlives the process. What is
/// only loaded or made goes with it until it is pinned, attached, or put into a map.
const COMMANDS: &[(u64, &str)] = &[
    (2, "MAP_UPDATE_ELEM"),
    (3, "MAP_DELETE_ELEM"),
    (6, "OBJ_PIN"),
    (8, "PROG_ATTACH"),
    (9, "PROG_DETACH"),
    (17, "RAW_TRACEPOINT_OPEN"),
    (21, "MAP_LOOKUP_AND_DELETE_ELEM"),
    (26, "MAP_UPDATE_BATCH"),
    (27, "MAP_DELETE_BATCH"),
    (28, "LINK_CREATE"),
    (29, "LINK_UPDATE"),
    (34, "LINK_DETACH"),
];

/// Commands that make an object of the kernel.
const MAKING: &[(u64, bpf::Kind)] =
    &[(0, bpf::Kind::Map), (5, bpf::Kind::Program), (17, bpf::Kind::Link), (28, bpf::Kind::Link)];

/// Returns the numbers of all calls that may change the host, by their arguments.
pub fn numbers() -> impl Iterator<Item = c_long> {
    CALLS.iter().chain(OLDER).map(|(number, ..)| *number)
}

impl Call {
    fn kind(&self) -> Option<(&'static str, Kind)> {
        let all = CALLS.iter().chain(OLDER);
        all.into_iter()
            .find(|(number, ..)| *number == self.number)
            .map(|(_, name, kind)| (*name, *kind))
    }

    /// Tells whether the host may be another one after it.
    pub fn changes_host(&self) -> bool {
        let Some((_, kind)) = self.kind() else { return false };
        match kind {
            Kind::Always | Kind::Path(_) => true,
            Kind::Opens { flags, .. } => {
                let writing = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
                self.arguments[flags] as libc::c_int & writing != 0
            }
            Kind::File => self.file().is_some(),
            Kind::Sends => self.is_to_kernel(),
            Kind::Bpf => self.command().is_some() && !self.is_of_constants(),
        }
    }

    /// Tells whether it fills in the constants of programs, before they are loaded: a map whose
    /// name begins with a dot.
    fn is_of_constants(&self) -> bool {
        self.map().is_some_and(|name| name.starts_with('.'))
    }

    /// Returns the name of the map that it changes: its attribute begins with a descriptor.
    fn map(&self) -> Option<String> {
        let is_of_map = self.command().is_some_and(|command| command.starts_with("MAP_"));
        let descriptor = is_of_map.then(|| self.word_at(self.arguments[1])).flatten()? as u32;
        let id = self.made(bpf::Kind::Map, descriptor.into())?;
        bpf::name(bpf::Kind::Map, id).ok()?
    }

    /// Returns the call in short, as `unlink /run/wad/default.lock`.
    pub fn shown(&self) -> String {
        let Some((name, kind)) = self.kind() else { return self.number.to_string() };
        let path = |at: usize| self.text_at(self.arguments[at]).unwrap_or_default();
        let of = match kind {
            Kind::Always => String::new(),
            Kind::Path(at) | Kind::Opens { path: at, .. } => path(at),
            Kind::File => self.file().unwrap_or_default().display().to_string(),
            Kind::Sends => "to netlink".to_owned(),
            Kind::Bpf => {
                let command = self.command().unwrap_or_default();
                // The attribute of OBJ_PIN begins with where the path is.
                let pin = (self.arguments[0] == 6).then(|| self.word_at(self.arguments[1]));
                let pin = pin.flatten().and_then(|at| self.text_at(at));
                format!("{command} {}", pin.or_else(|| self.map()).unwrap_or_default())
            }
        };
        format!("{name} {of}").trim_end().to_owned()
    }

    /// Returns what it makes, if it is a call of bpf(2) that makes something.
    pub fn makes(&self) -> Option<bpf::Kind> {
        let of =
            |(command, made): &(u64, bpf::Kind)| (*command == self.arguments[0]).then_some(*made);
        (self.number == libc::SYS_bpf).then(|| MAKING.iter().find_map(of)).flatten()
    }

    /// Returns the number of the object that it has returned a descriptor of.
    pub fn made(&self, made: bpf::Kind, descriptor: i64) -> Option<u32> {
        let info = fs::read_to_string(self.process().join(format!("fdinfo/{descriptor}"))).ok()?;
        let mut lines = info.lines();
        lines.find_map(|line| line.strip_prefix(made.number())?.trim().parse().ok())
    }

    fn command(&self) -> Option<&'static str> {
        COMMANDS.iter().find(|(command, _)| *command == self.arguments[0]).map(|(_, name)| *name)
    }

    fn process(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}", self.thread))
    }

    /// Returns what the first argument is a descriptor of.
    fn descriptor(&self) -> Option<PathBuf> {
        fs::read_link(self.process().join(format!("fd/{}", self.arguments[0]))).ok()
    }

    /// Returns the file that it is of: not a pipe or a socket, nor the log.
    fn file(&self) -> Option<PathBuf> {
        let file = self.descriptor()?;
        let is_file = file.is_absolute() && !file.starts_with("/dev") && !file.ends_with("wad.log");
        is_file.then_some(file)
    }

    fn is_to_kernel(&self) -> bool {
        let Some(socket) = self.descriptor() else { return false };
        let socket = socket.to_string_lossy();
        let Some(inode) = socket.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'))
        else {
            return false;
        };
        // In the network namespace of that thread.
        let table = fs::read_to_string(self.process().join("net/netlink")).unwrap_or_default();
        let is_netlink = table.lines().any(|line| line.split_whitespace().last() == Some(inode));
        is_netlink && !self.only_asks()
    }

    /// Tells whether the message of sendto(2) is a question to rtnetlink: of each four types of
    /// messages that is the third (include/uapi/linux/rtnetlink.h).
    fn only_asks(&self) -> bool {
        const FIRST: u16 = 16;
        const GET: u16 = 2;
        // The length, then the type (struct nlmsghdr).
        let head = (self.number == libc::SYS_sendto).then(|| self.word_at(self.arguments[1]));
        let Some(head) = head.flatten() else { return false };
        let [_, _, _, _, low, high, ..] = head.to_ne_bytes();
        u16::from_ne_bytes([low, high]).checked_sub(FIRST).is_some_and(|kind| kind % 4 == GET)
    }

    fn word_at(&self, address: u64) -> Option<u64> {
        self.bytes_at(address, size_of::<u64>())?
            .first_chunk()
            .map(|bytes| u64::from_ne_bytes(*bytes))
    }

    fn text_at(&self, address: u64) -> Option<String> {
        const LONGEST: usize = 256;
        // Not beyond the page, which may be the last one.
        let in_page = 4096 - (address % 4096) as usize;
        let bytes = self.bytes_at(address, in_page.min(LONGEST))?;
        let text = bytes.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    }

    fn bytes_at(&self, address: u64, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        let there = RemoteIoVec { base: usize::try_from(address).ok()?, len: count };
        let read = process_vm_readv(self.thread, &mut [IoSliceMut::new(&mut bytes)], &[there]);
        bytes.truncate(read.ok()?);
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: c_long, arguments: [u64; 6]) -> Call {
        Call { thread: Pid::this(), number, arguments }
    }

    #[test]
    fn only_what_can_change_the_host_counts() {
        let path = c"/run/x".as_ptr() as u64;
        let open = |flags: i32| call(libc::SYS_openat, [0, path, flags as u64, 0, 0, 0]);
        assert!(open(libc::O_WRONLY | libc::O_CREAT).changes_host());
        assert!(!open(libc::O_RDONLY).changes_host());
        assert_eq!(open(0).shown(), "openat /run/x");
        assert!(call(libc::SYS_bpf, [28, 0, 0, 0, 0, 0]).changes_host());
        assert!(!call(libc::SYS_bpf, [1, 0, 0, 0, 0, 0]).changes_host());
        assert!(!call(libc::SYS_read, [0; 6]).changes_host());
    }

    #[test]
    fn only_files_are_written_to() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = |descriptor: i32| call(libc::SYS_write, [descriptor as u64, 0, 0, 0, 0, 0]);
        use std::os::fd::AsRawFd as _;
        assert!(write(file.as_file().as_raw_fd()).changes_host());
        let (pipe, _other) = nix::unistd::pipe().unwrap();
        assert!(!write(pipe.as_raw_fd()).changes_host());
        assert!(!call(libc::SYS_sendto, [pipe.as_raw_fd() as u64, 0, 0, 0, 0, 0]).changes_host());
    }

    #[test]
    fn the_path_of_a_pin_is_told() {
        let path = c"/sys/fs/bpf/x".as_ptr() as u64;
        let attribute = [path, 0];
        let pin = call(libc::SYS_bpf, [6, attribute.as_ptr() as u64, 16, 0, 0, 0]);
        assert_eq!(pin.shown(), "bpf OBJ_PIN /sys/fs/bpf/x");
        assert_eq!(pin.makes(), None);
        assert_eq!(call(libc::SYS_bpf, [5, 0, 0, 0, 0, 0]).makes(), Some(bpf::Kind::Program));
    }
}
