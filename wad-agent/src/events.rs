//! Events of flows: from the bytes in the ring buffer to lines of the log, and to
//! records for whoever keeps them.

mod budget;
mod name;
mod parse;
pub mod record;
mod shown;
mod summary;
mod values;

pub use self::{
    name::EventName,
    parse::parse,
    record::{Ends, Record, Teller},
    summary::Summaries,
    values::records,
};

#[cfg(test)]
pub use self::summary::testing;
