//! `cargo xtask collector`: a real OpenTelemetry Collector, of one version, scrapes the
//! agent, and is sent the metrics by it; the end-to-end tests look whether anything was
//! dropped. No distribution has the program: it is built from Go modules, once, into the
//! user's cache.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use wad_toolchain::tool_folders;

use crate::{
    dist, exec, go, installed, programs,
    setup::{self, For},
};

/// The version of the builder, and of what it is told to build.
const VERSION: &str = "0.150.0";
const BUILDER: &str = "go.opentelemetry.io/collector/cmd/builder";
/// Stands for what it is built of, which the version does not say.
const PARTS: &str = "otlp";
const MANIFEST: &str = include_str!("collector.yaml");

/// Gets the collector, and holds the metrics against what it makes of them.
pub fn run() -> Result<()> {
    ensure!(exec::is_root()?, "run it as root: it runs the agent");
    setup::run(For::Testing)?;
    let collector = ensure_collector()?;
    let target = setup::own_target()?;
    let tests = programs::end_to_end(target)?;
    let wad = dist::ship(target)?;
    exec::run(exec::command(&tests).arg("--collector").arg(collector).env("WAD_BIN", wad))?;
    println!("the collector has dropped nothing");
    Ok(())
}

fn ensure_collector() -> Result<PathBuf> {
    let folder = tool_folders::folder(exec::root(), &format!("otelcol-{VERSION}-{PARTS}"));
    let program = |folder: &Path| folder.join("otelcol");
    let works = |folder: &Path| {
        exec::output(Command::new(program(folder)).arg("--version"))
            .is_some_and(|printed| printed.contains(VERSION))
    };
    installed::ensure(&folder, works, |folder| make(folder, &program(folder)))?;
    Ok(program(&folder))
}

fn make(folder: &Path, program: &Path) -> Result<()> {
    let go = || go::command("an OpenTelemetry Collector", "1.25");
    let mut builds = go()?;
    eprintln!("building an OpenTelemetry Collector {VERSION}, once for this version");
    let manifest = folder.join("collector.yaml");
    fs::write(&manifest, MANIFEST).with_context(|| manifest.display().to_string())?;
    let builder = format!("{BUILDER}@v{VERSION}");
    exec::prepare(
        builds
            .args(["run", &builder, "--skip-compilation", "--skip-get-modules"])
            .args(["--config", "collector.yaml"])
            .current_dir(folder),
    )?;
    // The builder would tidy up the modules, for which it gets all that their tests need.
    let build = folder.join("build");
    exec::prepare(
        go()?
            .args(["build", "-mod=mod", "-trimpath", "-ldflags=-s -w", "-o"])
            .arg(program)
            .arg(".")
            .current_dir(&build),
    )?;
    fs::remove_dir_all(&build).with_context(|| build.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::{MANIFEST, VERSION};

    #[test]
    fn the_manifest_is_of_this_version() {
        let of_it = MANIFEST.lines().filter(|line| line.contains(VERSION)).count();
        assert_eq!(of_it, 4, "{MANIFEST}");
        assert!(MANIFEST.contains("otlpreceiver"), "{MANIFEST}");
    }
}
