//! Reads what the flows of the paths tell of them, by an iterator over the flows'
//! state: of all network namespaces, and of no socket that is not ours.

use std::os::fd::{AsFd as _, OwnedFd};

use wad_common::{instruments::Members, progress::Progress};
use wad_struct_ops::KernelBtf;

use super::{Pins, Result, TuningError, records, running};

/// The iterator, ready to be run.
pub struct ProgressReader {
    link: OwnedFd,
}

impl ProgressReader {
    /// Loads the iterator.
    pub fn load(pins: &Pins, cgroup_id: u64) -> Result<Self> {
        let btf = KernelBtf::read()?;
        let link = running::link_flows(pins, &btf, cgroup_id, ("wad_progress", &Members::NONE))?;
        Ok(Self { link })
    }

    /// All flows that can send still, as they are now.
    pub fn read(&self) -> Result<Vec<Progress>> {
        let output = running::read(self.link.as_fd()).map_err(TuningError::Running)?;
        Ok(records::all(&output).collect())
    }
}
