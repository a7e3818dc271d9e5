//! Readings of the flows: every flow of the paths, and what TCP knows of it.

mod filter;
mod filter_error;
mod holder_search;
mod of_cgroup;
mod owner_filter;
mod read;

use std::{
    fmt::{self, Debug},
    sync::Arc,
};

use wad_instruments::Reading;

pub use self::{
    filter::{Filter, Remote, parse_cookie},
    owner_filter::OwnerFilter,
    read::{Instruments, ReadError},
};

/// Takes a reading. It may block for as long as that takes.
#[derive(Clone)]
pub struct Source(Arc<Read>);

type Read = dyn Fn(&Filter) -> Result<Reading, ReadError> + Send + Sync;

impl Source {
    pub fn new(
        read: impl Fn(&Filter) -> Result<Reading, ReadError> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(read))
    }

    pub fn read(&self, filter: &Filter) -> Result<Reading, ReadError> {
        self.0(filter)
    }
}

impl Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}
