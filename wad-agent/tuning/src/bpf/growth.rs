//! Buffers that grow with need, and shrink where memory is short: reads what flows hold
//! and want, and visits the sockets of the network namespaces that have to do with it.

use std::{
    collections::HashSet,
    os::fd::{AsFd as _, OwnedFd},
};

use tracing::warn;
use wad_common::{growth::Holding, instruments::Members};
use wad_linux::netns;
use wad_struct_ops::KernelBtf;

use super::{Pins, Result, TuningError, running};

/// The iterators, ready to be run.
pub struct Growth {
    needs: OwnedFd,
    visits: OwnedFd,
}

impl Growth {
    /// Loads the iterators. None, with a warning, where the kernel refuses them.
    pub fn load(pins: &Pins, btf: &KernelBtf, cgroup_id: u64) -> Option<Self> {
        let load = || -> Result<Self> {
            Ok(Self {
                needs: running::link_flows(pins, btf, cgroup_id, ("wad_needs", &Members::NONE))?,
                visits: running::link_sockets(pins, btf, cgroup_id, "wad_growing")?,
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
        let output = running::read(self.needs.as_fd()).map_err(TuningError::Running)?;
        let records = output.chunks_exact(size_of::<Holding>());
        // SAFETY: there are as many bytes as a record has, all values of them are
        // records (integers only, see `record!` of wad-common), and the read asks
        // for no alignment.
        Ok(records
            .map(|bytes| unsafe { bytes.as_ptr().cast::<Holding>().read_unaligned() })
            .collect())
    }

    /// Visits the sockets of these network namespaces, as far as they can be entered.
    pub fn visit(&self, inodes: &HashSet<u64>) -> Result<()> {
        let namespaces = netns::of_inodes(inodes).map_err(TuningError::Namespaces)?;
        let own = netns::own_inode().map_err(TuningError::Namespaces)?;
        let visit = || running::read(self.visits.as_fd());
        // Its own needs no entering, for which there may be no privilege.
        if inodes.contains(&own) {
            visit().map_err(TuningError::Running)?;
        }
        let others: Vec<_> = namespaces.into_iter().filter(|it| !it.is(own)).collect();
        if others.is_empty() {
            return Ok(());
        }
        // One that cannot be entered keeps what the kernel gives.
        for visited in netns::in_each(&others, visit).into_iter().flatten() {
            visited.map_err(TuningError::Running)?;
        }
        Ok(())
    }
}
