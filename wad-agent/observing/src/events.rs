//! Events of flows: from the bytes in the ring buffer to lines of the log, and to
//! records for whoever keeps them.

mod budget;
pub mod experiment;
pub mod guard;
pub mod record;
mod shown;
mod summary;
mod values;

pub use self::{
    record::{Ends, Record, Teller},
    summary::Summaries,
    values::{records, unwanted},
};
