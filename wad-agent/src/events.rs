//! Events of flows, from the bytes in the ring buffer to lines of the log.

mod budget;
mod record;
mod summary;

pub use self::{record::parse, summary::Summaries};

#[cfg(test)]
pub use self::summary::testing;
