//! nfpm writes packages of both kinds from one description, without the tools of a
//! distribution. It is a program in Go, built once for its version into the user's cache.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use wad_toolchain::tool_folders;

use super::Kind;
use crate::{exec, go, installed, source::Source};

const VERSION: &str = "2.45.2";
const MODULE: &str = "github.com/goreleaser/nfpm/v2/cmd/nfpm";

/// Makes sure that it is there, and returns where.
pub fn ensure() -> Result<PathBuf> {
    let folder = tool_folders::folder(exec::root(), &format!("nfpm-{VERSION}"));
    let program = |folder: &Path| folder.join("nfpm");
    // Built from a module it does not know its version, which the folder's name has.
    let works =
        |folder: &Path| exec::output(Command::new(program(folder)).arg("--version")).is_some();
    installed::ensure(&folder, works, make)?;
    Ok(program(&folder))
}

fn make(folder: &Path) -> Result<()> {
    let mut go = go::command("nfpm, which writes packages,", "1.25")?;
    eprintln!("building nfpm {VERSION}, once for this version");
    exec::prepare(
        go.args(["install", "-trimpath", "-ldflags=-s -w"])
            .arg(format!("{MODULE}@v{VERSION}"))
            .env("GOBIN", folder),
    )
}

/// Writes a package by a description.
pub fn run(
    nfpm: &Path,
    kind: Kind,
    description: &Path,
    package: &Path,
    source: &Source,
) -> Result<()> {
    exec::prepare(
        Command::new(nfpm)
            .args(["package", "--packager", kind.name(), "--config"])
            .arg(description)
            .arg("--target")
            .arg(package)
            .current_dir(exec::root())
            .env("SOURCE_DATE_EPOCH", source.seconds().to_string()),
    )
}
