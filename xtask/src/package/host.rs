//! The packages live on hosts of their distributions, as far as these can be had here:
//! roots of Debian's releases, under their own systemd. There is no root of a distribution
//! that takes RPM in the archive of Debian; its package is installed by the rpm that
//! Debian has.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use wad_toolchain::tool_folders;

use super::{Built, Kind, Package, contents::Beside};
use crate::{again, dist, exec, installed, programs, setup, source::Source, vm::apt};

/// Debian 12 and 13.
const SUITES: [&str; 2] = ["bookworm", "trixie"];

/// A build to upgrade from, with other programs in the kernel: the first that is held by
/// the unit and tells a restart from a stop.
const EARLIER: &str = "fc9e68b9241a9db11b0ca046f88a91f1f450625b";

/// Its package's version.
const EARLIER_VERSION: &str = "0.0.9";

/// Has those of the packages that are for this machine come, be upgraded to, and go.
pub fn live(packages: &[Built]) -> Result<()> {
    let target = setup::own_target()?;
    let own: Vec<&Built> = packages.iter().filter(|package| package.target == target).collect();
    if own.is_empty() {
        return Ok(());
    }
    ensure!(exec::is_root()?, "run it as root: packages are installed in roots of distributions");
    let (source, beside) = (Source::read()?, Beside::of(target, &dist::share()?)?);
    let wad = earlier()?;
    let tests = programs::end_to_end(target)?;
    for package in own {
        let folder = tempfile::tempdir()?;
        let kind = package.kind;
        let earlier = Package { kind, target, version: EARLIER_VERSION, wad: &wad };
        let earlier = earlier.build(&source, &beside, folder.path())?;
        let name = package.path.file_name().context("a package is a file")?;
        let copy = folder.path().join(name);
        fs::copy(&package.path, &copy).with_context(|| copy.display().to_string())?;
        let suites = if kind == Kind::Deb { &SUITES[..] } else { &SUITES[..1] };
        for suite in suites {
            let mut command = exec::command(&tests);
            command.arg("--distribution").arg(root(suite)?).arg("--earlier").arg(&earlier);
            exec::run(command.arg("--package").arg(&copy))?;
            println!(
                "{}: installed, upgraded, removed and purged in Debian's {suite}",
                package.path.display()
            );
        }
    }
    Ok(())
}

/// Makes sure that the root of a release is there, and returns where.
fn root(suite: &str) -> Result<PathBuf> {
    let folder = tool_folders::folder(exec::root(), &format!("root-{suite}-sudo"));
    let works = |folder: &Path| folder.join("usr/lib/systemd/systemd").is_file();
    installed::ensure(&folder, works, |folder| {
        eprintln!("making a root of Debian's {suite}, once");
        let mut command = Command::new("debootstrap");
        command.args(["--variant=minbase", "--include=systemd,rpm,sudo", suite]).arg(folder);
        exec::prepare(command.arg(apt::mirror()))
    })?;
    Ok(folder)
}

/// Makes sure that the earlier build is there, and returns its program.
fn earlier() -> Result<PathBuf> {
    let machine = dist::arch(setup::own_target()?);
    let folder = tool_folders::folder(exec::root(), &format!("wad-{EARLIER}-{machine}"));
    let program = |folder: &Path| folder.join("wad");
    let works =
        |folder: &Path| exec::output(Command::new(program(folder)).arg("--version")).is_some();
    installed::ensure(&folder, works, |folder| {
        let clone = folder.join("clone");
        again::xtask_of(EARLIER, &clone, &["dist", machine])?;
        let built = clone.join("target/dist").join(machine).join("wad");
        fs::copy(&built, program(folder)).with_context(|| built.display().to_string())?;
        fs::remove_dir_all(&clone).with_context(|| clone.display().to_string())
    })?;
    Ok(program(&folder))
}
