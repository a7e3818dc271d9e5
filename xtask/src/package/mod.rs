//! `cargo xtask package` builds packages for Debian and for distributions that take RPM:
//! the static binary, the unit for systemd, manual pages, completions, examples. One
//! description makes both. The same commit gives the same bytes.

mod check;
mod contents;
mod host;
mod nfpm;

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{
    dist, exec,
    setup::{self, For},
    source::{Source, VERSION},
};
use contents::Beside;

/// The kinds of packages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Deb,
    Rpm,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Deb, Self::Rpm];

    /// Returns the name, which packages end with.
    const fn name(self) -> &'static str {
        match self {
            Self::Deb => "deb",
            Self::Rpm => "rpm",
        }
    }
}

/// Builds the packages for the named machines, or for all.
pub fn run(machines: &[String]) -> Result<()> {
    setup::run(For::Shipping)?;
    for package in build(machines)? {
        println!("{}", package.path.display());
    }
    Ok(())
}

pub use check::run as check;

/// A package that is built.
pub struct Built {
    kind: Kind,
    target: &'static str,
    pub path: PathBuf,
}

/// Builds the packages.
pub fn build(machines: &[String]) -> Result<Vec<Built>> {
    let source = Source::read()?;
    let share = dist::share()?;
    let into = exec::target().join("dist");
    let mut packages = Vec::new();
    for target in dist::targets(machines) {
        let wad = dist::ship(target)?;
        let beside = Beside::of(target, &share)?;
        for kind in Kind::ALL {
            let package = Package { kind, target, version: VERSION, wad: &wad };
            packages.push(Built { kind, target, path: package.build(&source, &beside, &into)? });
        }
    }
    Ok(packages)
}

/// One package.
struct Package<'a> {
    kind: Kind,
    target: &'static str,
    version: &'a str,
    /// The program.
    wad: &'a Path,
}

impl Package<'_> {
    /// Builds it in a folder, and returns where it is.
    fn build(&self, source: &Source, beside: &Beside, into: &Path) -> Result<PathBuf> {
        let nfpm = nfpm::ensure()?;
        let folder = tempfile::tempdir()?;
        let description = contents::describe(self, source, beside, folder.path())?;
        let package = into.join(self.file());
        nfpm::run(&nfpm, self.kind, &description, &package, source)?;
        Ok(package)
    }

    /// Returns its name by the customs of its distributions.
    fn file(&self) -> String {
        let Self { kind, target, version, .. } = *self;
        match kind {
            Kind::Deb => format!("wad_{version}-1_{}.deb", self.machine()),
            Kind::Rpm => format!("wad-{version}-1.{}.rpm", dist::arch(target)),
        }
    }

    /// Returns the machine's name, as Debian has it.
    fn machine(&self) -> &'static str {
        match dist::arch(self.target) {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_book_installs_this_version() {
        let page = fs::read_to_string(exec::root().join("docs/src/install.md")).unwrap();
        let target = setup::target_of("x86_64").unwrap();
        for kind in Kind::ALL {
            let package = Package { kind, target, version: VERSION, wad: Path::new("wad") };
            let name = package.file();
            assert!(page.contains(&format!(" install ./{name}")), "{name}");
        }
    }
}
