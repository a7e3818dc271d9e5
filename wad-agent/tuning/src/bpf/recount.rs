//! Holds the counts of paths against the flows that there are, and puts right what two
//! walks in succession have found wrong.

use wad_common::instruments::Members;

use super::{
    Result,
    programs::{Loader, WALK, WALK_BEGINS, WALK_ENDS},
    scan::Scan,
};

/// The scans, ready to be run, in their order: they give no records.
pub struct Recount([Scan; 3]);

impl Recount {
    /// Loads the scans.
    pub fn load(loader: Loader<'_>) -> Result<Self> {
        let load = |program| Scan::load(loader, program, 0, &Members::NONE);
        Ok(Self([load(&WALK_BEGINS)?, load(&WALK)?, load(&WALK_ENDS)?]))
    }

    /// Walks over all flows.
    pub fn walk(&self) -> Result<()> {
        self.0.iter().try_for_each(Scan::run)
    }
}
