//! A commit gives the same bytes wherever it is built: it is built once more, from a clone
//! in another folder, and what comes of it is compared.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{exec, source::Source, tree::sha256};

/// Runs a command of xtask's in a clone of this commit, and holds these files, in the
/// folder for what is built, against those there.
pub fn compare(arguments: &[&str], files: &[PathBuf]) -> Result<()> {
    let source = Source::read()?;
    let commit = match source.revision {
        Some(commit) if !commit.ends_with("-dirty") => commit,
        _ => bail!("only a commit can be built twice: there is none, or files differ from it"),
    };
    let folder = tempfile::Builder::new().prefix("again-").tempdir_in(exec::target())?;
    let clone = folder.path().join("wad");
    xtask_of(&commit, &clone, arguments)?;
    for file in files {
        let path = file.strip_prefix(exec::target()).unwrap_or(file);
        let (here, there) = (digest(file)?, digest(&clone.join("target").join(path))?);
        ensure!(here == there, "{}: is {here}, and from a clone {there}", file.display());
        println!("{here} twice: {}", file.display());
    }
    Ok(())
}

/// Runs a command of xtask's in a clone of a commit, which is made there.
pub fn xtask_of(commit: &str, clone: &Path, arguments: &[&str]) -> Result<()> {
    let mut git = Command::new("git");
    git.args(["clone", "--quiet", "--shared", "--no-checkout"]).arg(exec::root()).arg(clone);
    exec::prepare(&mut git)?;
    let checkout = ["checkout", "--quiet", "--detach", commit];
    exec::prepare(Command::new("git").arg("-C").arg(clone).args(checkout))
        .with_context(|| format!("the clone has no commit {commit}: get all of its history"))?;
    eprintln!("building {commit} in {}", clone.display());
    exec::prepare(
        exec::cargo(["run", "--quiet", "--locked", "--package", "xtask", "--"])
            .args(arguments)
            .current_dir(clone)
            .env("CARGO_TARGET_DIR", clone.join("target")),
    )
}

fn digest(file: &Path) -> Result<String> {
    Ok(sha256(&fs::read(file).with_context(|| file.display().to_string())?))
}
