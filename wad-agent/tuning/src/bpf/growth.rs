//! Buffers that grow with need, and shrink where memory is short: reads what flows hold
//! and want, and visits the sockets of the network namespaces that have to do with it.

use std::{
    collections::HashSet,
    os::fd::{AsFd as _, OwnedFd},
    sync::Mutex,
};

use tracing::warn;
use wad_common::{growth::Holding, instruments::Members};
use wad_linux::netns::{self, Skipped, Which};
use wad_struct_ops::KernelBtf;
use wad_toolbox::mutex::locked;

use super::{Pins, Result, TuningError, records, running};

/// The iterators, ready to be run.
pub struct Growth {
    /// One look at a time: each counts who sends, by its number.
    needs: Mutex<OwnedFd>,
    visits: OwnedFd,
}

impl Growth {
    /// Loads the iterators. None, with a warning, where the kernel refuses them.
    pub fn load(pins: &Pins, btf: &KernelBtf, cgroup_id: u64) -> Option<Self> {
        let load = || -> Result<Self> {
            Ok(Self {
                needs: Mutex::new(running::link_flows(
                    pins,
                    btf,
                    cgroup_id,
                    ("wad_needs", &Members::NONE),
                )?),
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
        let output = running::read(locked(&self.needs).as_fd()).map_err(TuningError::Running)?;
        Ok(records::all(&output).collect())
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
