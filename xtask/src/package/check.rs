//! `cargo xtask package --check`: the packages as the distributions' own programs see
//! them: what is noticed of them, and how they live on a host.

use std::{path::Path, process::Command};

use anyhow::{Result, ensure};

use super::{build, host};
use crate::{
    exec,
    setup::{self, For},
};

/// Checks the packages for the named machines, or for all.
pub fn run(machines: &[String]) -> Result<()> {
    setup::run(For::Packages)?;
    let packages = build(machines)?;
    for package in &packages {
        lint(&package.path)?;
        println!("{}: nothing is noticed of it", package.path.display());
    }
    host::live(&packages)
}

/// Has a package looked at: whatever is noticed is to be mended, or to be in the list of
/// what is meant, with its reason.
fn lint(package: &Path) -> Result<()> {
    let mut command = if package.extension().is_some_and(|ending| ending == "deb") {
        let mut command = Command::new("lintian");
        command.args(["--no-cfg", "--allow-root", "--fail-on", "error,warning"]);
        command
    } else {
        let mut command = Command::new("rpmlint");
        command.arg("--strict").arg("--config");
        command.arg(exec::root().join("config/packages/rpm/rpmlint.toml"));
        command
    };
    let output = command.arg(package).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}:\n{said}", package.display());
    Ok(())
}
