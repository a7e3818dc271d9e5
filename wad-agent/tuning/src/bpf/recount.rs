//! Holds the counts of paths against the flows that there are, and puts right what two
//! walks in succession have found wrong.

use std::{
    fs::File,
    io::{self, Read as _},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use tracing::warn;
use wad_common::instruments::Members;
use wad_struct_ops::{KernelBtf, sys};

use super::{Pins, Result, TuningError, running};

/// The iterators, ready to be run, in their order.
pub struct Recount {
    begins: OwnedFd,
    walk: OwnedFd,
    ends: OwnedFd,
}

impl Recount {
    /// Loads the iterators. None, with a warning, where the kernel refuses them.
    pub fn load(pins: &Pins, btf: &KernelBtf, cgroup_id: u64) -> Option<Self> {
        let load = || -> Result<Self> {
            Ok(Self {
                begins: running::link_paths(pins, btf, cgroup_id, "wad_walk_begins")?,
                walk: running::link_flows(pins, btf, cgroup_id, ("wad_walk", &Members::NONE))?,
                ends: running::link_paths(pins, btf, cgroup_id, "wad_walk_ends")?,
            })
        };
        load()
            .inspect_err(|error| {
                warn!(
                    "flows whose end another program on the cgroup hides are counted for ever: \
                     {error:#}"
                );
            })
            .ok()
    }

    /// Walks over all flows. Whether the walk was whole: of more than a million flows it is
    /// not, and nothing comes of it.
    pub fn walk(&self) -> Result<bool> {
        let walks =
            || Ok(run(self.begins.as_fd())? && run(self.walk.as_fd())? && run(self.ends.as_fd())?);
        walks().map_err(TuningError::Running)
    }
}

/// Runs an iterator that says nothing, in one go. Whether it came to its end, which the
/// kernel puts off after a million objects (`bpf_seq_read()`).
fn run(link: BorrowedFd<'_>) -> io::Result<bool> {
    match File::from(sys::create_iterator(link)?).read(&mut [0; 8]) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}
