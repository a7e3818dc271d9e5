//! Traces: chosen instruments of chosen flows, read at a steady beat and written to a
//! file, as the tracer daemon of the Net100 papers did.
//!
//! A file begins with a line that says what it holds, and has one line for each flow
//! and reading, in the order of time. As JSON:
//!
//! ```text
//! {"wad_trace":1,"version":"0.1.0","host":"dtn1","started":"2026-11-21T22:16:00Z",
//!  "interval_ms":100,"instruments":[{"name":"CurCwnd","unit":"octets"}]}
//! {"time":"2026-11-21T22:16:00.1Z","cookie":7,"netns":4026531840,"path":"tokyo",
//!  "local":"192.0.2.1:40716","remote":"203.0.113.5:443","congestion":"wad_aimd",
//!  "instruments":{"CurCwnd":14480}}
//! ```
//!
//! As CSV the first line names the columns: `time,cookie,netns,path,local,remote,`
//! `congestion`, and the instruments with their units, as `CurCwnd (octets)`. What has
//! no value is `null`, or empty. Packed, it is any number of frames of zstd, each of
//! whole lines.

mod columns;
mod counts;
pub mod files;
mod news;
pub mod read;
mod row;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tracer;
pub mod writer;

pub use self::{
    columns::{Columns, USUAL, is_standard},
    counts::{Counts, WriteOutcome},
    news::{News, Voice},
    row::{Format, Head, Row, VERSION},
    tracer::{Ended, Form, Tracer},
};
