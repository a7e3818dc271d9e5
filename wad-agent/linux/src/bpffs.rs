//! The BPF file system, on which everything is pinned.

use nix::sys::statfs::{BPF_FS_MAGIC, statfs};

/// The BPF file system belongs here.
pub const BPFFS: &str = "/sys/fs/bpf";

/// Whether it is mounted where it belongs.
pub fn is_mounted() -> bool {
    statfs(BPFFS).is_ok_and(|filesystem| filesystem.filesystem_type() == BPF_FS_MAGIC)
}
