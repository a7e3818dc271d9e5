//! Developer commands run programs that cargo installs, each of one version; this module
//! installs them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use wad_toolchain::tool_folders;

use crate::{exec, installed};

/// A program that cargo installs.
pub struct Tool {
    /// The package, and its program.
    pub name: &'static str,
    pub version: &'static str,
    /// Arguments of `cargo install`.
    pub options: &'static [&'static str],
}

/// cargo-deny checks licences, duplicates and sources of dependencies.
pub const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2", options: &[] };

/// mdBook builds the book, without the server that shows it while it is written, and
/// without search.
pub const MDBOOK: Tool =
    Tool { name: "mdbook", version: "0.5.4", options: &["--no-default-features"] };

/// Settings of a build that is soon over: these programs run for seconds, and building
/// them optimised takes minutes.
const CHEAP: [(&str, &str); 6] = [
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "256"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "false"),
    ("CARGO_PROFILE_RELEASE_INCREMENTAL", "false"),
    ("CARGO_PROFILE_RELEASE_STRIP", "true"),
];

impl Tool {
    /// Makes sure that the program is there, and returns where.
    pub fn ensure(&self) -> Result<PathBuf> {
        let folder = tool_folders::folder(exec::root(), &format!("{}-{}", self.name, self.version));
        self.ensure_in(&folder, |cargo, _| {
            cargo.args(self.options).envs(CHEAP);
            Ok(())
        })
    }

    /// Makes sure that the program is in the folder, and returns where. `prepare` may
    /// add to the command that installs it to the folder that it is given.
    pub fn ensure_in(
        &self,
        folder: &Path,
        prepare: impl FnOnce(&mut Command, &Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let program = |folder: &Path| folder.join("bin").join(self.name);
        let works = |folder: &Path| {
            exec::output(Command::new(program(folder)).arg("--version"))
                .is_some_and(|printed| printed.contains(self.version))
        };
        installed::ensure(folder, works, |folder| {
            eprintln!("building {} {}, once for this version", self.name, self.version);
            let built = folder.join("build");
            let mut cargo = exec::cargo(["install", self.name, "--quiet", "--locked"]);
            cargo
                .args(["--version", self.version, "--root"])
                .arg(folder)
                // Not the one of this cargo, nor one for all users.
                .arg("--target-dir")
                .arg(&built)
                .env_remove("CARGO_BUILD_TARGET")
                .env_remove("CARGO_ENCODED_RUSTFLAGS")
                .env_remove("RUSTFLAGS");
            prepare(&mut cargo, folder)?;
            exec::prepare(&mut cargo)?;
            fs::remove_dir_all(&built).with_context(|| built.display().to_string())
        })?;
        Ok(program(folder))
    }
}
