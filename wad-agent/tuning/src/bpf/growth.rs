//! Buffers that grow with need, and shrink where memory is short: reads what flows hold
//! and want, and visits the sockets of the network namespaces that have to do with it.

use std::{
    collections::HashSet,
    os::fd::{AsFd as _, OwnedFd},
};

use tracing::warn;
use wad_common::{growth::Holding, instruments::Members};
use wad_linux::netns::{self, Skipped, Which};
use wad_struct_ops::KernelBtf;

use super::{
    Pins, Result, TuningError, running,
    scan::{Scan, ScanOf},
};

/// The scan and the iterator, ready to be run.
pub struct Growth {
    needs: Scan,
    visits: OwnedFd,
}

impl Growth {
    /// Loads them. None, with a warning, where the kernel refuses them.
    pub fn load(pins: &Pins, btf: &KernelBtf, cgroup_id: u64) -> Option<Self> {
        let record_bytes = size_of::<Holding>();
        let needs = ScanOf { name: "wad_needs", record_bytes, members: &Members::NONE };
        let load = || -> Result<Self> {
            Ok(Self {
                needs: Scan::load(pins, btf, needs)?,
                visits: running::link_sockets(
                    pins,
                    btf,
                    cgroup_id,
                    ("wad_growing", &Members::NONE),
                )?,
            })
        };
        load()
            .inspect_err(|error| {
                warn!(
                    "buffers with \"auto\" stay as the kernel sizes them, but for send buffers \
                     under wad's own laws: {error:#}"
                );
            })
            .ok()
    }

    /// Returns what the tuned flows hold and want.
    pub fn holdings(&self) -> Result<Vec<Holding>> {
        self.needs.records()
    }

    /// Visits the sockets of these network namespaces, as far as they can be entered: one
    /// that cannot keeps what the kernel gives.
    pub fn visit(&self, inodes: &HashSet<u64>) -> Result<Skipped> {
        let mut result = Ok(());
        let visit = || running::and_go_on(running::read(self.visits.as_fd()), &mut result);
        let skipped = netns::in_each(Which::These(inodes), visit);
        let skipped = skipped.map_err(TuningError::Namespaces)?;
        result.map_err(TuningError::Running)?;
        Ok(skipped)
    }
}
