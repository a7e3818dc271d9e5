//! JSON for other programs, on standard output.

use std::io::{self, Write as _};

use anyhow::Result;
use serde::Serialize;

/// Prints it, indented.
pub fn print(value: &impl Serialize) -> Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)?;
    Ok(writeln!(out)?)
}
