//! Sources of what paths carry: services that are asked now and then over HTTP, and
//! the flows themselves.
//! None of them can hold the agent up or end it: whatever one answers, or does
//! not, is counted and named, and the last good values hold until they are old.

mod archive;
mod cache;
mod document;
mod doubts;
mod error;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod passive;
mod poll;
mod probe;
mod prometheus;
mod pscheduler;
mod store;
mod targets;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use cache::Cache;
pub use doubts::{CLOCKS_DIFFER_SECONDS, Doubt, Doubts};
pub use error::{ErrorKind, SourceError};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
pub use passive::{Passive, Shown};
pub use poll::Polling;
pub use store::{Findings, Found, Health, Refused, Store, seconds_since_1970};
pub use targets::Targets;
use wad_policy::config::Metric;
use wad_probing::pscheduler::number;

#[cfg(feature = "fuzz")]
pub use self::{
    archive::fuzz as fuzz_archive, document::fuzz as fuzz_document, probe::fuzz as fuzz_probe,
    prometheus::fuzz as fuzz_prometheus, pscheduler::fuzz as fuzz_pscheduler,
};

/// A value that a source gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// bit/s, seconds, or a fraction.
    pub value: f64,
    /// When it was measured, since 1970.
    pub measured_at_seconds: f64,
    /// The value is what something else than the path let through: the path may carry more.
    pub is_least: bool,
}

/// An answer holds what one poll found, and what was wrong with the rest.
#[derive(Debug, Default)]
pub struct Answer {
    pub readings: Vec<Reading>,
    pub errors: Vec<SourceError>,
}

/// A value of a path, which is known by its place among the targets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    pub target: usize,
    pub metric: Metric,
    pub sample: Sample,
}

/// Questions about so many paths are under way at a time: a server that keeps silent about
/// many is waited for in time, and one that answers is not flooded.
const PATHS_AT_ONCE: usize = 16;

/// Asks, some at a time. An error is one that all others would meet, too: it ends them.
async fn side_by_side<T>(
    asked: Vec<impl Future<Output = Result<T, SourceError>>>,
) -> Result<Vec<T>, SourceError> {
    stream::iter(asked).buffered(PATHS_AT_ONCE).try_collect().await
}
