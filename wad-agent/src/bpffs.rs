//! The BPF file system, on which everything is pinned.

use std::path::Path;

use nix::sys::statfs::{BPF_FS_MAGIC, statfs};

use crate::{
    bpf::BPFFS,
    journal::{Error, Journal},
};

/// Whether it is mounted where it belongs.
pub fn is_mounted() -> bool {
    statfs(BPFFS).is_ok_and(|filesystem| filesystem.filesystem_type() == BPF_FS_MAGIC)
}

/// Mounts it where it belongs, as bpftool does, if nobody has.
pub fn ensure(journal: &mut Journal) -> Result<(), Error> {
    if is_mounted() { Ok(()) } else { journal.mount_bpffs(Path::new(BPFFS)) }
}
