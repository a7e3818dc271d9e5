//! The program's own tables are the source of pages of the book, and of what is installed
//! beside the program: an example of its crate writes both.

use std::{path::Path, process::Command};

use anyhow::Result;

use crate::exec;

/// Builds what writes them, and the `wad` that judges the book's examples: with the features
/// that the tests of the workspace have built them with already.
pub fn build() -> Result<()> {
    let targets = ["--bin", "wad", "--example", "reference", "--features", "wad-commands/share"];
    exec::prepare(exec::cargo(["build", "--quiet", "--locked", "--workspace"]).args(targets))
}

/// Writes the `pages`, or the `share`, into a folder.
pub fn write(what: &str, folder: &Path) -> Result<()> {
    let program = exec::target().join("debug/examples/reference");
    exec::prepare(Command::new(program).arg(what).arg(folder))
}
