//! Reads how the flows of the paths get on, by an iterator over the flows' state: of all network
//! namespaces, and of no socket that is not ours.

use std::os::fd::{AsFd as _, OwnedFd};

use wad_common::{health::Health, instruments::Members};
use wad_struct_ops::KernelBtf;

use super::{Pins, Result, TuningError, records, running};

/// The iterator, ready to be run.
pub struct HealthReader {
    link: OwnedFd,
}

impl HealthReader {
    /// Loads the iterator.
    pub fn load(pins: &Pins, cgroup_id: u64) -> Result<Self> {
        let btf = KernelBtf::read()?;
        let link = running::link_flows(pins, &btf, cgroup_id, ("wad_health", &Members::NONE))?;
        Ok(Self { link })
    }

    /// All flows that can send still, as they are now.
    pub fn read(&self) -> Result<Vec<Health>> {
        let output = running::read(self.link.as_fd()).map_err(TuningError::Running)?;
        Ok(records::all(&output).collect())
    }
}
