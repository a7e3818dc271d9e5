//! The BPF file system, on which everything is pinned.

use std::{fs, io, path::Path};

use nix::{
    mount::{MsFlags, mount},
    sys::statfs::{BPF_FS_MAGIC, statfs},
};
use thiserror::Error;

use crate::{
    bpf::BPFFS,
    journal::{Change, Journal, JournalError},
};

/// Why there is no BPF file system.
#[derive(Debug, Error)]
pub enum BpffsError {
    #[error("{BPFFS} is not there; is sysfs mounted at /sys?")]
    NoMountPoint(#[source] io::Error),
    #[error("cannot mount the BPF file system at {BPFFS}: {0}")]
    Mount(#[source] io::Error),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Whether it is mounted where it belongs.
pub fn is_mounted() -> bool {
    statfs(BPFFS).is_ok_and(|filesystem| filesystem.filesystem_type() == BPF_FS_MAGIC)
}

/// Mounts it where it belongs, as bpftool does, if nobody has.
pub fn ensure(journal: &mut Journal) -> Result<(), BpffsError> {
    if is_mounted() {
        return Ok(());
    }
    fs::metadata(BPFFS).map_err(BpffsError::NoMountPoint)?;
    journal.record(Change::BpffsMount { dir: BPFFS.into() })?;
    mount(Some("bpf"), Path::new(BPFFS), Some("bpf"), MsFlags::empty(), Some("mode=0700"))
        .map_err(|error| BpffsError::Mount(error.into()))
}
