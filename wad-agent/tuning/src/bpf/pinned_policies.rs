//! The policies in force are pinned for an agent after this one, which reads the names and
//! indices of paths there: arrays of maps lead to them by numbers only, which takes
//! CAP_SYS_ADMIN.

use std::{
    io,
    path::{Path, PathBuf},
};

use aya::maps::{Array, IterableMap as _, Map, MapData, MapError};
use wad_common::policy::Policy;
use wad_toolbox::whole_file;

use super::{Pins, Result, TuningError};

/// The pins, by the lowest bit of the number of their set.
pub struct PinnedPolicies([PathBuf; 2]);

impl PinnedPolicies {
    pub fn of(pins: &Pins) -> Self {
        Self([pins.policies(0), pins.policies(1)])
    }

    fn path(&self, generation: u64) -> &Path {
        &self.0[(generation & 1) as usize]
    }

    /// Pins the policies of a set, in the place of those that the pin had.
    pub fn pin(&self, generation: u64, policies: &Array<MapData, Policy>) -> Result<()> {
        self.remove(generation).map_err(TuningError::Held)?;
        let path = self.path(generation);
        let pinned = policies.map().pin(path);
        pinned.map_err(|source| TuningError::Pin { path: path.to_owned(), source })
    }

    /// Removes the pin of a set. Returns whether there was one.
    pub fn remove(&self, generation: u64) -> io::Result<bool> {
        whole_file::remove(self.path(generation))
    }

    /// Opens the policies that an agent before this one has left of a set.
    pub fn open(&self, generation: u64) -> Result<Array<MapData, Policy>, MapError> {
        Map::Array(MapData::from_pin(self.path(generation))?).try_into()
    }
}
