//! Holds the counts of paths against the flows that there are, and puts right what two
//! walks in succession have found wrong.

use tracing::warn;
use wad_common::instruments::Members;
use wad_struct_ops::KernelBtf;

use super::{
    Pins, Result,
    scan::{Scan, ScanOf},
};

/// The scans of a walk, in their order: they give no records.
const SCANS: [&str; 3] = ["wad_walk_begins", "wad_walk", "wad_walk_ends"];

/// The scans, ready to be run.
pub struct Recount([Scan; 3]);

impl Recount {
    /// Loads the scans. None, with a warning, where the kernel refuses them.
    pub fn load(pins: &Pins, btf: &KernelBtf) -> Option<Self> {
        let load =
            |name| Scan::load(pins, btf, ScanOf { name, record_bytes: 0, members: &Members::NONE });
        let load_all = || -> Result<Self> {
            let [begins, walk, ends] = SCANS.map(load);
            Ok(Self([begins?, walk?, ends?]))
        };
        load_all()
            .inspect_err(|error| {
                warn!(
                    "flows whose end another program on the cgroup hides are counted for ever: \
                     {error:#}"
                );
            })
            .ok()
    }

    /// Walks over all flows.
    pub fn walk(&self) -> Result<()> {
        self.0.iter().try_for_each(Scan::run)
    }
}
