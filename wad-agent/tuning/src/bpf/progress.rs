//! Reads what the flows of the paths have measured.

use std::collections::HashMap;

use wad_common::{instruments::Members, progress::Progress};

use super::{
    Result,
    programs::{Loader, PROGRESS},
    records,
    scan::Scan,
};

/// The scan, ready to be run.
pub struct ProgressReader(Scan);

impl ProgressReader {
    /// Loads the scan.
    pub fn load(loader: Loader<'_>) -> Result<Self> {
        Scan::load(loader, &PROGRESS, size_of::<Progress>(), &Members::NONE).map(Self)
    }

    /// All flows that can send still, as they are now.
    pub fn read(&self) -> Result<Vec<Progress>> {
        let mut all: Vec<Progress> = Vec::new();
        // What arrived at most begins anew with each run, also with one that was too short of
        // room.
        let mut arrived: HashMap<u64, u64> = HashMap::new();
        self.0.each(|records, is_whole| {
            if is_whole {
                all = records::all(records).collect();
            } else {
                for flow in records::all::<Progress>(records) {
                    let most = arrived.entry(flow.cookie).or_default();
                    *most = flow.arrived_bytes_per_second.max(*most);
                }
            }
        })?;
        for flow in &mut all {
            let before = arrived.get(&flow.cookie).copied().unwrap_or(0);
            flow.arrived_bytes_per_second = flow.arrived_bytes_per_second.max(before);
        }
        Ok(all)
    }
}
