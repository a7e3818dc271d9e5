//! Reads how the flows of the paths get on.

use wad_common::{health::Health, instruments::Members};

use super::{
    Result,
    programs::{HEALTH, Loader},
    scan::Scan,
};

/// The scan, ready to be run.
pub struct HealthReader(Scan);

impl HealthReader {
    /// Loads the scan.
    pub fn load(loader: Loader<'_>) -> Result<Self> {
        Scan::load(loader, &HEALTH, size_of::<Health>(), &Members::NONE).map(Self)
    }

    /// All flows that can send still, as they are now.
    pub fn read(&self) -> Result<Vec<Health>> {
        self.0.records()
    }
}
