//! Reads how the flows of the paths get on.

use wad_common::{health::Health, instruments::Members};
use wad_struct_ops::KernelBtf;

use super::{
    Pins, Result,
    scan::{Scan, ScanOf},
};

/// The scan, ready to be run.
pub struct HealthReader(Scan);

impl HealthReader {
    /// Loads the scan.
    pub fn load(pins: &Pins) -> Result<Self> {
        let record_bytes = size_of::<Health>();
        let of = ScanOf { name: "wad_health", record_bytes, members: &Members::NONE };
        Scan::load(pins, &KernelBtf::read()?, of).map(Self)
    }

    /// All flows that can send still, as they are now.
    pub fn read(&self) -> Result<Vec<Health>> {
        self.0.records()
    }
}
