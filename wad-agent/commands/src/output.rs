//! Commands print on standard output. Whoever reads only the head of it, as `head`
//! does, has seen enough.

use std::{
    env,
    fmt::Display,
    io::{self, IsTerminal as _, Write},
};

use anyhow::{Context as _, Result};
use serde::Serialize;
use wad_toolbox::document::Document;

/// Prints a text, with colour where the terminal takes it.
pub fn print(text: impl Display) -> Result<()> {
    print_by(|out| write(out, text))
}

/// Writes a text to standard output, with colour where the terminal takes it.
pub fn write(out: &mut dyn Write, text: impl Display) -> io::Result<()> {
    if has_colour() { write!(out, "{text:#}") } else { write!(out, "{text}") }
}

/// Whether standard output is a terminal that takes colour, and its user does (no-color.org).
fn has_colour() -> bool {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal()
        && !is_set("NO_COLOR")
        && env::var_os("TERM").is_some_and(|term| term != "dumb")
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
