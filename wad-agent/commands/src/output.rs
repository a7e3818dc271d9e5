//! Commands print on standard output. Whoever reads only the head of it, as `head`
//! does, has seen enough.

use std::{
    fmt::Display,
    io::{self, Write},
};

use anyhow::{Context as _, Result};
use serde::Serialize;
use wad_toolbox::document::Document;

/// Prints a text as it is.
pub fn print(text: impl Display) -> Result<()> {
    print_by(|out| write!(out, "{text}"))
}

/// Prints it for other programs, indented, with the version of its form before it.
pub fn print_json(told: &impl Serialize) -> Result<()> {
    print_by(|out| {
        serde_json::to_writer_pretty(&mut *out, &Document::new(told))?;
        writeln!(out)
    })
}

/// Prints what this writes.
pub fn print_by(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}
