//! Buffers that grow with need, and shrink where memory is short: reads what flows hold
//! and want, and visits the sockets of the network namespaces that have to do with it.

use std::{
    collections::HashSet,
    os::fd::{AsFd as _, OwnedFd},
};

use wad_common::{growth::Holding, instruments::Members};
use wad_linux::netns::{self, Skipped, Which};

use super::{
    Result, TuningError, iterators,
    programs::{GROWING, Loader, NEEDS, Refusals},
    scan::Scan,
};

/// The scan and the iterator, ready to be run.
pub struct Growth {
    needs: Scan,
    /// None where the kernel refuses it.
    visits: Option<OwnedFd>,
}

impl Growth {
    /// Loads them. None where the kernel refuses the scan.
    pub fn load(loader: Loader<'_>, refusals: &Refusals) -> Option<Self> {
        let needs = Scan::load(loader, &NEEDS, size_of::<Holding>(), &Members::NONE);
        let needs = refusals.note(&NEEDS, needs)?;
        let visits = loader.load(&GROWING).and_then(|program| iterators::link(&program));
        Some(Self { needs, visits: refusals.note(&GROWING, visits) })
    }

    /// Returns what the tuned flows hold and want.
    pub fn holdings(&self) -> Result<Vec<Holding>> {
        self.needs.records()
    }

    /// Visits the sockets of these network namespaces, as far as they can be entered: one
    /// that cannot keeps what the kernel gives.
    pub fn visit(&self, inodes: &HashSet<u64>) -> Result<Skipped> {
        let Some(visits) = &self.visits else { return Ok(Skipped::default()) };
        let mut result = Ok(());
        let visit = || iterators::and_go_on(iterators::read(visits.as_fd()), &mut result);
        let skipped = netns::in_each(Which::These(inodes), visit);
        let skipped = skipped.map_err(TuningError::Namespaces)?;
        result.map_err(TuningError::Running)?;
        Ok(skipped)
    }
}
