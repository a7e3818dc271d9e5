//! Packages of Debian's suites, whatever suite this machine has: found and
//! fetched by apt, which checks their signatures, with lists and a cache of its
//! own, so that nothing of the machine's own apt is touched.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::exec;

/// This mirror serves where there is none configured.
const MIRROR: &str = "http://deb.debian.org/debian";

/// Holds what apt knows of one suite.
pub struct Suite {
    name: &'static str,
    folder: PathBuf,
    mirror: String,
}

impl Suite {
    /// Fetches its lists, or what is new in them, into `folder`.
    pub fn open(name: &'static str, folder: PathBuf) -> Result<Self> {
        for part in ["state/lists/partial", "cache/archives/partial"] {
            let path = folder.join(part);
            fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        }
        let suite = Self { name, folder, mirror: mirror() };
        let sources = suite.folder.join("sources.list");
        let line = format!("deb {} {name} main\n", suite.mirror);
        fs::write(&sources, line).with_context(|| sources.display().to_string())?;
        exec::prepare(suite.apt("apt-get").args([
            "-qq",
            "-o",
            "APT::Update::Error-Mode=any",
            "update",
        ]))
        .with_context(|| format!("cannot get {}", suite.place()))?;
        Ok(suite)
    }

    /// Returns the fields of the newest version of a package, as Debian writes them.
    pub fn show(&self, package: &str) -> Result<String> {
        exec::output(self.apt("apt-cache").args(["show", "--no-all-versions", package]))
            .with_context(|| format!("{} has no package {package}", self.place()))
    }

    /// Fetches packages into a folder.
    pub fn download(&self, packages: &[String], into: &Path) -> Result<()> {
        exec::prepare(
            self.apt("apt-get").args(["-qq", "download"]).args(packages).current_dir(into),
        )
        .with_context(|| format!("cannot get {} from {}", packages.join(", "), self.place()))
    }

    fn place(&self) -> String {
        format!("Debian's suite {} at {}", self.name, self.mirror)
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for (option, path) in [
            ("Dir::Etc::SourceList", "sources.list"),
            ("Dir::Etc::SourceParts", "none"),
            ("Dir::State", "state"),
            ("Dir::State::Status", "none"),
            ("Dir::Cache", "cache"),
        ] {
            command.arg("-o").arg(format!("{option}={}", self.folder.join(path).display()));
        }
        // As this user, whose folders they are, and no more than the packages.
        for option in [
            "APT::Sandbox::User=root",
            "APT::Architecture=amd64",
            "APT::Architectures=amd64",
            "Acquire::Languages=none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
            "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false",
        ] {
            command.args(["-o", option]);
        }
        command
    }
}

/// Returns the mirror that this machine has been told to use for Debian's packages.
pub fn mirror() -> String {
    let uris = exec::output(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(REPO_URI)",
        "Created-By: Packages",
    ]));
    let uris = uris.unwrap_or_default();
    debian_among(&uris).unwrap_or(MIRROR).to_owned()
}

/// Finds Debian's mirror by the name of the folder: what the suites are called there
/// may be unknown until their lists are fetched.
fn debian_among(uris: &str) -> Option<&str> {
    uris.lines().map(|uri| uri.trim_end_matches('/')).find(|uri| uri.ends_with("/debian"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_the_one_for_debian_itself() {
        let uris = "https://packages.example/apt/\nhttp://mirror.example/debian-security/\n\
                    http://mirror.example/debian/\n";
        assert_eq!(debian_among(uris), Some("http://mirror.example/debian"));
        assert_eq!(debian_among("http://mirror.example/ubuntu/\n"), None);
    }
}
